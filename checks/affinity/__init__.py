"""Checks about affinity."""

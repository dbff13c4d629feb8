"""Checks about doctor."""

"""Checks about gpu."""

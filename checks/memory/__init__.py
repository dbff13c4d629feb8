"""Checks about memory."""

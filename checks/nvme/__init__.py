"""Checks about nvme."""

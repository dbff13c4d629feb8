"""Checks about pcie."""

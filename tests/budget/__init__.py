"""Budgets and plans."""

"""Budgets: how much memory may be pinned on each node, and which engine flags that makes."""

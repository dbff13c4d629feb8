"""Offload variants × context × concurrency: the experiment file, its cells, the runs, the boundary of the SLO."""

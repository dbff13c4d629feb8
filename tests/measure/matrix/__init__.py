"""The offload matrix: cells, order, boundary."""

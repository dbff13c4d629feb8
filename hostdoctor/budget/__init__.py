"""What fits where: pinned memory per NUMA node, and the VRAM and KV plan of a model."""

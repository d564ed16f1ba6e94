"""Check the theorem on trained networks, layer by layer."""

"""From a PyTorch module to a network with norm brackets."""

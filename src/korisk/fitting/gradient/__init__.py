"""Training by gradient steps."""

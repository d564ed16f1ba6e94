"""The Lipschitz constant of each kind of call."""

"""Record what a module calls."""

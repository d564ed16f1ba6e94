"""Run a user's own training function at several sizes and seeds into a store."""

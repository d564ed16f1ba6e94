"""Studies: many cells, run by an engine, kept in a store."""

"""Where a study keeps its cells: SQLite rows and packed arrays."""

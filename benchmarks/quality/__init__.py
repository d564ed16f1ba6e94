"""The house itself: size, coverage, releases, broken files."""

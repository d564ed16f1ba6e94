"""Broken files for every reader."""

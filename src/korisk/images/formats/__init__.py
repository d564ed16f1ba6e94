"""Readers, one for each kind of image file."""

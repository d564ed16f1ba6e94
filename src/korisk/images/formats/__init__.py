"""Readers of image files, a module for each family of formats; `page` has their common parts."""

"""Readers, one file for each family of formats; `page` has what they share."""

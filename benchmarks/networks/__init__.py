"""Described modules, graphs, networks trained together, what operators are worth."""

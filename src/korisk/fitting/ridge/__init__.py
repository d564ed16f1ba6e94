"""Closed-form and iterative ridge fits."""

"""Extrapolation of a pilot: laws of the error, priors over curves, the posterior, relatives."""

"""Predictions and rehearsals beside measured curves."""

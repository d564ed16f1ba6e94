"""Fits: dense layers in dual form, diagonal layers in closed form, anything by gradients."""

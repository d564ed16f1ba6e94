"""Computed tomography: geometry, projector, filter and reconstruction."""

"""Magnetic resonance: `sense.py` has several coils on a grid, `noncartesian.py` any trajectory.

`Fourier`, one coil on a grid, is among the small operators in `basic.py`.
"""

"""Measured learning curves, and the units and noise of their errors.

Start with `curve`. `formats`, `columns` and `read` understand tables of many kinds, `stored` reads
stores, `unit` converts metrics to errors, and `noise` estimates the scatter of seeds.
"""

from korisk.curves.unit import UNITS, Unit

__all__ = ["UNITS", "Unit"]

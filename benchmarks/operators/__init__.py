"""Operators beside those of other libraries: speed, agreement, norms."""

"""The version of korisk, stated only here."""

__version__ = "0.3.0"

"""The one place that states the version."""

__version__ = "0.3.0.dev0"

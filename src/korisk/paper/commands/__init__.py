"""`korisk reproduce`."""

from korisk.paper.commands.reproduce import reproduce

__all__ = ["reproduce"]

"""`korisk reproduce` and `korisk check`."""

from korisk.paper.commands.check import check
from korisk.paper.commands.reproduce import reproduce

__all__ = ["check", "reproduce"]

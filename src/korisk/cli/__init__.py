"""The `korisk` command. Exit codes: 0 done, 2 wrong input, 3 not reachable, 130 interrupted."""

from korisk.cli.app import main

__all__ = ["main"]

"""The `korisk` command, one file a subcommand; `app` has the exit codes."""

from korisk.cli.app import main

__all__ = ["main"]

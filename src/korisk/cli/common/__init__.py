"""Shared parts of commands: declaration, options, output, networks and their training."""

"""Shared parts of commands: declaration, options, output, and the user's own code."""

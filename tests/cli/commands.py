"""The command as tests call it, in this process."""

from korisk.cli import app


def korisk(*arguments: object) -> int:
    """Its exit code."""
    return app.run([str(each) for each in arguments])

"""The command as tests call it, in this process."""

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from korisk.cli import app


def korisk(*arguments: object) -> int:
    """Its exit code."""
    return app.run([str(each) for each in arguments])


def outputs(*arguments: object, code: int = 0) -> tuple[str, str]:
    """What it writes to standard output and standard error, if it leaves with this code."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        assert korisk(*arguments) == code, err.getvalue()
    return out.getvalue(), err.getvalue()


def text(*arguments: object, code: int = 0) -> str:
    """What it prints, whatever the width at which it was broken into lines."""
    return " ".join(outputs(*arguments, code=code)[0].split())


def content(*arguments: object, code: int = 0) -> Any:
    """What it prints as JSON."""
    return json.loads(outputs(*arguments, "--json", code=code)[0])


def refused(*arguments: object, code: int = 2) -> str:
    """The one line in which it refuses."""
    err = outputs(*arguments, code=code)[1]
    assert err.startswith("korisk: ")
    assert err.count("\n") == 1
    return err

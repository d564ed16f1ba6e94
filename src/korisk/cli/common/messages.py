"""Messages on stderr, in the options of the command that runs; nothing here takes long to load."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from shlex import quote

import typer

from korisk.cli.common.command import Command
from korisk.errors import Absent, Argument, KoriskError, KoriskWarning, Message
from korisk.texts import plain

# Arguments that a message advises to add: the command with them is printed, ready to run.
_ADDED = {"columns", "unit", "metric", "model", "point", "worksheet"}
_ADDED |= {"filter", "ignore", "last", "scale", "wide"}
_REPEATED = {"columns", "filter", "ignore", "scale"}

# The current command, set by `app.run`: messages name its options.
running: ContextVar[Command | None] = ContextVar("running", default=None)


def in_options(message: str) -> str:
    """Translate the arguments in a message of the library to options of the current command."""
    command = running.get()
    return message if command is None else command.rendered(message)


def with_command(message: Message, arguments: list[str]) -> str:
    """Translate a message, and append the command that follows its advice.

    There is one if the message names an argument to add, such as columns={'n': 'size'}; if it names
    several, the first is used.
    """
    text = in_options(message)
    for item in message.parts:
        if isinstance(item, Argument) and item.name in _ADDED and item.value not in (Absent, ...):
            option = in_options(Message(item))
            if "..." in str(item) or option == str(item):
                return text
            words = list(arguments)
            with suppress(ValueError):  # replace the option if it was given
                index = words.index(option.partition(" ")[0])
                del words[index : index + (2 if item.name not in _REPEATED else 0)]
            return f"{text}: {' '.join(map(quote, ('korisk', *words)))} {option}"
    return text


def tell(message: str) -> None:
    """Print a line on stderr, so that stdout stays machine-readable."""
    typer.echo(f"korisk: {plain(' '.join(in_options(message).split()))}", err=True)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print warnings of the library as lines on stderr; leave other warnings alone."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", KoriskWarning)
        yield
    # After the block: a line in the midst of a progress display would be overwritten.
    for warning in caught:
        if isinstance(warning.message, KoriskWarning):
            tell(Message("warning: ", *warning.message.args))
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )


def refuse_extra(context: typer.Context, *allowed: str, why: str) -> None:
    """Raise if options are given that would be ignored."""
    for parameter in context.command.params:
        source = getattr(context.get_parameter_source(parameter.name or ""), "name", "")
        if source == "COMMANDLINE" and parameter.name not in allowed:
            raise KoriskError(f"{why}; leave {parameter.opts[0]} out")

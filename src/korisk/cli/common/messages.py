"""Commands whose options are arguments of the library, and its messages in these options.

Nothing here takes long to load.
"""

import inspect
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from shlex import quote
from typing import Any, get_type_hints

import typer
from typer.core import TyperCommand

from korisk.errors import Absent, Argument, KoriskWarning, Message
from korisk.texts import plain

_METAVARS = {"str": "NAME", "Path": "FILE", "int": "N", "float": "X"}  # by type
# Arguments of the library, and their options where these have another name.
_OPTIONS = {"columns": "column", "n": "at", "build": "network", "folder": "resume"}
_OPTIONS |= {"layer": "replace"}
# Arguments that a message advises to add: the command with them is printed, ready to run.
_ADDED = {"columns", "unit", "metric", "model", "point", "worksheet"}
_ADDED |= {"filter", "ignore", "wide"}
_REPEATED = {"columns", "filter", "ignore"}


def with_options(function: Callable[..., None]) -> Callable[..., None]:
    """Replace parameters whose type is a dataclass of options by its fields, in their order."""
    groups: dict[str, Any] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(function, eval_str=True).parameters.items():
        if not is_dataclass(parameter.annotation):
            parameters.append(parameter)
            continue
        groups[name] = parameter.annotation
        kinds = get_type_hints(parameter.annotation, include_extras=True)
        for option in fields(parameter.annotation):
            about: Any = {"name": option.name, "annotation": kinds[option.name]}
            default = None if option.default is MISSING else option.default
            parameters.append(parameter.replace(**about, default=default))
    if not groups:
        return function

    @wraps(function)
    def call(**options: Any) -> None:
        for name, group in groups.items():
            options[name] = group(**{f.name: options.pop(f.name) for f in fields(group)})
        function(**options)

    del vars(call)["__wrapped__"]  # Typer would look at the parameters of that function
    vars(call)["__signature__"] = inspect.Signature(parameters)
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


class Command(TyperCommand):
    """A command whose options are arguments of the library.

    In the annotation `Annotated[type, "E", "The value."]` of an option, the single word is its
    metavar and the sentence its help, to which a list adds that it can be repeated.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        hints = get_type_hints(inspect.unwrap(settings["callback"]), include_extras=True)
        parameter: Any  # options and positional arguments share no type that has a help
        for parameter in self.params:
            hint = hints.get(parameter.name or "")
            texts = [text for text in getattr(hint, "__metadata__", ()) if isinstance(text, str)]
            if texts and " " in texts[-1]:
                repeatable = getattr(parameter, "multiple", False)
                parameter.help = texts.pop() + " Repeatable." * repeatable
            if not getattr(parameter, "is_flag", False):
                kinds = [
                    _METAVARS[word] for word in re.findall(r"\w+", str(hint)) if word in _METAVARS
                ]
                parameter.metavar = texts[0] if texts else next(iter(kinds), None)
            elif not parameter.default:
                # Typer would add --no-json to every flag.
                parameter.secondary_opts = []

    def rendered(self, message: str) -> str:
        """Translate a message to this command: `unit='dB'` becomes `--unit dB`."""
        if not isinstance(message, Message):
            return message
        return "".join(
            item if isinstance(item, str) else self.option(item) for item in message.parts
        )

    def option(self, argument: Argument) -> str:
        """Write an argument as an option of this command, or as in Python if it has none."""
        names = argument.name, _OPTIONS.get(argument.name)
        flags = [spec.opts[0] for name in names for spec in self.params if spec.name == name]
        if not flags or not flags[0].startswith("-"):  # a positional argument has no flag
            return str(argument)
        option, value = flags[0], argument.value
        # Compared by identity: the number 1 equals True, and is a value.
        if any(value is flag for flag in (Absent, ..., True)):
            return option
        if isinstance(value, dict):  # one option for each pair
            value = [
                f"{name}={'...' if text is ... else text}"
                for name, content in value.items()
                for text in (content if isinstance(content, list) else [content])
            ]
        texts = value if isinstance(value, list) else [value]
        return " ".join(f"{option} {quote(str(text))}" for text in texts)


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

"""Commands whose options are arguments of the library: its messages name them as options."""

import inspect
import re
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import wraps
from shlex import quote
from typing import Any, get_type_hints

from typer.core import TyperCommand

from korisk.errors import Absent, Argument, Message

_METAVARS = {"str": "NAME", "Path": "FILE", "int": "N", "float": "X"}  # by type
# Arguments of the library, and their options where these have another name.
_OPTIONS = {"columns": "column", "n": "at", "build": "network", "folder": "resume"}
_OPTIONS |= {"layer": "replace"}


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
    metavar and the sentence its help.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        hints = get_type_hints(inspect.unwrap(settings["callback"]), include_extras=True)
        parameter: Any  # options and positional arguments share no type that has a help
        for parameter in self.params:
            hint = hints.get(parameter.name or "")
            texts = [text for text in getattr(hint, "__metadata__", ()) if isinstance(text, str)]
            if texts and " " in texts[-1]:
                parameter.help = texts.pop()
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
            pairs = [
                f"{name}={'...' if text is ... else text}"
                for name, content in value.items()
                for text in (content if isinstance(content, list) else [content])
            ]
            return " ".join(f"{option} {quote(pair)}" for pair in pairs)
        if isinstance(value, list):
            return " ".join(f"{option} {quote(str(text))}" for text in value)
        return f"{option} {quote(str(value))}"

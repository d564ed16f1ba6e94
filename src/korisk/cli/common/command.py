"""Commands whose options are arguments of the library: help and errors come from one place.

A command names the functions it calls. The help of an option is the description of that argument
in their docstrings, read from the source files when help is asked for, so that describing a command
imports nothing. Messages of the library name arguments; a command translates them to its options.
"""

import ast
import inspect
import re
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from functools import cache, wraps
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar, cast, get_type_hints

from typer.core import TyperCommand

import korisk
from korisk.errors import Absent, Argument, Message

_Function = TypeVar("_Function", bound=Callable[..., None])

_METAVARS = {"str": "NAME", "Path": "FILE", "int": "N", "float": "X"}  # by type
_SECTION = re.compile(r"^Parameters\n-+\n(.*?)(?=\n\w[\w ]*\n-+\n|\Z)", re.DOTALL | re.MULTILINE)
_ENTRY = re.compile(r"^(\w[\w, ]*) : (.+)\n((?: {4}.*\n?|\n)+)", re.MULTILINE)
_DEFAULT = re.compile(r"(?:Default:|By default) (.+)\.")
_SENTENCE = re.compile(r"(?<=\.) (?=[A-Z`])")


def command(*calls: str, **options: str) -> Callable[[_Function], _Function]:
    """Name the functions a command calls, as dotted paths inside korisk; earlier ones win.

    Keywords map an argument to an option of another name: `columns="column"`.
    """

    def marked(function: _Function) -> _Function:
        call = _with_fields(function)
        vars(call).update(calls=calls, options=options)  # Typer copies the attributes
        return call

    return marked


def _with_fields(function: _Function) -> _Function:
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
    return cast(_Function, call)


class Command(TyperCommand):
    """A command that `command` marked.

    In the annotation `Annotated[type, "E", "The value."]` of an option, the single word is its
    metavar and the sentence its help; options that the library documents need no sentence.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        function = inspect.unwrap(settings["callback"])
        self.calls: tuple[str, ...] = vars(function).get("calls", ())
        self.option_of: dict[str, str] = vars(function).get("options", {})
        self.hints = hints = get_type_hints(function, include_extras=True)
        parameter: Any  # options and positional arguments share no type that has a help
        for parameter in self.params:
            annotations = getattr(hints.get(parameter.name or ""), "__metadata__", ())
            texts = [text for text in annotations if isinstance(text, str)]
            if texts and " " in texts[-1]:
                parameter.help = texts.pop()
            if texts:
                parameter.metavar = texts[0]
            if getattr(parameter, "is_flag", False) and not parameter.default:
                # Typer would add --no-json to every flag.
                parameter.secondary_opts = []

    def describe(self) -> None:
        """Fill in missing help and metavars from the docstrings."""
        argument_of = {option: argument for argument, option in self.option_of.items()}
        arguments: dict[str, tuple[str, str]] = {}
        # Reversed, so that the first function overrides the others.
        for dotted_path in reversed(self.calls):
            arguments |= documented(dotted_path)
        parameter: Any
        for parameter in self.params:
            name = parameter.name or ""
            kind, text = arguments.get(name) or arguments.get(argument_of.get(name, ""), ("", ""))
            if not parameter.help:
                first, *further = _SENTENCE.split(text.replace("`", ""))
                default = next((text[1] for text in map(_DEFAULT.match, further) if text), "")
                kind_default = re.search(r"default (.+)", kind)
                if kind_default and not default and kind_default[1] not in ("()", "False", "True"):
                    default = kind_default[1].replace('"', "")
                repeated = " Repeatable." * bool(getattr(parameter, "multiple", False))
                # Typer itself shows a default that is not None.
                suffix = f" [default: {default}]" if default and parameter.default is None else ""
                parameter.help = first + repeated + suffix
            if not parameter.metavar and not getattr(parameter, "is_flag", False):
                # numpydoc writes choices as {"auto", "cpu"}.
                choices = (
                    re.findall(r'"([^"]+)"', kind.partition("}")[0]) if kind[:1] == "{" else ()
                )
                type_names = re.findall(r"\w+", str(self.hints.get(parameter.name, "")))
                metavars = [_METAVARS[word] for word in type_names if word in _METAVARS]
                parameter.metavar = "|".join(choices) or (metavars[0] if metavars else None)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Fill in the help before Typer formats it."""
        self.describe()
        super().format_help(ctx, formatter)

    def rendered(self, message: str) -> str:
        """Translate a message to this command: `unit='dB'` becomes `--unit dB`."""
        if not isinstance(message, Message):
            return message
        return "".join(
            item if isinstance(item, str) else self.option(item) for item in message.parts
        )

    def option(self, argument: Argument) -> str:
        """Write an argument as an option of this command, or as in Python if it has none."""
        name = self.option_of.get(argument.name, argument.name)
        flags = [spec.opts[0] for spec in self.params if spec.name == name]
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


@cache
def documented(dotted_path: str) -> dict[str, tuple[str, str]]:
    """Type and description of each parameter, from the docstring of a function or class."""
    # Folders and the file come first in the dotted path, then classes and functions in it.
    path, *names = Path(korisk.__file__).parent, *dotted_path.split(".")
    while not path.suffix:
        path = path / names.pop(0)
        path = path if path.is_dir() else path.with_suffix(".py")
    node: Any = ast.parse(path.read_text(encoding="utf-8"))
    for name in names:
        node = next(child for child in node.body if getattr(child, "name", "") == name)
    section = _SECTION.search(ast.get_docstring(node) or "")
    return {
        name: (kind, " ".join(meaning.split()))
        for names_text, kind, meaning in _ENTRY.findall(section[1] if section else "")
        for name in names_text.split(", ")
    }

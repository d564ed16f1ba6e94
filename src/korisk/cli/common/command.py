"""Commands whose options are arguments of the library: their help and their errors from one place.

A command says which functions it calls. What an option means is what their docstrings say of that
argument; they are read from the source when help is asked for, so that nothing is imported to
describe a command. Messages of the library name arguments, which a command knows by its options.
"""

import ast
import inspect
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from shlex import quote
from typing import Any, TypeVar, get_type_hints

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
    """Say which functions a command calls, by their places inside korisk; the first is read first.

    Keywords name the option of an argument that is called otherwise: `columns="column"`, and
    `steps="training steps"` for a key of an option with several.
    """

    def marked(function: _Function) -> _Function:
        vars(function).update(calls=calls, options=options)  # which Typer copies
        return function

    return marked


class Command(TyperCommand):
    """A command that `command` marked.

    Of an option's annotation `Annotated[type, "E", "The value."]` the word is its metavar, and the
    sentence its help, for what is no argument of the library.
    """

    def __init__(self, *given: Any, **settings: Any) -> None:
        super().__init__(*given, **settings)
        function = inspect.unwrap(settings["callback"])
        self.calls: tuple[str, ...] = vars(function).get("calls", ())
        self.option_of: dict[str, str] = vars(function).get("options", {})
        self.hints = hints = get_type_hints(function, include_extras=True)
        parameter: Any  # options and positional arguments have no common type with a help
        for parameter in self.params:
            said = getattr(hints.get(parameter.name or ""), "__metadata__", ())
            texts = [text for text in said if isinstance(text, str)]
            if texts and " " in texts[-1]:
                parameter.help = texts.pop()
            if texts:
                parameter.metavar = texts[0]
            if getattr(parameter, "is_flag", False) and not parameter.default:
                parameter.secondary_opts = []  # no --no-json

    def describe(self) -> None:
        """Give every parameter its help and metavar from the docstrings, where it has none."""
        argument_of = {option.split()[0]: argument for argument, option in self.option_of.items()}
        arguments: dict[str, tuple[str, str]] = {}
        for place in reversed(self.calls):
            arguments |= documented(place)
        parameter: Any
        for parameter in self.params:
            name = parameter.name or ""
            kind, text = arguments.get(name) or arguments.get(argument_of.get(name, ""), ("", ""))
            if not parameter.help:
                first, *others = _SENTENCE.split(text.replace("`", ""))
                default = next((text[1] for text in map(_DEFAULT.match, others) if text), "")
                usual = re.search(r"default (.+)", kind)
                if usual and not default and usual[1] not in ("()", "False", "True"):
                    default = usual[1].replace('"', "")
                repeated = " Repeatable." * bool(getattr(parameter, "multiple", False))
                told = f" [default: {default}]" if default and parameter.default is None else ""
                parameter.help = first + repeated + told
            if not parameter.metavar and not getattr(parameter, "is_flag", False):
                choices = (
                    re.findall(r'"([^"]+)"', kind.partition("}")[0]) if kind[:1] == "{" else ()
                )
                words = re.findall(r"\w+", str(self.hints.get(parameter.name, "")))
                metavars = [_METAVARS[word] for word in words if word in _METAVARS]
                parameter.metavar = "|".join(choices) or (metavars[0] if metavars else None)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Describe the parameters, then the command."""
        self.describe()
        super().format_help(ctx, formatter)

    def rendered(self, message: str) -> str:
        """A message as this command says it: `--unit dB` where the library says `unit='dB'`."""
        parts = message.parts if isinstance(message, Message) else (message,)
        return "".join(part if isinstance(part, str) else self.option(part) for part in parts)

    def option(self, argument: Argument) -> str:
        """An argument as it is given to this command; as in Python if there is no such option."""
        name, _, key = self.option_of.get(argument.name, argument.name).partition(" ")
        known = [each for each in self.params if each.name == name and each.opts[0][0] == "-"]
        if not known:
            return str(argument)
        option, value = f"{known[0].opts[0]} {key}".strip(), argument.value
        if any(value is wordless for wordless in (Absent, ..., True)):  # 1 == True
            return option
        if isinstance(value, dict):  # one option for each pair
            pairs = [
                (ours, "..." if text is ... else text)
                for ours, theirs in value.items()
                for text in (theirs if isinstance(theirs, list) else [theirs])
            ]
            return " ".join(f"{option} {quote(f'{ours}={text}')}" for ours, text in pairs)
        if isinstance(value, list):
            return " ".join(f"{option} {quote(str(text))}" for text in value)
        return f"{option} {quote(str(value))}" if not key else f"{option}={quote(str(value))}"


@cache
def documented(place: str) -> dict[str, tuple[str, str]]:
    """The type and the meaning of each parameter, by the docstring of a function or class."""
    path, *names = Path(korisk.__file__).parent, *place.split(".")
    while not path.suffix:
        path = path / names.pop(0)
        path = path if path.is_dir() else path.with_suffix(".py")
    node: Any = ast.parse(path.read_text(encoding="utf-8"))
    for name in names:
        node = next(each for each in node.body if getattr(each, "name", "") == name)
    section = _SECTION.search(ast.get_docstring(node) or "")
    return {
        name: (kind, " ".join(meaning.split()))
        for listed, kind, meaning in _ENTRY.findall(section[1] if section else "")
        for name in listed.split(", ")
    }

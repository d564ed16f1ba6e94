"""What the commands share in how they print."""

import json
import math
import re
import warnings
from ast import literal_eval
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from shlex import quote
from typing import Any, Literal
from unicodedata import bidirectional, category

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from korisk.errors import KoriskError, KoriskWarning
from korisk.files import write_text

NARROWEST = 110
_TURNS = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")


def plain(text: str) -> str:
    """A text with control characters and changes of writing direction written as escapes."""
    if text.isprintable():
        return text
    return "".join(
        each.encode("unicode_escape").decode()
        if each != "\n" and (category(each) in ("Cc", "Cs") or bidirectional(each) in _TURNS)
        else each
        for each in text
    )


# Arguments of the library whose options have other names on the command line.
_OPTIONS = {"store": "out", "columns": "column", "pixel_spacing": "pixel", "bin_spacing": "bin"}
_OPTIONS |= {"detector_offset": "offset", "build": "network", "sizes": "training largest"}
_OPTIONS |= {name: f"training {name}" for name in ("steps", "batch", "rate", "seeds")}
_TEXT = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_ARGUMENT = re.compile(rf"(?<![\w-])([a-z_]+)=(True|{_TEXT}|\{{(?:{_TEXT}|[^}}'\"])*\}}|)(?![\w])")


# The options of the command that runs, which `app.run` sets; asked for when a message needs them.
options_in_use: ContextVar[Callable[[], Collection[str]]] = ContextVar("options", default=tuple)


def with_options(text: str) -> str:
    """A message of the library as the command line says it: `unit='dB'` becomes `--unit dB`.

    Library messages name Python arguments as `name=`; this is the one place that translates them,
    where the command that runs has such an option.
    """

    def replaced(found: re.Match[str]) -> str:
        name, value = found[1], found[2]
        option = _option(name)
        if option is None:
            return found[0]
        try:
            given = literal_eval(value)
        except (ValueError, SyntaxError):  # a word alone, such as unit=
            return f"{option} {value}".strip()
        if isinstance(given, dict):  # one option for each pair
            pairs = ((key, "..." if each is ... else each) for key, each in given.items())
            return " ".join(f"{option} {quote(f'{key}={each}')}" for key, each in pairs)
        return option if given is True else f"{option} {quote(str(given))}"

    first, found, rest = text.partition(" must ")  # `unit must be one of ...`
    if found and first.isidentifier() and (option := _option(first)) is not None:
        text = option + found + rest
    return _ARGUMENT.sub(replaced, text)


def _option(name: str) -> str | None:
    """What the command that runs calls an argument of the library, if it has it."""
    for each in (_OPTIONS.get(name, name), name):
        option = "--" + each.replace("_", "-")
        if option.split()[0] in options_in_use.get()():
            return option
    return None


class _Console(Console):
    """A console that leaves a closed pipe to the command, which ends quietly then."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError

    def print(self, *objects: Any, **options: Any) -> None:
        """Texts come from files too, which must not steer the terminal."""
        shown = (plain(each) if isinstance(each, str) else each for each in objects)
        super().print(*shown, **options)


def console() -> Console:
    """A console for stdout; wide enough for the tables where there is no terminal to ask."""
    plain = _Console(markup=False, emoji=False)  # names and paths are shown as they are
    if plain.is_terminal:
        return plain
    return _Console(markup=False, emoji=False, width=max(plain.width, NARROWEST))


def table(title: str, *columns: str, text: int = 1) -> Table:
    """A table whose first `text` columns are words and whose others are numbers."""
    made = Table(
        title=Text(plain(title)),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        padding=0,  # narrow, so that the widest table fits a terminal of 80 columns
        pad_edge=False,
    )
    for position, column in enumerate(columns):
        justify: Literal["left", "right"] = "left" if position < text else "right"
        made.add_column(Text(plain(column)), justify=justify, overflow="fold")
    return made


def cells(*values: str) -> list[Text]:
    """Cells that show names as they are, whatever brackets they contain."""
    return [Text(plain(value)) for value in values]


def number(value: float, digits: int = 4) -> str:
    """A number with a few digits."""
    return f"{value:.{digits}g}"


def whole(value: int) -> str:
    """A count with its thousands apart, or as a power of ten where it is very long."""
    return f"{value:,}" if value < 10**12 else short(value)


def short(value: int) -> str:
    """A count in few characters: whole below ten million, with four digits above."""
    return f"{value:,}" if value < 10**7 else f"{value:.4g}" if value < 10**300 else "> 1e300"


def duration(seconds: float) -> str:
    """A span of time in the unit that suits it: `3.2 s`, `12 min`, `4.5 h`, `17 days`."""
    if math.isnan(seconds):
        return "-"
    for size, unit, until in ((1, "s", 90), (60, "min", 90), (3600, "h", 48)):
        if seconds < until * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds / 86400:,.3g} days"


def write_page(path: Path, text: str) -> None:
    """Write a page and say so on stderr, where it disturbs no machine that reads stdout."""
    write_text(path, text)
    typer.echo(f"korisk: wrote {path}", err=True)


def fields(source: object, *names: str) -> dict[str, Any]:
    """Some attributes of an object, for JSON."""
    return {name: getattr(source, name) for name in names}


def with_command(text: str, arguments: list[str]) -> str:
    """A message in the words of the command line, with the command that follows its advice.

    That is possible where the message names an argument to add, such as columns={'n': 'size'}; of
    several it takes the first.
    """
    said, added = with_options(text), {"columns", "unit", "metric", "model", "point", "sheet"}
    found = next((each for each in _ARGUMENT.finditer(text) if each[1] in added and each[2]), None)
    if not found or "..." in found[2] or (option := with_options(found[0])) == found[0]:
        return said
    kept = list(arguments)
    with suppress(ValueError):  # an option that was given already is given anew
        place = kept.index(option.partition(" ")[0])
        del kept[place : place + (2 if found[1] != "columns" else 0)]
    return f"{said}: {' '.join(map(quote, ('korisk', *kept)))} {option}"


def refuse_extra(context: typer.Context, *allowed: str, why: str) -> None:
    """Refuse options that would be ignored beside one that asks for something smaller."""
    for each in context.command.params:
        given = getattr(context.get_parameter_source(each.name or ""), "name", "")
        if given == "COMMANDLINE" and each.name not in allowed:
            raise KoriskError(f"{why}; leave {each.opts[0]} out")


def print_json(content: Any) -> None:
    """Print a result for machines."""
    print(json_text(content))


def json_text(content: Any) -> str:
    """A result for machines; what is infinite or undefined becomes null."""
    return json.dumps(_finite(content), indent=2, allow_nan=False)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """What the library warns of, as lines on stderr; other warnings are left as they are."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", KoriskWarning)
        yield
    for each in caught:
        if issubclass(each.category, KoriskWarning):
            line = with_options(" ".join(str(each.message).split()))
            typer.echo(f"korisk: warning: {plain(line)}", err=True)
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


def _finite(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_finite(value) for value in content]
    if isinstance(content, float) and not math.isfinite(content):
        return None
    return content

"""A table that was dropped on the page of `serve`: its plan, or a question in the page's words.

It runs in a process of its own, with limits. What a table leaves open is asked: messages name the
fields of the page where the library names its arguments, and what they suggest becomes buttons.
"""

import json
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from korisk._json import JsonDict
from korisk.curves.curve import Curve
from korisk.errors import Absent, Argument, KoriskError, Message, invalid

FIELDS = {  # of the form, by the arguments that they are
    "target": "Target",
    "n": "Column with N",
    "error": "Column with errors",
    "seed": "Column with seeds",
    "model": "Column with models",
    "metric": "Column with metrics",
    "only_model": "Model",
    "only_metric": "Metric",
    "unit": "Unit",
    "filter": "Rows to read",
    "ignore": "Columns to ignore",
    "last": "Last of",
    "best": "Best of",
    "scale": "Times",
    "wide": "Each column is",
    "seeds": "Seeds behind each mean",
    "worksheet": "Worksheet",
    "point": "Point of the study",
}
_COLUMNS = ("n", "error", "seed", "model", "metric")
_ONE_OF_SEVERAL = {"model": "only_model", "metric": "only_metric"}  # names that columns have too
_PAIRED = ("filter", "scale")  # fields with texts such as set=test; parted by a semicolon
_MEMORY = 4 << 30  # bytes


def work(seconds: int) -> None:
    """Plan the table in the working folder as standard input asks; print the answer as JSON."""
    with suppress(ImportError, OSError, ValueError):  # not on every system
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.alarm(2 * seconds)  # where the one that waits for it has died
    asked = json.loads(sys.stdin.buffer.read())
    try:
        answer: JsonDict = {"html": table_page(**asked)}
    except KoriskError as error:
        answer = {"error": in_fields(error.message), "suggestions": suggestions(error.message)}
    except MemoryError:
        answer = {"error": f"{asked['name']}: takes too much memory; thin it first"}
    sys.stdout.write(json.dumps(answer))


def table_page(
    name: str,
    *,
    target: str = "",
    only_model: str = "",
    only_metric: str = "",
    unit: str = "",
    worksheet: str = "",
    point: str = "",
    **columns: str,
) -> str:
    """The page of a table, as the fields of the form ask for it; empty ones ask for nothing."""
    goal = _number("target", target) if target.strip() else None
    texts = {"metric": only_metric, "unit": unit, "point": point, "worksheet": worksheet}
    texts |= {option: columns.get(option, "") for option in ("last", "best", "wide")}
    given: dict[str, Any] = {option: text.strip() or None for option, text in texts.items()}
    given["columns"] = {
        ours: theirs for ours in _COLUMNS if (theirs := columns.get(ours, "").strip())
    }
    given["ignore"] = _parts(columns.get("ignore", ""))
    given["filter"] = dict(_pair("filter", text) for text in _parts(columns.get("filter", "")))
    given["scale"] = {
        ours: _number("scale", factor)
        for ours, factor in (_pair("scale", text) for text in _parts(columns.get("scale", "")))
    }
    if seeds := columns.get("seeds", "").strip():
        given["seeds"] = int(_number("seeds", seeds))
    curves: Sequence[Curve]
    if only_model.strip():
        curves = [Curve.read(name, model=only_model.strip(), **given)]
    else:
        curves = Curve.read_all(name, **given)
    # Imported here, since it takes longer to load than it takes to refuse a table.
    from korisk.report.page.page import pilot_page

    return pilot_page(curves, title=name, target=goal)


def _number(field: str, text: str) -> float:
    try:
        return float(text.strip().replace(",", "."))
    except ValueError:
        raise invalid(field, "be a number", text, "write it as 0.01") from None


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(";") if part.strip()]


def _pair(field: str, text: str) -> tuple[str, str]:
    name, between, value = text.partition("=")
    if not between:
        raise invalid(field, "be written as NAME=VALUE", text, "write set=test, for example")
    return name.strip(), value.strip()


def in_fields(message: Message) -> str:
    """A message in the words of the page: its fields, where the library names its arguments."""

    def worded(argument: Argument) -> str:
        said = []
        for field, value in _fields(argument):
            answer = "" if value in (Absent, ..., "...") else f": {value}"
            said.append(f"“{FIELDS[field]}{answer}”")
        return ", ".join(said) or str(argument)

    said = "".join(part if isinstance(part, str) else worded(part) for part in message.parts)
    return " ".join(said.replace("pass “", "choose “").split())


def suggestions(message: Message) -> list[JsonDict]:
    """The fields that a message names, each with its name, and with a value if it suggests one."""
    named = []
    for part in message.parts:
        for field, value in _fields(part) if isinstance(part, Argument) else ():
            if value is not Absent:
                text = "" if value in (..., "...") else str(value)
                named.append({"field": field, "name": FIELDS[field], "value": text})
    return named


def _fields(argument: Argument) -> list[tuple[str, object]]:
    """The fields of the form that an argument is, with its values."""
    if argument.name == "columns":
        pairs = argument.value if isinstance(argument.value, dict) else {}
        return [(name, value) for name, value in pairs.items() if name in _COLUMNS]
    if argument.name in _PAIRED and isinstance(argument.value, dict):
        texts = [
            f"{name}={'...' if value is ... else value}"
            for name, values in argument.value.items()
            for value in (values if isinstance(values, list) else [values])
        ]
        return [(argument.name, "..." if "..." in "".join(texts) else "; ".join(texts))]
    if argument.name == "ignore" and isinstance(argument.value, list):
        return [("ignore", "; ".join(argument.value))]
    field = _ONE_OF_SEVERAL.get(argument.name, argument.name)
    return [(field, argument.value)] if field in FIELDS else []

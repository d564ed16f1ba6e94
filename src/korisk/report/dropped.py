"""Plan a table that was dropped on the page of `serve`, or ask what is ambiguous about it.

It runs in a process of its own, with limits on time and memory. Messages of the library name its
arguments; here they name the fields of the page, and the suggested values become buttons.
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
from korisk.planning.limits import Evidence

# Labels of the form's fields, by the arguments they set.
FIELDS = {
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
# The arguments `model` and `metric` choose one; the fields of these names choose columns.
_ONE_OF_SEVERAL = {"model": "only_model", "metric": "only_metric"}
_PAIRED = ("filter", "scale")  # fields such as "set=test; device=A"
_MEMORY = 4 << 30  # bytes; a pilot is a small table


def work(seconds: int) -> None:
    """Plan the table in the working folder; the request is JSON on stdin, the answer on stdout."""
    # Limits of the process, which Windows lacks: no memory without end, no core file.
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # The parent kills a slow process; the alarm ends it if the parent has died.
        signal.alarm(2 * seconds)
    request = json.loads(sys.stdin.buffer.read())
    try:
        answer: JsonDict = {"html": table_page(**request)}
    except KoriskError as error:
        answer = {"error": in_fields(error.message), "suggestions": suggestions(error.message)}
    except MemoryError:
        answer = {"error": f"{request['name']}: takes too much memory; thin it first"}
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
    """Build the page of a table from the fields of the form; empty fields are left out."""
    # Fields of the form are texts: empty ones mean that nothing is chosen.
    target_value = _number("target", target) if target.strip() else None
    texts = {"metric": only_metric, "unit": unit, "point": point, "worksheet": worksheet}
    texts |= {option: columns.get(option, "") for option in ("last", "best", "wide")}
    options: dict[str, Any] = {option: text.strip() or None for option, text in texts.items()}
    fields = {ours: columns.get(ours, "").strip() for ours in _COLUMNS}
    options["columns"] = {ours: column for ours, column in fields.items() if column}
    options["ignore"] = _split(columns.get("ignore", ""))
    options["filter"] = dict(_pair("filter", text) for text in _split(columns.get("filter", "")))
    options["scale"] = {
        ours: _number("scale", factor)
        for ours, factor in (_pair("scale", text) for text in _split(columns.get("scale", "")))
    }
    if seeds := columns.get("seeds", "").strip():
        options["seeds"] = int(_number("seeds", seeds))
    curves: Sequence[Curve]
    if only_model.strip():
        curves = [Curve.read(name, model=only_model.strip(), **options)]
    else:
        curves = Curve.read_all(name, **options)
    # Imported here: loading Matplotlib takes longer than refusing a table.
    from korisk.report.page.answers import refuse_ignored_evidence
    from korisk.report.page.page import pilot_page

    for curve in curves:
        refuse_ignored_evidence(curve, Evidence.read(name, curve), target_value)
    return pilot_page(curves, title=name, target=target_value)


def _number(field: str, text: str) -> float:
    try:
        # Many users type a decimal comma.
        return float(text.strip().replace(",", "."))
    except ValueError:
        raise invalid(field, "be a number", text, "write it as 0.01") from None


def _split(text: str) -> list[str]:
    return [entry.strip() for entry in text.split(";") if entry.strip()]


def _pair(field: str, text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise invalid(field, "be written as NAME=VALUE", text, "write set=test, for example")
    return name.strip(), value.strip()


def in_fields(message: Message) -> str:
    """Translate the arguments in a message to fields of the page."""

    def worded(argument: Argument) -> str:
        names = []
        for field, value in _fields(argument):
            answer = "" if value in (Absent, ..., "...") else f": {value}"
            names.append(f"“{FIELDS[field]}{answer}”")
        return ", ".join(names) or str(argument)

    text = "".join(item if isinstance(item, str) else worded(item) for item in message.parts)
    # The library says "pass columns=..."; on a page one chooses.
    return " ".join(text.replace("pass “", "choose “").split())


def suggestions(message: Message) -> list[JsonDict]:
    """Fields that a message names, with labels, and with values where it suggests them."""
    entries = []
    for item in message.parts:
        for field, value in _fields(item) if isinstance(item, Argument) else ():
            if value is not Absent:
                text = "" if value in (..., "...") else str(value)
                entries.append({"field": field, "name": FIELDS[field], "value": text})
    return entries


def _fields(argument: Argument) -> list[tuple[str, object]]:
    """Fields of the form that an argument corresponds to, with their values."""
    if argument.name == "columns":
        pairs = argument.value if isinstance(argument.value, dict) else {}
        return [(name, value) for name, value in pairs.items() if name in _COLUMNS]
    if argument.name in _PAIRED and isinstance(argument.value, dict):
        texts = [
            f"{name}={'...' if value is ... else value}"
            for name, values in argument.value.items()
            for value in (values if isinstance(values, list) else [values])
        ]
        # With a value to be filled in, the field is named without a suggestion.
        return [(argument.name, "..." if "..." in "".join(texts) else "; ".join(texts))]
    if argument.name == "ignore" and isinstance(argument.value, list):
        return [("ignore", "; ".join(argument.value))]
    field = _ONE_OF_SEVERAL.get(argument.name, argument.name)
    return [(field, argument.value)] if field in FIELDS else []

"""Safe reading and writing of users' files, bounded in size, with errors that name the place.

All YAML files are read here, as YAML 1.2. The same problems raise the same errors everywhere: files
that are missing, empty, too large or not text, tags that would build objects, aliases (a few lines
of them can expand without limit), duplicate keys, unknown keys.
"""

import errno
import json
import math
import os
import re
import secrets
import select
import stat
from collections.abc import Hashable
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from korisk._checks import path as checked_path
from korisk._checks import unique_keys
from korisk.errors import KoriskError, did_you_mean, invalid, shown

MAX_YAML_BYTES = 200_000  # some 6,000 layers, read in seconds
MAX_VALUE = 20_000  # characters; numbers of more digits take long to read
FIGURE_KINDS = ("png", "svg", "pdf")
PATIENCE = 30.0  # seconds to wait for the first bytes of a pipe
_DATABASE = b"SQLite format 3\0"
_PIECE = 2**20  # bytes that are read at once
# Spreadsheets run such a cell as a formula; korisk reads a line that begins with # or % as comment.
_FORMULA = re.compile(r"'*(\s*[=+\-@#%\uff1d\uff0b\uff0d\uff20]|[\t\r\n])")
_RULES = {
    "string_type": ("a text", "quote it"),
    "float_type": ("a number", "write it as 1000, 0.001 or 1e-3"),
    "int_type": ("a whole number", "write it in digits, as 1000"),
    "bool_type": ("true or false", "write one of them"),
    "list_type": ("a list", "start every entry with '- '"),
    "tuple_type": ("a list", "start every entry with '- '"),
    "too_short": ("a list of one entry or more", "add one"),
    "too_long": ("a shorter list", "leave some out"),
}
_INT, _FLOAT = "tag:yaml.org,2002:int", "tag:yaml.org,2002:float"
_CORE_SCHEMA = [  # in the order in which they are tried
    ("tag:yaml.org,2002:null", r"null|Null|NULL|~|", ["n", "N", "~", ""]),
    ("tag:yaml.org,2002:bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    (_INT, r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", list("-+0123456789")),
    (
        _FLOAT,
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?"
        r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
]

Model = TypeVar("Model", bound=BaseModel)


class Spec(BaseModel):
    """Base of the models that describe files: strict types, no unknown keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def read_yaml(path: str | PathLike[str]) -> Any:
    """The content of a YAML file as plain values."""
    text = read_text(path, max_bytes=MAX_YAML_BYTES)
    if not text.strip():
        raise KoriskError(f"{path}: the file is empty; see examples/ for complete ones")
    try:
        return yaml.load(text, Loader=StrictLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        location = f"{path}, line {mark.line + 1}, column {mark.column + 1}" if mark else f"{path}"
        line = _one_line(error.problem)
        remedy = "" if ";" in line else "; correct it"
        raise KoriskError(f"{location}: not valid YAML: {line}{remedy}") from None
    except yaml.reader.ReaderError as error:
        number = text.count("\n", 0, error.position) + 1
        problem = f"line {number} contains the control character U+{ord(text[error.position]):04X}"
        raise KoriskError(f"{path}: not valid YAML: {problem}; remove it") from None
    except RecursionError:
        raise KoriskError(f"{path}: nested too deeply; flatten the file") from None
    except (yaml.YAMLError, ValueError, OverflowError) as error:  # e.g. a date that does not exist
        if "integer string conversion" in str(error):
            raise KoriskError(f"{path}: a number has too many digits; shorten it") from None
        raise KoriskError(f"{path}: not valid YAML: {_one_line(str(error))}; correct it") from None


def write_yaml(path: str | PathLike[str], content: Any) -> None:
    """Write plain values as YAML that `read_yaml` takes back."""
    text = yaml.dump(content, Dumper=_Dumper, sort_keys=False, allow_unicode=True)
    if (size := len(text.encode("utf-8", "backslashreplace"))) > MAX_YAML_BYTES:
        limit = f"files beyond {MAX_YAML_BYTES / 1e6:g} MB are not read; write it in parts"
        raise KoriskError(f"{path}: would have {size / 1e6:.2g} MB, and {limit}")
    write_text(path, text)


def to_cell(value: Any) -> Any:
    """A value for CSV: a text that would be run or skipped gets a leading apostrophe."""
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def from_cell(text: str) -> str:
    """The original text of `to_cell`."""
    return text[1:] if text.startswith("'") and _FORMULA.match(text) else text


def read_bytes(path: str | PathLike[str], *, max_bytes: int) -> bytes:
    """The content of a file; at most `max_bytes` are read."""
    checked_path("path", path, remedy="name the file to read")
    try:
        with _opened(path) as file:
            # One byte more than allowed, to notice a larger file.
            # In pieces, since read(n) allocates n bytes at once.
            pieces, remaining = [], max_bytes + 1
            while remaining > 0 and (piece := file.read(min(remaining, _PIECE))):
                pieces.append(piece)
                remaining -= len(piece)
            content = b"".join(pieces)
    except FileNotFoundError:
        raise KoriskError(f"{path}: no such file; check the path") from None
    except IsADirectoryError:
        raise KoriskError(f"{path}: is a folder; name a file in it") from None
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        problem = f"{_named(path)}: cannot be read: {_reason(error)}"
        raise KoriskError(f"{problem}; check the path") from None
    if len(content) > max_bytes:
        limit = f"{max_bytes / 1e6:g} MB, the limit for such a file"
        raise KoriskError(f"{path}: is larger than {limit}; is it the right one?")
    return content


def read_text(path: str | PathLike[str], *, max_bytes: int) -> str:
    """The content of a text file; at most `max_bytes` are read."""
    content = read_bytes(path, max_bytes=max_bytes)
    if content.startswith(_DATABASE):
        takers = "korisk plan, compare, report and export take the stores of studies"
        raise KoriskError(f"{path}: is a database, not text; {takers}")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        problem = f"is not UTF-8 text (byte {error.start})"
        raise KoriskError(f"{path}: {problem}; save it as UTF-8") from None


def read_json(path: str | PathLike[str], *, max_bytes: int, remedy: str) -> Any:
    """The content of a JSON file; one that is not valid raises an error with the remedy."""
    text = read_text(path, max_bytes=max_bytes)
    try:
        return json.loads(text, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise KoriskError(f"{path}: not valid JSON: {reason}; {remedy}") from None


def _opened(path: str | PathLike[str]) -> BinaryIO:
    """Open a file for reading; raise if a pipe delivers nothing for PATIENCE seconds."""

    def at_once(name: str, flags: int) -> int:
        # Opening a pipe without a writer would block for ever.
        return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))

    file = open(path, "rb", opener=at_once)  # noqa: SIM115 (a Path takes no opener)
    try:
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISFIFO(mode) and not select.select([file], [], [], PATIENCE)[0]:
            raise OSError(f"it is a pipe, and nothing came for {PATIENCE:g} s")
        if not stat.S_ISREG(mode):
            os.set_blocking(file.fileno(), True)
    except BaseException:
        file.close()
        raise
    return file


def make_folder(path: str | PathLike[str]) -> Path:
    """Create a folder and its parents, if needed; return its path."""
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        problem = f"{_named(folder)}: cannot be created: {_reason(error)}"
        raise KoriskError(f"{problem}; name another folder") from None
    return folder


def write_text(path: str | PathLike[str], text: str) -> None:
    """Write a text file atomically; lone surrogates are written as escapes."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_bytes(path: str | PathLike[str], content: bytes) -> None:
    """Write a file atomically: an interrupted write leaves the old content.

    Links are followed and remain links. Devices and pipes are written to directly.
    """
    target = Path(path)
    try:
        if target.is_symlink():
            target = target.resolve()
            if target.is_symlink():  # a circle, of which only older Python complains
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if target.exists() and not target.is_dir():
            # Files in /dev and /proc cannot be replaced by renaming another file.
            device = target.absolute().parts[1:2] in (("dev",), ("proc",))
            if device or not target.is_file():
                target.write_bytes(content)
                return
        # In the same folder, so that renaming is atomic.
        temporary = target.with_name(f".{secrets.token_hex(8)}.tmp")
        try:
            with temporary.open("xb") as file:
                file.write(content)
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    # ValueError: a null byte in the path, or no name; RuntimeError: links in a circle.
    except (OSError, ValueError, RuntimeError) as error:
        problem = f"{_named(path)}: cannot be written: {_reason(error)}"
        full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
        remedy = "free some space" if full else "name a file in a folder that you may write to"
        raise KoriskError(f"{problem}; {remedy}") from None


def figure_kind(path: str | PathLike[str]) -> str:
    """The format of a figure by its suffix; raise if it is unknown or the folder is missing."""
    return _to_write("a figure", path, FIGURE_KINDS).suffix.removeprefix(".").lower()


def page_file(path: str | PathLike[str]) -> Path:
    """The file of a page; raise if its suffix is not .html or the folder is missing."""
    return _to_write("a page", path, ("html",))


def _to_write(what: str, path: str | PathLike[str], kinds: tuple[str, ...]) -> Path:
    file = checked_path("path", path, remedy=f"name the file of {what}")
    if file.suffix.removeprefix(".").lower() not in kinds:
        listing = ", ".join(f".{kind}" for kind in kinds)
        rule, got = f"be {' or '.join(listing.rsplit(', ', 1))}", file.suffix or "none"
        raise invalid(f"{path}: the suffix of {what}", rule, path, "rename the file", got=got)
    if "\0" not in str(path) and not file.parent.is_dir():
        raise KoriskError(f"{path}: cannot be written: no such folder; make it first")
    return file


def parse(model: type[Model], content: Any, *, source: object) -> Model:
    """`content` as a `model`; raise a one-line error that names the first problem."""
    if not isinstance(content, dict):
        known = f"known keys: {', '.join(_fields(model))}"
        raise invalid(f"{source}:", "be a mapping of keys to values", content, known)
    try:
        return model.model_validate(content)
    except ValidationError as error:
        # An unknown key is often a missing one, misspelt, so it is reported first. Of several
        # forms that a value may take, the one that matched most deeply was probably meant.
        problem = min(
            error.errors(), key=lambda e: (e["type"] != "extra_forbidden", -len(e["loc"]))
        )
        raise KoriskError(f"{source}: {_problem(model, problem)}") from None


def _problem(model: type[BaseModel], error: ErrorDetails) -> str:
    location, inner = _locate(model, error["loc"])
    match error["type"]:
        case "extra_forbidden":
            key = str(error["loc"][-1])
            place = f" in {location}" if location else ""
            return f"unknown key {shown(key)}{place}{did_you_mean(key, _fields(inner))}"
        case "missing":
            return f"{location} is missing; add it"
        case "invalid_key":
            return f"keys must be texts, got {shown(error['input'])}; quote the key"
        case "model_type":
            rule, remedy = "a mapping of keys to values", f"keys: {', '.join(_fields(inner))}"
        case kind if kind in _RULES:
            rule, remedy = _RULES[kind]
        case _:
            rule, remedy = error["msg"].removeprefix("Input should be "), "correct it"
    return f"{location} must be {rule}, got {shown(error['input'])}; {remedy}"


def _locate(model: type[BaseModel], location: tuple[int | str, ...]) -> tuple[str, type[BaseModel]]:
    """The location as text, and the model of the mapping there."""
    text = ""
    for step in location:
        if isinstance(step, int):
            text += f"[{step + 1}]"
        elif step in _fields(model):  # other steps are pydantic's names of union members
            text += f".{step}"
            model = _inner_model(_fields(model)[step].annotation) or model
    return text.removeprefix("."), model


def _fields(model: type[BaseModel]) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in model.model_fields.items()}


def _inner_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    candidates = (_inner_model(argument) for argument in getattr(annotation, "__args__", ()))
    return next((inner for inner in candidates if inner), None)


def _named(path: str | PathLike[str]) -> str:
    """A path for a message, safe for any characters and lengths."""
    text = str(path)
    return text if text.isprintable() and len(text) <= 300 else shown(text)


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error).lower()


def _one_line(text: str | None) -> str:
    line = " ".join((text or "unreadable").split())
    return line if len(line) <= 200 else line[:197] + "..."


class StrictLoader(yaml.SafeLoader):
    """Loader of plain values by the core schema of YAML 1.2; no aliases, no duplicate keys.

    PyYAML implements YAML 1.1, where 017 is 15, 1:30 is 90, 1_000 is 1000, and no is false.
    """

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Raise for tags, aliases and overlong values."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        problem = None
        if getattr(event, "tag", None) is not None:
            problem = f"the tag {shown(event.tag)} is not taken here; write plain values"
        elif self.check_event(yaml.AliasEvent):
            problem = "aliases (*name) are not taken here; write the value out"
        elif len(getattr(event, "value", "")) > MAX_VALUE:
            problem = f"a value has more than {MAX_VALUE:,} characters; shorten it"
        if problem:
            raise yaml.composer.ComposerError(None, None, problem, event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        """Raise for duplicate keys."""
        keys: set[object] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode):
                # By text and by value: `1` and `0x1` are the same key.
                if {key.value, value := self.construct_object(key)} & keys:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"key {shown(key.value)} is given twice", key.start_mark
                    )
                keys |= {key.value, value}
        return super().construct_mapping(node, deep)

    def construct_number(self, node: yaml.ScalarNode) -> float:
        """An int or a float, in decimal digits unless it begins with 0o or 0x."""
        text = node.value.lower()
        if node.tag == _INT:
            return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
        value = float(text.replace(".inf", "inf").replace(".nan", "nan"))
        if math.isinf(value) and "inf" not in text:
            remedy = "write .inf for no limit"
            problem = f"{shown(text)} is beyond the largest number, 1.8e308; {remedy}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return value


class _Dumper(yaml.SafeDumper):
    """Dumper that quotes every text that YAML 1.1 or 1.2 would read as another type."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        # Line ends other than \n survive only between double quotes.
        style = '"' if any(end in data for end in "\r\x85\u2028\u2029") else None
        return self.represent_scalar("tag:yaml.org,2002:str", data, style=style)


_Dumper.add_representer(str, _Dumper.represent_str)

# Replace the resolvers of YAML 1.1, for reading and for quoting alike.
StrictLoader.yaml_implicit_resolvers = {}
for _tag, _form, _starts in _CORE_SCHEMA:
    for _side in (StrictLoader, _Dumper):
        _side.add_implicit_resolver(_tag, re.compile(rf"^(?:{_form})$"), _starts)
for _tag in (_INT, _FLOAT):
    StrictLoader.add_constructor(_tag, StrictLoader.construct_number)

"""Sound files made wrong in ways that files go wrong: bytes, texts, keys and values, tables."""

import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import yaml

from korisk.store.cells import CONTENTS, digest
from korisk.store.file import set_meta, sign, total

Mutation = Callable[[random.Random, bytes], bytes]

_WORDS = [0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 2**63 - 1, 2**64 - 1]
_SCALARS: list[Any] = [
    *(None, True, False, 0, -1, 1, 2, 3, 2**31, 2**63, 10**30, 10**400),
    *(-0.0, 0.5, 1e-320, 1e308, -1e308, float("nan"), float("inf"), float("-inf")),
    *("", " ", "x" * 300, "..", "../../x", "a\nb", "\x1b[31mred", "\u202e", "1e400", "NaN"),
    *([], {}, [[]], [0] * 50, {"": ""}, {"n": {}}, [{"n": 1}]),
]
_FRAGMENTS = [
    *("\0", "\ufeff", "\r\n", "\t", '"', "'", ",", ";", ":", "#", "- ", "? ", "{", "[", "}", "]"),
    *("&a ", "*a", "!!python/none ", "!x ", "<<: ", "|\n", ">\n", "%YAML 9.9\n", "---\n", "...\n"),
    *("1e400", "-1e-400", "9" * 400, "0x" + "f" * 400, "1:1:1", "1_000", "NaN", "Infinity", "-0"),
    *(
        "null",
        "\\ud800",
        "\x1b]0;x\x07",
        "\u2028",
        "é",
        "²",
        "\r",
        "[" * 200,
        "{a: " * 100,
        "2026-02-30",
    ),
]


def bytes_changed(rng: random.Random, content: bytes) -> bytes:
    """One to four changes that know nothing of the format."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(7):
            case 0:  # a bit
                if data:
                    data[at % len(data)] ^= 1 << rng.randrange(8)
            case 1:  # a number of the file's own, in either order of bytes
                size = rng.choice((1, 2, 4, 8))
                value = rng.choice(_WORDS) & (2 ** (8 * size) - 1)
                data[at : at + size] = value.to_bytes(size, rng.choice(("little", "big")))
            case 2:
                del data[at:]
            case 3:
                del data[at : at + rng.randrange(1, 64)]
            case 4:
                data[at:at] = rng.randbytes(rng.randrange(1, 64))
            case 5:  # a part of it again
                start = rng.randrange(len(data) + 1)
                data[at:at] = data[start : start + rng.randrange(1, 512)]
            case _:
                data[at : at + 8] = bytes([rng.choice((0, 0xFF))]) * 8
    return bytes(data)


def near_start(rng: random.Random, content: bytes) -> bytes:
    """The same within the first bytes, where a header is."""
    cut = min(len(content), 600)
    return bytes_changed(rng, content[:cut]) + content[cut:]


def text_changed(rng: random.Random, content: bytes) -> bytes:
    """Lines and words changed; now and then another encoding or other ends of lines."""
    text = content.decode("utf-8", "replace")
    for _ in range(rng.choice((1, 1, 2, 5))):
        lines = text.splitlines(keepends=True) or [""]
        at = rng.randrange(len(lines))
        match rng.randrange(7):
            case 0:
                lines.insert(at, lines[rng.randrange(len(lines))])
            case 1:
                del lines[at]
            case 2:
                lines[at] = lines[at].replace(" ", "", 1)
            case 3:
                parts = lines[at].replace(",", " , ").split(" ")
                parts[rng.randrange(len(parts))] = rng.choice(_FRAGMENTS)
                lines[at] = " ".join(parts)
            case 4:
                place = rng.randrange(len(lines[at]) + 1)
                lines[at] = lines[at][:place] + rng.choice(_FRAGMENTS) + lines[at][place:]
            case 5:
                lines[at] = lines[at] * (rng.choice((2, 50)) if len(lines[at]) < 1000 else 2)
            case _:
                rng.shuffle(lines)
        text = "".join(lines)
    encoding = rng.choices(("utf-8", "utf-8-sig", "utf-16", "latin-1"), (20, 1, 1, 1))[0]
    if rng.random() < 0.05:
        text = text.replace("\n", "\r\n")
    return text.encode(encoding, "replace")


def json_changed(rng: random.Random, content: bytes) -> bytes:
    """Keys and values of a JSON file changed."""
    return json.dumps(changed(rng, json.loads(content))).encode()


def signed_json_changed(rng: random.Random, content: bytes) -> bytes:
    """The same, with a digest that belongs to what the file then holds."""
    made = changed(rng, json.loads(content))
    if isinstance(made, dict):
        made.pop("digest", None)
        made["digest"] = digest(json.dumps(made, sort_keys=True))
    return json.dumps(made).encode()


def yaml_changed(rng: random.Random, content: bytes) -> bytes:
    """Keys and values of a YAML file changed."""
    made = changed(rng, yaml.safe_load(content))
    return yaml.safe_dump(made, allow_unicode=True, sort_keys=False).encode()


def changed(rng: random.Random, content: Any) -> Any:
    """Keys and values of dictionaries and lists changed, up to three."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        content = _once(rng, content)
    return content


def _once(rng: random.Random, content: Any) -> Any:
    if isinstance(content, dict) and content and rng.random() < 0.9:
        key = rng.choice(list(content))
        match rng.randrange(6):
            case 0:
                return {name: value for name, value in content.items() if name != key}
            case 1:
                odd = rng.choice(("", "x", "n", "layers", "__class__", "\x1b[0m", "name "))
                return {**content, odd: rng.choice(_SCALARS)}
            case _:
                return {**content, key: _once(rng, content[key])}
    if isinstance(content, list) and content and rng.random() < 0.9:
        at = rng.randrange(len(content))
        match rng.randrange(6):
            case 0:
                return content[:at] + content[at + 1 :]
            case 1:
                return content * (rng.choice((2, 40)) if len(content) < 100 else 2)
            case _:
                return [*content[:at], _once(rng, content[at]), *content[at + 1 :]]
    small = isinstance(content, int | float) and abs(content) < 1e300
    if small and not isinstance(content, bool) and rng.random() < 0.5:
        return rng.choice([content * factor for factor in (-1, 0, 2, 10**6, 1e-6)])
    return rng.choice(_SCALARS)


_STORED: list[Any] = [
    *(None, 0, -1, 2**62, 1.5, -1e308, "", "x", "[]", "{}", "null", "NaN", b"\0\xff", "\x1b[31m"),
    *('{"mse": "x"}', '{"mse": null}', '{"mse": 1e999}', '{"problem": 3}', '{"metric": []}'),
    *('{"problem": {"kind": 3, "side": "x"}}', "[" * 100_000, '{"a": ' * 5_000, "9" * 5_000),
    *('{"name": {}}', "[1000000000000]", "[-1]", '["x"]', "|O", "<f8"),
    *("<U1000000", "f8,(2,)i4", '{"layers": {"W": "x"}, "error": -1}', "done", "failed"),
]
_SCRIPTS = [
    "CREATE VIEW v AS WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x FROM t) SELECT x FROM t",
    "DROP TABLE rows; CREATE VIEW rows AS WITH RECURSIVE t(x) AS (SELECT 1 UNION ALL SELECT x "
    "FROM t) SELECT x AS cell, 'KO' AS model, 2 AS n, '{}' AS metrics, '{}' AS detail FROM t",
    "CREATE TRIGGER t AFTER INSERT ON rows BEGIN DELETE FROM cells; END",
    "DELETE FROM cells",
    "DELETE FROM meta",
    "DROP TABLE arrays",
    "ALTER TABLE cells DROP COLUMN detail",
    "PRAGMA user_version = 99",
    "PRAGMA application_id = 1",
    "INSERT INTO rows SELECT cell + 1000, model, n, metrics, detail, digest FROM rows",
    "INSERT OR IGNORE INTO rows SELECT cell, model, n + 1, metrics, detail, digest FROM rows",
    "UPDATE meta SET value = '{\"name\": 3, \"studies\": [1]}' WHERE name = 'study'",
]
_COLUMNS = {
    "meta": ("name", "value", "digest"),
    "cells": (
        *("key", "digest", "device_memory", "point", "seed", "spec", "spec_hash", "error"),
        *("attempts", "started", "seconds", "cpu_seconds", "peak_memory", "machine", "versions"),
        *("detail", "status"),
    ),
    "rows": ("cell", "model", "n", "metrics", "detail", "digest"),
    "arrays": ("cell", "name", "dtype", "shape", "content", "digest"),
}


def store_changed(rng: random.Random, content: bytes) -> bytes:
    """Cells of a store's tables changed, or its schema; what SQLite refuses is left as it was.

    Half of them get digests that belong to what they then hold, as whoever edits a store by hand
    could write them.
    """
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.deserialize(content)
    steps = iter(range(100))  # a view that was put in may be endless
    connection.set_progress_handler(lambda: next(steps, None) is None, 10_000)
    connection.execute("PRAGMA ignore_check_constraints = ON")
    for _ in range(rng.choice((1, 1, 2, 3))):
        try:
            if rng.random() < 0.15:
                connection.executescript(rng.choice(_SCRIPTS))
                continue
            table = rng.choice(list(_COLUMNS))
            column = rng.choice(_COLUMNS[table])
            rows = rng.choice(("", " WHERE rowid = (SELECT min(rowid) FROM " + table + ")"))
            value = _stored(rng, connection, table, column)
            connection.execute(f"UPDATE OR REPLACE {table} SET {column} = ?{rows}", (value,))
        except sqlite3.Error:
            continue
    if rng.random() < 0.5:
        with suppress(sqlite3.Error, UnicodeDecodeError):
            _sign_again(connection)
    made = connection.serialize()
    connection.close()
    return made


def _sign_again(connection: sqlite3.Connection) -> None:
    for table in ("rows", "arrays"):
        query = f"SELECT rowid, {', '.join(CONTENTS[table])} FROM {table}"
        for place, *values in connection.execute(query).fetchall():
            own = digest(*values), place
            connection.execute(f"UPDATE {table} SET digest = ? WHERE rowid = ?", own)
    numbers = connection.execute("SELECT id FROM cells").fetchall()
    set_meta(connection, "cells", total([sign(connection, number) for (number,) in numbers]))
    for name, value in connection.execute("SELECT name, value FROM meta").fetchall():
        set_meta(connection, name, value)


def _stored(rng: random.Random, connection: sqlite3.Connection, table: str, column: str) -> Any:
    """A hostile value, or the JSON that is there with something in it changed."""
    found = connection.execute(f"SELECT {column} FROM {table} ORDER BY random() LIMIT 1").fetchone()
    if found and isinstance(found[0], str) and found[0][:1] == "{" and rng.random() < 0.6:
        with suppress(ValueError, RecursionError):  # what was changed before need not be sound
            return json.dumps(changed(rng, json.loads(found[0])))
    return rng.choice(_STORED)

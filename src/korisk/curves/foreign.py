"""Print the tables of the workbook or Parquet file on standard input as JSON.

`formats.py` starts this file. What is damaged may make those parsers ask for any amount of memory
or time, or end their process; so they have one of their own, with limits, which imports nothing of
korisk.
"""

import io
import json
import sys
from contextlib import suppress
from typing import Any

MEMORY = 3 << 30  # bytes
SECONDS = 10  # of the processor


def workbook(content: bytes, largest: int) -> dict[str, Any]:
    """The rows of each sheet."""
    import python_calamine as calamine

    book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(content))
    made: dict[str, Any] = {}
    for name in book.sheet_names[:100]:
        made[name] = book.get_sheet_by_name(name).to_python()
        largest -= sum(map(len, made[name]))
        if largest < 0:
            raise ValueError("it has cells far outside of any table")
    return made


def parquet(content: bytes, largest: int) -> dict[str, Any]:
    """The columns; those of structures are left out."""
    from pyarrow import parquet, types

    about = parquet.read_metadata(io.BytesIO(content))
    if about.num_rows * about.num_columns > largest:
        raise ValueError(f"it holds more than {largest:,} values")
    nested = (types.is_nested, types.is_fixed_size_binary)
    fields = about.schema.to_arrow_schema()
    names = [each.name for each in fields if not any(kind(each.type) for kind in nested)]
    columns = parquet.read_table(io.BytesIO(content), columns=names, use_threads=False)
    made: dict[str, Any] = columns.to_pydict()
    return made


def main(kind: str, largest: int) -> None:
    """Print {"tables": ...} of at most `largest` cells, or {"problem": ...}."""
    with suppress(ImportError, OSError, ValueError):  # not on every system
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    made: dict[str, object] = {}
    try:
        content = sys.stdin.buffer.read()
        made["tables"] = (workbook if kind == "workbook" else parquet)(content, largest)
        text = json.dumps(made, default=str)
    except BaseException as error:  # whatever a damaged file causes, panics included
        text = json.dumps({"problem": (str(error).splitlines() or [type(error).__name__])[0]})
    sys.stdout.write(text)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

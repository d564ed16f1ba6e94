"""Print the sheets of the workbook on standard input as JSON; `formats.py` starts this file.

A damaged workbook may make the parser ask for any amount of memory or time, and then its process
dies. So it has one of its own, with limits, which imports nothing of korisk.
"""

import io
import json
import sys
from contextlib import suppress

MEMORY = 1 << 30  # bytes
SECONDS = 10  # of the processor


def main(largest: int) -> None:
    """Print {"sheets": {name: rows}}, or {"problem": ...}; at most `largest` cells."""
    with suppress(ImportError, OSError, ValueError):  # not on every system
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    import python_calamine as calamine

    made: dict[str, object] = {}
    try:
        book = calamine.CalamineWorkbook.from_filelike(io.BytesIO(sys.stdin.buffer.read()))
        sheets = {}
        for name in book.sheet_names[:100]:
            sheets[name] = book.get_sheet_by_name(name).to_python()
            largest -= sum(map(len, sheets[name]))
            if largest < 0:
                raise ValueError("it has cells far outside of any table")
        made["sheets"] = sheets
    except BaseException as error:  # whatever a damaged file causes, panics included
        made["problem"] = (str(error).splitlines() or [type(error).__name__])[0]
    json.dump(made, sys.stdout, default=str)


if __name__ == "__main__":
    main(int(sys.argv[1]))

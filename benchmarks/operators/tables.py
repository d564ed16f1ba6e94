"""The tables of docs/reference/operators.md, from what `operators.compare` kept.

python -m benchmarks.operators.tables > benchmarks/results/operators.txt
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.markdown import header, line

RESULTS = Path(__file__).parents[1] / "results"
ENTRIES = {"forward": "A x", "adjoint": "A^T y", "fbp": "FBP", "gradient": "gradient"}
BYTES = 4  # of a float32


def tables() -> Iterator[str]:
    """Each kept result as a Markdown table, a line at a time, with a title before it."""
    for path in sorted(RESULTS.glob("operators_*.json")):
        yield from table(json.loads(path.read_text()))
        yield ""


def table(kept: dict[str, Any]) -> Iterator[str]:
    """Milliseconds per image, and how many times as long the fastest peer takes."""
    card = kept["copy_bytes_per_second"]
    where = kept["where"] if card else f"{kept['where']}, {kept['threads']} threads"
    peers = sorted({cell["who"] for cell in kept["cells"]} - {"korisk"})
    yield f"*{where}*, against {', '.join(peers)}:"
    yield ""
    heads = ["H, batch", *ENTRIES.values(), *(["A x, of copying speed"] if card else [])]
    yield from header(*heads)
    by_key = {(c["size"], c["batch"], c["entry"], c["who"]): c for c in kept["cells"]}
    scans = sorted({(cell["size"], cell["batch"]) for cell in kept["cells"]})
    for size, batch in scans:
        row = [f"{size}, {batch}"]
        row += [_cell(by_key, peers, size, batch, entry) for entry in ENTRIES]
        if card:
            time = by_key[size, batch, "forward", "korisk"]["ms"] / 1e3
            row.append(f"{_bytes(size) / card / time:.1%}")
        yield line(*row)


def _cell(
    by_key: dict[tuple[int, int, str, str], Any],
    peers: list[str],
    size: int,
    batch: int,
    entry: str,
) -> str:
    ours = by_key.get((size, batch, entry, "korisk"))
    if ours is None or not isinstance(ours["ms"], float):
        return "-"
    rivals = [by_key.get((size, batch, entry, peer)) for peer in peers]
    timed = [cell for cell in rivals if cell is not None and isinstance(cell["ms"], float)]
    if not timed:
        return f"{ours['ms']:.3g}"
    best = min(timed, key=lambda cell: float(cell["ms"]))
    return f"{ours['ms']:.3g} ({best['who']} {best['ms'] / ours['ms']:.1f}x)"


def _bytes(size: int) -> int:
    """What one forward projection must read and write."""
    views = {64: 30, 128: 60, 256: 90, 512: 180}[size]
    return BYTES * (size * size + views * size)


if __name__ == "__main__":
    print("\n".join(tables()))

"""How large a page is and how soon it answers, against the page of another version, in one run.

    python -m benchmarks.quality.page STUDY --other SRC --out benchmarks/results/page.json

STUDY is the folder of a study, SRC the `src` folder of the other version. Each version writes the
page of the study in a process of its own; Chromium then opens the two in turn, each time in a new
context, and the times from the call to the answer and to the chart are medians.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "report"))
from browser import chromium, fresh_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROUNDS = 7
_SCREEN = {"width": 1440, "height": 900}
_ANSWERS = "() => Boolean(document.getElementById('samples')?.textContent)"
_DRAWS = "() => Boolean(document.querySelector('#plot .curve, #plot .scatterlayer path'))"


def written(study: Path, source: Path, out: Path) -> dict[str, Any]:
    """The page that a version writes: where, how large, and in how many seconds."""
    environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    asked = ("-m", "korisk", "report", study, "--only", "page", "--out", out)
    start = time.perf_counter()
    subprocess.run([sys.executable, *asked], check=True, env=environment)
    took = time.perf_counter() - start
    page = out / "report.html"
    return {"page": page, "bytes": page.stat().st_size, "seconds_to_write": round(took, 1)}


def opening(browser: "Browser", page: Path) -> tuple[float, float]:
    """Seconds until the answer is there, and until the chart is, scrolled to if need be."""
    with fresh_page(browser, viewport=_SCREEN) as opened:
        start = time.perf_counter()
        opened.goto(page.as_uri())
        opened.wait_for_function(_ANSWERS)
        answered = time.perf_counter() - start
        opened.locator("#plot").scroll_into_view_if_needed()
        opened.wait_for_function(_DRAWS)
        return answered, time.perf_counter() - start


def main() -> None:
    """Write both pages, open them in turn, and keep the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("study", type=Path)
    parser.add_argument("--other", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    sources = {"this": Path(__file__).parents[2] / "src", "other": asked.other.resolve()}
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        made = {
            name: written(asked.study, source, Path(folder) / name)
            for name, source in sources.items()
        }
        times: dict[str, list[tuple[float, float]]] = {name: [] for name in made}
        for _ in range(ROUNDS):
            for name, found in made.items():
                times[name].append(opening(browser, found["page"]))
    for name, found in made.items():
        del found["page"]
        answered, drawn = (round(median(column), 3) for column in zip(*times[name], strict=True))
        found |= {"seconds_to_answer": answered, "seconds_to_chart": drawn}
    ratios = {key: round(made["this"][key] / made["other"][key], 3) for key in made["this"]}
    text = json.dumps({**made, "this over other": ratios}, indent=1)
    asked.out.write_text(text + "\n")
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main()

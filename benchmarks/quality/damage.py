"""Files that korisk wrote, with one bit changed or their end cut off: does a number change?

    python -m benchmarks.quality.damage                                    # 2,014 bits and 209 cuts
    python -m benchmarks.quality.damage --seed 3 --flips 100 --cuts 10 --json damage.json
    python -m benchmarks.quality.damage --write        # results/damage.txt, from the kept outcomes

Each damaged file is read, and one that can be computed again is run again. What then happened is

- `refused`: an error of one line that names the file, and no run could mend it;
- `repaired`: refused by readers, and after a run everything is as in an undamaged file;
- `unchanged`: read, with everything as it was: the bit carries nothing;
- `SILENT CHANGE`: something else came out, and nobody said so;
- `FAULT`: a refusal of several lines or without the file's name, or any other error.
"""

import argparse
import functools
import json
import random
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import korisk as kr
from benchmarks.markdown import header, line
from benchmarks.quality.fuzz.readers import TINY
from korisk.errors import KoriskError, KoriskWarning
from korisk.prediction.record import prediction_content, read_prediction, write_prediction
from korisk.prediction.study import Question, rehearse_study
from korisk.store.store import Store
from korisk.studies.results import json_text, pilot_table
from korisk.studies.run.cells import run_cell
from korisk.studies.run.engine import run_study
from korisk.studies.spec.study import Study

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "benchmarks" / "results" / "damage.json"
TABLE = KEPT.with_suffix(".txt")  # which docs/reference/store.md shows
OUTCOMES = ("refused", "repaired", "unchanged", "SILENT CHANGE", "FAULT")

Files = Mapping[str, bytes]  # by their paths in a folder


@dataclass(frozen=True)
class Kind:
    """A kind of file: how it is made, read, and run again, which computes what is missing."""

    name: str
    share: int  # of the files that are tried
    make: Callable[[Path], object]
    read: Callable[[Path], object]
    again: Callable[[Path], object] | None = None

    @functools.cached_property
    def sound(self) -> tuple[dict[str, bytes], object, object]:
        """Undamaged files, what is read from them, and what they are after they were run again."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            self.make(folder)
            files = {
                path.relative_to(folder).as_posix(): path.read_bytes()
                for path in sorted(folder.rglob("*"))
                if path.is_file()
            }
            return files, self.read(folder), self.again and self.again(folder)


def flipped(rng: random.Random, files: Files) -> Files:
    """The files with one bit changed."""
    name, at = _place(rng, files)
    content = bytearray(files[name])
    content[at] ^= 1 << rng.randrange(8)
    return {**files, name: bytes(content)}


def cut(rng: random.Random, files: Files) -> Files:
    """The files, one of them without its end."""
    name, at = _place(rng, files)
    return {**files, name: files[name][:at]}


def _place(rng: random.Random, files: Files) -> tuple[str, int]:
    """A byte of all."""
    names = list(files)
    [name] = rng.choices(names, [len(files[each]) for each in names])
    return name, rng.randrange(len(files[name]))


def outcome(kind: Kind, files: Files) -> tuple[str, str]:
    """What becomes of damaged files, as one of `OUTCOMES`, and what was said."""
    _, as_read, as_run = kind.sound
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", KoriskWarning)
        folder = Path(name)
        for each, content in files.items():
            (folder / each).parent.mkdir(parents=True, exist_ok=True)
            (folder / each).write_bytes(content)
        said = ""
        try:
            try:
                found = kind.read(folder)
            except KoriskError as error:
                said = str(error)
                if "\n" in said or name not in said:
                    return "FAULT", said
            else:
                if found != as_read:
                    return "SILENT CHANGE", "read"
            if kind.again is not None:
                try:
                    if kind.again(folder) != as_run:
                        return "SILENT CHANGE", "run"
                except KoriskError as error:
                    return "refused" if said else "FAULT", str(error)
                return "repaired" if said else "unchanged", said
        except Exception as error:
            return "FAULT", f"{type(error).__name__}: {error}"
        return "refused" if said else "unchanged", said


# --- Stores --------------------------------------------------------------------------------------

_STUDY = TINY | {"seeds": [1, 2, 3, 4]}


def _stored(path: Path, *, measured: bool = True) -> object:
    """All that a store gives to its readers; how long it took only where that is `measured`."""

    def detail(content: Mapping[str, Any]) -> dict[str, Any]:
        return {key: each for key, each in content.items() if measured or key != "seconds"}

    with Store.read(path) as store:
        cells = [
            (
                cell.task,
                [(row.model, row.n, row.metrics, detail(row.detail)) for row in cell.rows],
                *(cell.detail, cell.usage if measured else None),
                {
                    name: (array.dtype, array.shape, array.tobytes())
                    for name, array in store.arrays(cell.task.key).items()
                },
            )
            for cell in store.results()
        ]
        made = (store.created, store.korisk) if measured else ()
        return cells, store.failures(), store.study, made


def _run(folder: Path) -> object:
    study = Study(_STUDY)
    path = folder / "study.db"
    with Store.create_or_open(path, study.content, tasks=study.tasks) as store:
        run_study(study.tasks, run_cell, store)
    return _stored(path, measured=False)


def _fit(n: int, seed: int) -> dict[str, float]:
    return {"mse": 3.2 / n + 0.001 * (seed + 1) ** 0.5, "psnr": 20.0 + 0.1 * n / (1 + seed)}


def _pilot(folder: Path) -> kr.Pilot:
    store = folder / "pilot.db"
    return kr.run_pilot(_fit, sizes=[16, 32, 64, 128], seeds=3, store=store, quiet=True)


def _run_pilot(folder: Path) -> object:
    found = _pilot(folder)
    stored = _stored(folder / "pilot.db", measured=False)
    return [(fit.n, fit.seed, fit.metrics) for fit in found.fits], stored


def _curves(path: Path, **options: Any) -> object:
    return [curve.records() for curve in kr.Curve.read_all(path, **options)]


def _read_pilot(folder: Path) -> object:
    return _curves(folder / "pilot.db"), _stored(folder / "pilot.db")


# --- Tables and predictions ----------------------------------------------------------------------


def _write_csv(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        _pilot(Path(name)).to_csv(folder / "pilot.csv")


def _read_csv(folder: Path) -> object:
    path = folder / "pilot.csv"
    return _curves(path, metric="mse"), _curves(path, metric="psnr", unit="psnr")


def _write_json(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        _pilot(Path(name))
        with Store.read(Path(name, "pilot.db")) as store:
            (folder / "pilot.json").write_text(json_text(pilot_table(store, "mse")))


def _predict(folder: Path) -> None:
    [made] = rehearse_study(Study(_STUDY))
    content = made.to_dict(Question(targets=[1e-3], at=[64.0]))
    write_prediction(folder, prediction_content("tiny", [content]))


# --- Checkpoints ---------------------------------------------------------------------------------


KINDS = {
    kind.name: kind
    for kind in (
        Kind("store of a study", 7, _run, lambda at: _stored(at / "study.db"), _run),
        Kind("store of a pilot", 5, _pilot, _read_pilot, _run_pilot),
        Kind("pilot as CSV", 2, _write_csv, _read_csv),
        Kind("pilot as JSON", 1, _write_json, lambda at: _curves(at / "pilot.json")),
        Kind("prediction", 2, _predict, lambda at: read_prediction(at).model_dump()),
    )
}


# --- All -----------------------------------------------------------------------------------------


def tried(kind: Kind, flips: int, cuts: int, seed: int) -> Iterator[tuple[str, str, str]]:
    """What was done to each file of a kind, the outcome and what was said; counts are of all."""
    shares = sum(each.share for each in KINDS.values())
    rng = random.Random(f"{seed} {kind.name}")
    for way, count, damage in (("bit", flips, flipped), ("cut", cuts, cut)):
        for _ in range(count * kind.share // shares):
            yield way, *outcome(kind, damage(rng, kind.sound[0]))


def table(kept: Mapping[str, Any]) -> Iterator[str]:
    """The kept outcomes, kind by kind."""
    yield from header("file", "damaged by", "files", *OUTCOMES)
    total: dict[str, Counter[str]] = {"bit": Counter(), "cut": Counter()}
    for row in kept["kinds"]:
        counts = row["outcomes"]
        total[row["way"]].update(counts)
        yield _line(row["kind"], row["way"], counts)
    for way, counts in total.items():
        yield _line("**all**", way, counts)


def _line(name: str, way: str, counts: Mapping[str, int]) -> str:
    numbers = (f"{counts.get(each, 0):,}" for each in OUTCOMES)
    said = {"bit": "one bit", "cut": "a cut"}[way]
    return line(name, said, f"{sum(counts.values()):,}", *numbers)


def main() -> int:
    """Try the files, or write the table of the kept outcomes."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--flips", type=int, default=2014, help="files with one bit changed")
    parser.add_argument("--cuts", type=int, default=209, help="files that are cut short")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="where to keep the outcomes")
    parser.add_argument("--write", action="store_true", help="write the kept table for the docs")
    asked = parser.parse_args()
    if asked.write:
        lines = table(json.loads(KEPT.read_text(encoding="utf-8")))
        TABLE.write_text("\n".join([*lines, ""]), encoding="utf-8")
        return 0
    begun, found, bad = time.perf_counter(), dict[tuple[str, str], Counter[str]](), list[str]()
    for kind in KINDS.values():
        for way, result, said in tried(kind, asked.flips, asked.cuts, asked.seed):
            found.setdefault((kind.name, way), Counter())[result] += 1
            if result in ("SILENT CHANGE", "FAULT"):
                bad.append(f"{kind.name}, {way}: {result}: {said}")
                print(bad[-1], flush=True)
    kept = {
        "seed": asked.seed,
        "minutes": round((time.perf_counter() - begun) / 60, 1),
        "kinds": [
            {"kind": name, "way": way, "outcomes": dict(sorted(counts.items()))}
            for (name, way), counts in found.items()
        ],
        "bad": bad,
    }
    print("\n".join(table(kept)))
    if asked.json is not None:
        asked.json.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

"""The tables of the study page, from what `korisk` and `paper.study` wrote as JSON.

korisk reproduce --device cuda --json > reproduction.json
korisk reproduce --device cuda --points 512 --out reproduction --json > reproduction_512.json
korisk run examples/crossover_h128.yaml --device cuda --json > crossover_h128.json
python -m benchmarks.paper.study --json study.json
python -m benchmarks.paper.reproduction_tables reproduction.json crossover_h128.json study.json ...

Without files, it prints what benchmarks/results/study.txt keeps, from the kept results.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import mean, median
from typing import Any

from benchmarks.markdown import header, line

Content = dict[str, Any]
RESULTS = Path(__file__).parents[1] / "results"
GIB = 2**30


def tables(kept: Content) -> Iterator[str]:
    """Whatever a file holds, as Markdown, a line at a time."""
    if "calibration" in kept:
        for part in (calibration, outcomes, errors):
            yield from (*part(kept), "")
    elif "points" in kept:
        yield from (*crossovers(kept), "")
    else:
        if "speed" in kept:
            yield from (*speed(kept["speed"]), "")
        if kept.get("sweeps"):
            yield from (*sweeps(kept["sweeps"]), "")


def page() -> Iterator[str]:
    """The tables of the kept results, each below a heading of its own."""
    found, crossed, here, card = (
        json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
        for name in ("reproduction", "crossover_h128", "study_arm", "study_h200")
    )
    for part in (calibration, outcomes, errors):
        yield from (f"### {part.__name__}", "", *part(found), "")
    yield from ("### crossovers", "", *crossovers(crossed), "")
    yield from ("### speed", "", *speed(here["speed"]), "")
    yield from ("### sweeps", "", *sweeps(card["sweeps"] + here["sweeps"]))


def calibration(kept: Content) -> Iterator[str]:
    """Floor / sigma by origin."""
    origins = list(kept["calibration"][0]["origins"])
    yield from header("H", "model", *origins)
    for row in kept["calibration"]:
        pairs = [row["origins"][origin] for origin in origins]
        yield line(row["side"], row["model"], *(_pair(pair) for pair in pairs))


def _pair(pair: dict[str, float] | None) -> str:
    return "-" if pair is None else f"{_number(pair['floor'])} / {_number(pair['sigma'])}"


def _number(value: float) -> str:
    return f"{value:.3e}".replace("e-0", "e-").replace("e+00", "")


def outcomes(kept: Content) -> Iterator[str]:
    """Whether each outcome of the paper's Table 3 holds under each protocol, and by what."""
    protocols = list(dict.fromkeys(each["protocol"] for each in kept["outcomes"]))
    yield from header("H", "the paper's outcome", *protocols)
    rows: dict[tuple[int, str], Content] = defaultdict(dict)
    for each in kept["outcomes"]:
        says = {True: "yes", False: "**no**", None: "open"}[each["holds"]]
        told = f"{says}: {each['evidence']}"
        rows[each["side"], each["claim"]][each["protocol"]] = told
    for (side, claim), told_by in rows.items():
        yield line(side, claim, *(told_by.get(protocol, "-") for protocol in protocols))


def errors(kept: Content) -> Iterator[str]:
    """Mean errors of the rigorous sweeps at every N: MSE up to H = 32, RMSE / max from 128 on."""
    found = {
        (sweep["side"], model): _means(sweep[model])
        for sweep in kept["curves"]
        for model in ("KO", "FC")
        if sweep["protocol"] == "rigorous"
    }
    untrained = {each["side"]: each["untrained"] for each in kept["findings"]}
    sides = list(dict.fromkeys(side for side, _ in found))
    yield from header("N", *(f"H = {side}, KO / FC" for side in sides))
    yield line("untrained", *(f"{untrained[side]:.3g} / -" for side in sides))
    for n in sorted({n for means in found.values() for n in means}):
        pairs = ([found[side, model] for model in ("KO", "FC")] for side in sides)
        yield line(
            n, *(" / ".join(f"{means[n]:.3g}" for means in pair if n in means) for pair in pairs)
        )


def crossovers(kept: Content) -> Iterator[str]:
    """Errors of both models and where they cross, a line for each point."""
    found = {
        point: (_means(content["KO"]), _means(content["FC"]), content["crossing"]["found"])
        for point, content in kept["points"].items()
    }
    sizes = sorted({256, 1024, 2048} | {max(known) for known, _, _ in found.values()})
    columns = [f"KO / FC at N = {sizes[0]}", *(str(n) for n in sizes[1:])]
    yield from header("rays and images", *columns, "who becomes the better one, at N (90%)")
    for point, (known, dense, crosses) in found.items():
        pairs = (f"{known[n]:.4f} / {dense[n]:.4f}" if n in known else "" for n in sizes)
        yield line(point, *pairs, _crossing(crosses))


def _crossing(found: Content | None) -> str:
    if found is None:
        return "cannot be told"
    upper = "∞" if found["upper"] is None else f"{found['upper']:,.0f}"
    how = "measured" if found["measured"] else "extrapolated"
    return f"{found['better_after']} at {found['n']:,} ({found['lower']:,.0f} to {upper}), {how}"


def _means(records: list[Content]) -> dict[int, float]:
    groups = defaultdict(list)
    for record in records:
        groups[record["n"]].append(record["error"])
    return {n: mean(values) for n, values in sorted(groups.items())}


def speed(kept: dict[str, Any]) -> Iterator[str]:
    """CPU seconds of both sides at each H, medians over the rounds."""
    rounds = kept["rounds"]
    sides = list(rounds[0]["korisk"]["cpu"])
    taken = {
        who: {side: median(each[who]["cpu"][side] for each in rounds) for side in sides}
        for who in ("reference", "korisk")
    }
    times = f"median of {len(rounds)}" if len(rounds) > 1 else "one run"
    yield (
        f"*{_where(kept)}*, one thread, load {kept['load_before']:.1f} before: the released CPU "
        f"protocol, {times}"
    )
    yield ""
    yield from header("H", "reference CPU s", "korisk CPU s", "ratio")
    for side in sides:
        yield line(side, *_compared(taken["reference"][side], taken["korisk"][side]))
    total = {who: sum(by_side.values()) for who, by_side in taken.items()}
    yield line("all", *_compared(total["reference"], total["korisk"]))
    yield ""
    imports = {who: median(each[who]["import"] for each in rounds) for who in taken}
    yield (
        f"Apart from that, starting and importing took {imports['reference']:.2f} and "
        f"{imports['korisk']:.2f} CPU s."
    )
    agree = "all lambdas agree" if kept["lambdas_agree"] else "LAMBDAS DIFFER"
    yield (
        f"Test errors of {kept['compared']} fits differ by at most a part of "
        f"{kept['largest_difference']:.1e}; {agree}."
    )


def _compared(reference: float, ours: float) -> tuple[str, str, str]:
    return f"{reference:.2f}", f"{ours:.2f}", f"{reference / ours:.1f}"


def sweeps(kept: list[dict[str, Any]]) -> Iterator[str]:
    """Time, memory and errors of whole sweeps, a line each."""
    yield "Sweeps, each in a process of its own:"
    yield ""
    yield from header(
        *("H", "protocol", "where", "cells", "s in cells", "s in all", "memory GiB"),
        *("device GiB", "N", "KO RMSE / max", "FC RMSE / max"),
    )
    for each in kept:
        errors = each["rmse_over_max"]
        yield line(
            each["side"],
            each["protocol"],
            _where(each),
            len(each["seconds"]),
            f"{sum(each['seconds']):.1f}",
            f"{each['process_seconds']:.1f}",
            f"{each['peak_memory'] / GIB:.2f}",
            f"{each['device_memory'] / GIB:.2f}" if each["device_memory"] else "-",
            each["largest_n"],
            f"{errors['KO']:.3g}",
            f"{errors['FC']:.3g}",
        )


def _where(kept: dict[str, Any]) -> str:
    where = kept.get("where", "cpu")
    if where != "cpu":
        return str(where)
    machine = f"{kept['machine']['processor']}, {kept['machine']['cores']} cores"
    return machine if "threads" not in kept else f"{machine}, {kept['threads']} threads"


if __name__ == "__main__":
    names = sys.argv[1:]
    if not names:
        print("\n".join(page()))
    for name in names:
        print("\n".join(tables(json.loads(Path(name).read_text(encoding="utf-8")))))

"""`korisk predict --network`: a network of one's own, rehearsed on simulated pairs."""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from korisk import _checks
from korisk.cli.output import cells, console, duration, number, print_json, table, whole
from korisk.curves.curve import Curve
from korisk.errors import KoriskError, OutOfReachError, did_you_mean, shown
from korisk.planning.explain import chance, count

if TYPE_CHECKING:
    from korisk.prediction.rehearse import Rehearsal

_TRAINING = ("steps", "batch", "rate", "seeds", "largest")


@dataclass(frozen=True)
class Answer:
    """A rehearsal of a point, and the pilot that was measured, if any."""

    point: str
    made: Rehearsal
    pilot: Curve | None
    notes: tuple[str, ...]  # on the images


def rehearse_point(
    network: str | None,
    training: Sequence[str],
    specs: Mapping[str, Mapping[str, Any]],
    point: str | None,
    *,
    source: Any,
    noise: float | None,
    pilots: Sequence[Curve],
    targets: Sequence[float],
    at: Sequence[int],
    examples: int,
    seed: int,
    device: str,
    say: Callable[[str], None],
) -> Answer:
    """Rehearse the network of a file for one point of a study."""
    from korisk.planning.fit import check_target
    from korisk.planning.forecast import forecast
    from korisk.prediction.prediction import FARTHEST_N
    from korisk.prediction.rehearse import SIZES, rehearse
    from korisk.prediction.simulation import Training
    from korisk.prediction.study import image_notes, point_problem

    if network is None:
        raise KoriskError("--training is for --network; name the network, or leave it out")
    build, _ = read_build("--network", network)
    options = training_options(training)
    sizes = options.pop("sizes", SIZES)
    if point is None and len(specs) > 1:
        raise KoriskError(
            f"--network is for one point, and the study has {len(specs)}: {', '.join(specs)}; name "
            "it with --point"
        )
    name = next(iter(specs)) if point is None else point
    if name not in specs:
        raise KoriskError(f"the study has no point {shown(name)}{did_you_mean(name, specs)}")
    label = network.rpartition(":")[2]
    chosen = [each for each in pilots if each.model == label] or list(pilots)
    if len(chosen) > 1:
        named = ", ".join(each.model for each in pilots)
        raise KoriskError(
            f"--pilot must have one curve, or one of model {label!r}, got {named}; remove the "
            "others"
        )
    # What `show` would refuse, before hours of training.
    least, most, remedy = sizes[0], FARTHEST_N, "smaller N are not rehearsed; give a --pilot"
    if chosen:
        least, most, remedy = 2, forecast(chosen[0]).horizon, "measure a larger pilot"
        for target in targets:
            check_target(chosen, target)
    for n in at:
        _checks.count("--at", n, at_least=least, at_most=most, remedy=remedy)
    problem, _ = point_problem(specs[name], source=source, noise=noise)
    notes = tuple(image_notes(problem, specs[name], examples))
    begun = time.monotonic()

    def progress(what: str, share: float) -> None:
        left = (time.monotonic() - begun) * (1 - share) / share if share else 0.0
        say(f"{what} {share:.0%}, about {duration(left)} left" if share else what)

    try:
        made = rehearse(
            build,
            problem,
            sizes=sizes,
            seeds=range(seed, seed + options.pop("seeds", 3)),
            training=Training(examples=examples, device=device, **options),
            model=label,
            progress=progress,
        )
    except (KoriskError, MemoryError, OSError):
        raise
    except Exception as error:  # from the user's own code
        first = (str(error).splitlines() or [""])[0]
        raise KoriskError(
            f"--network {network} failed: {type(error).__name__}: {first}; try it on a batch of "
            "inputs first"
        ) from error
    return Answer(name, made, chosen[0] if chosen else None, notes)


def training_options(training: Sequence[str]) -> dict[str, Any]:
    """The --training options: fields of `Training`, and sizes and how many seeds."""
    from korisk.prediction.rehearse import SIZES

    options: dict[str, Any] = {}
    for each in training:
        key, _, text = each.partition("=")
        _checks.one_of("--training", key, _TRAINING)
        try:
            options[key] = float(text) if key == "rate" else int(text)
        except ValueError:
            raise KoriskError(
                f"--training {key} must be a number, got {shown(text)}; say {key}=16, for example"
            ) from None
    if "largest" in options:
        largest, least = options.pop("largest"), 4 * SIZES[0]
        remedy = "try 2048"
        _checks.count("--training largest", largest, at_least=least, at_most=10**6, remedy=remedy)
        doubled = [SIZES[0] * 2**k for k in range(20)]
        options["sizes"] = [*(n for n in doubled if n < largest), largest]
    return options


def read_build(option: str, place: str) -> tuple[Callable[[], Any], Mapping[str, Any]]:
    """The function that `FILE.py:BUILD` names, and everything that its file defines."""
    path, _, name = place.rpartition(":")
    if not path or not name.isidentifier():
        raise KoriskError(
            f"{option} must be FILE.py:BUILD, a function in a file, got {shown(place)}"
        )
    file = Path(path)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if not file.is_file() or spec is None or spec.loader is None:
        raise KoriskError(f"{option} {file}: there is no such Python file; check the path")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        first = (str(error).splitlines() or [""])[0]
        raise KoriskError(
            f"{option} {file} cannot be imported: {type(error).__name__}: {first}; run it with "
            "Python first"
        ) from error
    found = getattr(module, name, None)
    if not callable(found):
        known = [
            key
            for key, each in vars(module).items()
            if callable(each) and getattr(each, "__module__", "") == module.__name__
        ]
        raise KoriskError(f"{file} has no function {name!r}{did_you_mean(name, known)}")
    build: Callable[[], Any] = found
    return build, vars(module)


def show(answer: Answer, asked: Sequence[float], at: Sequence[int], *, as_json: bool) -> None:
    """Print the tables and sentences, or JSON; raises if a target is out of reach."""
    made, pilot = answer.made, answer.pilot
    sizes = made.curve.sizes.tolist()
    simulated = dict(zip(sizes, made.curve.means.tolist(), strict=True))
    errors = [made.at(n, pilot) for n in (at or sizes)]
    targets = asked or [float(f"{made.at(sizes[-1], pilot).value:.3g}")]
    found: list[dict[str, Any]] = []
    for target in targets:
        if pilot is None:
            found.append(made.samples(target).to_dict())
        else:
            plan = made.plan(target, pilot)
            names = ("target", "samples", "lower", "upper", "reach", "chance")
            found.append({name: getattr(plan, name) for name in names})
    said = [made.explain(target, pilot) for target in asked] or [made.explain(None, pilot)]
    if as_json:
        curve = zip(made.curve.n.tolist(), made.curve.error.tolist(), made.curve.seed, strict=True)
        print_json(
            {
                "point": answer.point,
                "network": made.curve.model,
                "metric": "mse",
                "simulated": made.simulated,
                "measured": None if pilot is None else pilot.sizes.tolist(),
                "curve": [dict(zip(("n", "error", "seed"), row, strict=True)) for row in curve],
                "errors": [vars(each) for each in errors],
                "samples": found,
                "unaltered": made.unaltered,
                "notes": [*made.notes, *answer.notes],
                "explanation": said,
                "seconds": made.seconds,
            }
        )
    else:
        out = console()
        title = f"{answer.point}: expected mse of {made.curve.model}"
        shown_table = table(title, "N", "simulated", "expected", "90% from", "to", text=0)
        for each in errors:
            values = [number(value, 3) for value in (each.value, each.lower, each.upper)]
            known = number(simulated[each.n], 3) if each.n in simulated else "-"
            shown_table.add_row(*cells(whole(each.n), known, *values))
        out.print(shown_table)
        title = "Samples for a target" if asked else "Samples for a target, as an example"
        shown_table = table(title, "target", "N", "chance", "90% from", "to", "at most", text=0)
        for size in found:
            row = ["-"] * 4
            if size["samples"] is not None:
                ends = [math.inf if size[end] is None else size[end] for end in ("lower", "upper")]
                row = [whole(size["samples"]), chance(size["chance"]), *map(count, ends)]
            shown_table.add_row(*cells(number(size["target"]), *row, chance(size["reach"])))
        out.print(shown_table)
        for sentence in [*said, *answer.notes, f"{answer.point}: {duration(made.seconds)}.\n"]:
            out.print(sentence, highlight=False, markup=False)
    lost = [number(size["target"], 6) for size in found if asked and size["samples"] is None]
    if lost:
        raise OutOfReachError(
            f"{made.curve.model} is not expected to reach {', '.join(lost)}; allow a larger error"
        )

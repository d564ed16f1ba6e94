"""What results say about the paper's tables, on results that are made up."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from korisk.curves.curve import Curve
from korisk.errors import KoriskError
from korisk.paper import published
from korisk.paper.reproduction import Sweep, calibration, findings, studies, sweeps, verdicts
from korisk.planning.compare import crossing
from korisk.store.cells import Row
from korisk.store.store import FlatRow
from korisk.studies.spec.study import Protocol

Errors = Callable[[int], float]


def points(**options: Any) -> set[str]:
    return {task.point for study in studies(**options) for task in study.tasks}


def test_a_reproduction_on_a_cpu_is_the_small_scales_and_a_reduced_128() -> None:
    small = {f"{protocol}-{side}" for protocol in ("released", "rigorous") for side in (8, 16, 32)}
    large = {f"{protocol}-{side}" for protocol in ("released", "rigorous") for side in (128, 256)}
    assert points() == small | {"rigorous-128-reduced"}
    assert points(full=True) == points(on_gpu=True) == small | large
    assert points(points=[512], full=True) == {"rigorous-512"}
    assert points(points=[128], protocols=["released"]) == {"released-128"}


def test_a_reproduction_has_the_papers_seeds_unless_told() -> None:
    tasks = [task for study in studies(full=True) for task in study.tasks]
    assert [task.seed for task in tasks if task.point == "released-8"] == [1, 2, 3, 4, 5]
    assert [task.seed for task in tasks if task.point == "rigorous-256"] == [1, 2, 3]
    assert {task.seed for study in studies(seeds=[7]) for task in study.tasks} == {7}


def test_points_that_the_paper_has_not_are_refused() -> None:
    for wrong in ([64], [8, 8]):
        with pytest.raises(
            KoriskError, match="points must be among 8, 16, 32, 128, 256, 512, each"
        ):
            studies(points=wrong)
    with pytest.raises(KoriskError, match="no point at 512"):
        studies(points=[512], protocols=["released"])


def stored(
    protocol: Protocol, side: int, known: Errors, dense: Errors, *, full: bool = True
) -> list[FlatRow]:
    """Rows as a run would have stored them, with the given errors over N and a little scatter."""
    made = []
    for study in studies(points=[side], protocols=[protocol], full=full):
        for task in study.tasks:
            scatter = 1 + 1e-3 * (task.seed - 2)
            made.append(FlatRow(task=task, row=row("KO", 0, known(10**9) * 1.02)))
            for n in task.spec["sizes"]:
                made.append(FlatRow(task=task, row=row("KO", n, known(n) * scatter)))
                made.append(FlatRow(task=task, row=row("FC", n, dense(n) * scatter)))
    return made


def row(model: str, n: int, error: float) -> Row:
    return Row(model=model, n=n, metrics={"mse": error, "rmse_over_max": error})


def flat(level: float) -> Errors:
    return lambda n: level


def falling(level: float, power: float) -> Errors:
    return lambda n: level * n**-power


def only(*arguments: Any, **options: Any) -> list[Sweep]:
    (sweep,) = sweeps(stored(*arguments, **options))
    return [sweep]


def test_the_table_has_four_origins_and_ours_is_fitted_over_the_papers_n() -> None:
    def line(n: int) -> float:
        return 1e-3 + 2e-2 * math.log(n) / n

    rows = stored("rigorous", 8, line, flat(0.02)) + stored("released", 8, line, flat(0.03))
    known, dense = calibration(sweeps(rows))
    assert (known.model, dense.model) == ("KO", "FC")
    assert known.by_origin["paper"] == published.CALIBRATION[0].known
    assert dense.by_origin["released"] == published.RELEASED_CALIBRATION[0].dense
    ours = known.by_origin["ours, rigorous"]
    assert ours is not None
    assert ours.floor == pytest.approx(line(64), rel=2e-3)  # N up to 1024 is not the paper's
    assert dense.by_origin["ours, released"] is not None


def test_large_scales_are_calibrated_on_squares_of_means() -> None:
    sweep = published.RELEASED_SWEEP
    at = dict(zip(sweep.sizes, zip(sweep.known, sweep.dense, strict=True), strict=True))
    found = only("released", 128, lambda n: at.get(n, at[2048])[0], lambda n: at[n][1])
    paper = published.CALIBRATION[3]
    for line, printed in zip(calibration(found), (paper.known, paper.dense), strict=True):
        for origin in ("released", "ours, released"):
            ours = line.by_origin[origin]
            assert ours is not None
            assert ours.floor == pytest.approx(printed.floor, rel=1e-2)
            assert ours.slope == pytest.approx(printed.slope, rel=1e-2)


def test_a_full_sweep_prevails_over_a_reduced_one_and_half_of_one_is_none() -> None:
    reduced = stored("rigorous", 128, flat(0.03), falling(1, 0.3), full=False)
    full = stored("rigorous", 128, flat(0.02), falling(1, 0.3))
    assert [line.reduced for line in calibration(sweeps(reduced))] == [True, True]
    for rows in (reduced + full, full + reduced):
        known, _ = calibration(sweeps(rows))
        assert not known.reduced
        ours = known.by_origin["ours, rigorous"]
        assert ours is not None
        assert ours.floor == pytest.approx(4e-4, rel=1e-2)
    assert sweeps([each for each in full if each.row.model == "KO"]) == []


@pytest.mark.parametrize(
    ("protocol", "side", "known", "dense", "full", "holds", "evidence"),
    [
        ("rigorous", 16, flat(1e-3), falling(1, 0.5), True, True, "5 seeds"),
        ("rigorous", 16, flat(1e-3), lambda n: 2e-3 if n != 32 else 9e-4, True, False, "N = 32"),
        # What is beyond the paper's N does not count against its outcome.
        ("rigorous", 8, flat(1e-3), lambda n: 2e-3 if n <= 64 else 1e-5, True, True, ""),
        # At 128 the outcome is judged at N = 2048.
        ("released", 128, flat(0.055), falling(0.3, 0.25), True, True, ""),
        ("rigorous", 128, flat(0.02), falling(0.3, 0.25), True, False, ""),
        ("released", 128, flat(0.055), flat(0.05), True, False, ""),  # FC has to begin above KO
        ("released", 128, flat(0.055), lambda n: 0.3 if n < 2048 else 0.0551, True, True, ""),
        ("rigorous", 128, flat(0.02), falling(0.3, 0.25), False, None, "2048 was not measured"),
    ],
)
def test_outcomes_are_judged_at_the_papers_n(
    protocol: Any, side: int, known: Errors, dense: Errors, full: bool, holds: Any, evidence: str
) -> None:
    (verdict,) = verdicts(only(protocol, side, known, dense, full=full))
    assert verdict.holds is holds
    assert evidence in verdict.evidence


def test_what_a_sweep_shows_beyond_the_papers_n() -> None:
    late = only("rigorous", 8, flat(1e-3), lambda n: 2e-3 if n <= 64 else 1e-5)
    (finding,) = findings(late)
    assert finding.passed_floor is not None
    n, error, floor = finding.passed_floor
    assert n in (128, 256, 512, 1024)
    assert error < 1e-4 < floor
    assert finding.crossing is not None
    assert finding.crossing.means == (64, 128)
    found = finding.crossing.crossover
    assert found is not None
    assert 64 <= found.n <= 256
    assert found.better_after == finding.crossing.better == "FC"


def test_training_is_compared_with_the_untrained_network() -> None:
    (finding,) = findings(only("rigorous", 32, flat(2e-4), falling(1, 0.5)))
    assert finding.untrained == pytest.approx(2.04e-4)
    assert finding.worst_training == pytest.approx(1 / 1.02, rel=1e-3)
    (worse,) = findings(only("rigorous", 32, lambda n: 2e-4 if n > 8 else 3e-4, flat(1)))
    assert worse.worst_training == pytest.approx(1.5 / 1.02, rel=1e-3)


def curve(model: str, errors: Errors, sizes: list[int]) -> Curve:
    rows = [(n, errors(n) * (1 + 1e-3 * seed), seed) for n in sizes for seed in range(3)]
    n, error, seed = zip(*rows, strict=True)
    return Curve(n, error, seed, model=model)


@pytest.mark.parametrize("sizes", [[4, 1024], [4, 64, 1024]])
def test_a_change_that_was_measured_is_never_denied(sizes: list[int]) -> None:
    found = crossing(curve("KO", flat(1e-3), sizes), curve("FC", falling(1, 1.2), sizes))
    assert found is not None
    assert (found.means, found.better) == ((sizes[-2], 1024), "FC")
    assert "every N measured" not in found.explanation
    assert (found.crossover is not None) == (len(sizes) == 3)


def test_without_a_change_the_words_say_how_far_was_looked() -> None:
    for sizes in ([4, 8], [4, 8, 16]):
        found = crossing(curve("KO", flat(1e-3), sizes), curve("FC", flat(0.1), sizes))
        assert found is not None
        assert f"KO is better at every N tried, up to {sizes[-1]}" in found.explanation
        said = "At least 3 sizes are needed to extrapolate" in found.explanation
        assert said == (len(sizes) == 2)
    assert crossing(curve("KO", flat(1e-3), [4, 8]), curve("FC", flat(1), [16])) is None

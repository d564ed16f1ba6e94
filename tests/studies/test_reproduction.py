"""What results say about the paper's tables, on results that are made up."""

import math
from collections.abc import Callable

import pytest

from korisk import published
from korisk.cli.studying import in_words
from korisk.curves.curve import Curve
from korisk.studies.reproduction import (
    Sweep,
    calibration,
    findings,
    studies,
    sweeps,
    verdicts,
)
from korisk.studies.result import Row
from korisk.studies.results import crossing
from korisk.studies.spec.study import Protocol
from korisk.studies.store.store import FlatRow

Errors = Callable[[int], float]


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


def only(rows: list[FlatRow]) -> Sweep:
    (sweep,) = sweeps(rows)
    return sweep


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
    rows = stored("released", 128, lambda n: at.get(n, at[2048])[0], lambda n: at[n][1])
    known, dense = calibration(sweeps(rows))
    paper = published.CALIBRATION[3]
    for line, printed in ((known, paper.known), (dense, paper.dense)):
        for origin in ("released", "ours, released"):
            ours = line.by_origin[origin]
            assert ours is not None
            assert ours.floor == pytest.approx(printed.floor, rel=1e-2)
            assert ours.slope == pytest.approx(printed.slope, rel=1e-2)


def test_a_full_sweep_prevails_over_a_reduced_one() -> None:
    reduced = stored("rigorous", 128, flat(0.03), falling(1, 0.3), full=False)
    full = stored("rigorous", 128, flat(0.02), falling(1, 0.3))
    assert [line.reduced for line in calibration(sweeps(reduced))] == [True, True]
    for rows in (reduced + full, full + reduced):
        known, _ = calibration(sweeps(rows))
        assert not known.reduced
        ours = known.by_origin["ours, rigorous"]
        assert ours is not None
        assert ours.floor == pytest.approx(4e-4, rel=1e-2)


def test_dominance_holds_until_one_n_says_otherwise() -> None:
    (held,) = verdicts([only(stored("rigorous", 16, flat(1e-3), falling(1, 0.5)))])
    assert held.holds is True
    crossing = stored("rigorous", 16, flat(1e-3), lambda n: 2e-3 if n != 32 else 0.9e-3)
    (broken,) = verdicts([only(crossing)])
    assert broken.holds is False
    assert "N = 32" in broken.evidence


def test_what_lies_beyond_the_papers_n_does_not_count_against_its_outcome() -> None:
    late = stored("rigorous", 8, flat(1e-3), lambda n: 2e-3 if n <= 64 else 1e-5)
    (verdict,) = verdicts([only(late)])
    assert verdict.holds is True
    (finding,) = findings([only(late)])
    assert finding.passed_floor is not None
    assert finding.passed_floor[0] in (128, 256, 512, 1024)
    assert finding.passed_floor[1] < 1e-4 < finding.passed_floor[2]
    assert finding.crossing is not None
    assert finding.crossing.means == (64, 128)
    found = finding.crossing.found
    assert found is not None
    assert 64 <= found.n <= 256
    assert found.better_after == finding.crossing.better == "FC"


def test_the_crossover_at_128_is_judged_at_2048_and_open_where_that_was_not_run() -> None:
    (met,) = verdicts([only(stored("released", 128, flat(0.055), falling(0.3, 0.25)))])
    assert met.holds is True
    (missed,) = verdicts([only(stored("rigorous", 128, flat(0.02), falling(0.3, 0.25)))])
    assert missed.holds is False
    never = stored("released", 128, flat(0.055), lambda n: 0.05)
    assert verdicts([only(never)])[0].holds is False  # FC has to begin above KO
    nearly = stored("released", 128, flat(0.055), lambda n: 0.3 if n < 2048 else 0.0551)
    assert verdicts([only(nearly)])[0].holds is True
    short = stored("rigorous", 128, flat(0.02), falling(0.3, 0.25), full=False)
    (unknown,) = verdicts([only(short)])
    assert unknown.holds is None
    assert "N = 2048 was not measured" in unknown.evidence


def test_training_is_held_against_the_untrained_network() -> None:
    (finding,) = findings([only(stored("rigorous", 32, flat(2e-4), falling(1, 0.5)))])
    assert finding.untrained == pytest.approx(2.04e-4)
    assert finding.worst_training == pytest.approx(1 / 1.02, rel=1e-3)
    rising = stored("rigorous", 32, lambda n: 2e-4 if n > 8 else 3e-4, flat(1))
    (worse,) = findings([only(rising)])
    assert worse.worst_training == pytest.approx(1.5 / 1.02, rel=1e-3)


def curve(model: str, errors: Errors, sizes: list[int]) -> Curve:
    return Curve(
        [n for n in sizes for _ in range(3)],
        [errors(n) * (1 + 1e-3 * seed) for n in sizes for seed in range(3)],
        [seed for _ in sizes for seed in range(3)],
        model=model,
    )


@pytest.mark.parametrize("sizes", [[4, 1024], [4, 64, 1024]])
def test_a_change_that_was_measured_is_never_denied(sizes: list[int]) -> None:
    known, dense = curve("KO", flat(1e-3), sizes), curve("FC", falling(1, 1.2), sizes)
    found = crossing(known, dense)
    assert found is not None
    assert found.means == (sizes[-2], 1024)
    assert found.better == "FC"
    said = in_words(found)
    assert "every N measured" not in said
    assert (found.found is not None) == (len(sizes) == 3)


def test_without_a_change_the_words_say_how_far_was_looked() -> None:
    known, dense = curve("KO", flat(1e-3), [4, 8]), curve("FC", flat(0.1), [4, 8])
    found = crossing(known, dense)
    assert found is not None
    assert "KO is better at every measured N, up to 8" in in_words(found)
    assert "At least 3 sizes are needed to extrapolate" in in_words(found)
    longer = crossing(curve("KO", flat(1e-3), [4, 8, 16]), curve("FC", flat(0.1), [4, 8, 16]))
    assert longer is not None
    assert "KO is better at every measured N, up to 16" in in_words(longer)
    assert "sizes are needed" not in in_words(longer)
    assert crossing(known, curve("FC", flat(1), [16])) is None


def test_half_of_a_sweep_is_no_sweep() -> None:
    rows = [each for each in stored("rigorous", 8, flat(1), flat(2)) if each.row.model == "KO"]
    assert sweeps(rows) == []

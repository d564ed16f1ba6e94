"""Perfect scores keep their part in the mean, and stores tell metric and unit to those who read."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pilot_fits import power, scores
from typer.testing import CliRunner

import korisk as kr
from korisk.cli.app import app
from korisk.errors import KoriskError
from korisk.pilots.fit import Reading
from korisk.report.contents import read_contents
from korisk.studies.results import curves
from korisk.studies.store.store import Store

SIZES = [16, 32, 64, 128]


def stored(path: Path) -> dict[str, list[kr.Curve]]:
    with Store.read(path) as held:
        return curves(held.rows())


def often_perfect(n: int, seed: int) -> float:
    """Half of the fits at 64, and all at 128, make no mistake."""
    return 0.0 if n == 128 or (n == 64 and seed % 2) else power(n, seed)


UNITS: list[tuple[str, Callable[[float], float]]] = [
    ("error", lambda error: error),
    ("accuracy", lambda error: 1 - error),
    ("percent", lambda error: 100 - error),
    ("rmse", lambda error: error),
    ("negated", lambda error: -error),
]


@pytest.mark.parametrize(("unit", "shown"), UNITS)
def test_a_perfect_score_is_stored_and_counts_in_the_mean(
    tmp_path: Path, unit: str, shown: Callable[[float], float]
) -> None:
    pilot = kr.run_pilot(
        lambda n, seed: shown(often_perfect(n, seed)), SIZES, 4, unit=unit, store=tmp_path / "p.db"
    )
    assert pilot.failures == ()
    assert len(pilot.fits) == 16
    assert pilot.curve.sizes.tolist() == [16, 32, 64]
    assert pilot.curve.counts.tolist() == [4, 4, 2]
    law = np.square if unit == "rmse" else np.asarray
    for n, mean in zip(SIZES, pilot.curve.means, strict=False):
        every = [float(law(often_perfect(n, seed))) for seed in range(4)]
        assert mean == pytest.approx(np.mean(every), rel=1e-9)
    assert pilot.perfect == (
        "2 of 4 fits at N = 64 were perfect; the others are scaled to the mean of all",
        "every fit at N = 128 was perfect",
    )
    assert "Every fit at N = 128 was perfect." in str(pilot)
    assert stored(tmp_path / "p.db") == {pilot.model: [pilot.curve]}
    (point,) = read_contents(tmp_path / "p.db").points
    assert point.curves == (pilot.curve,)
    assert point.left_out == tuple(f"{pilot.model}: {said}" for said in pilot.perfect)


def test_scores_that_are_all_perfect_leave_nothing_to_plan() -> None:
    pilot = kr.run_pilot(lambda n, seed: {"accuracy": 1.0}, SIZES, 2, target=0.9, largest=500)
    with pytest.raises(KoriskError, match="every fit was perfect in 'accuracy'"):
        pilot.plan()
    assert pilot.next_size is None
    assert pilot.stopped.startswith("too few sizes gave an error")
    assert "Every fit at N = 16 was perfect." in str(pilot)
    some = kr.run_pilot(lambda n, seed: 0.0 if n > 32 else 0.5, SIZES, 1)
    with pytest.raises(KoriskError, match=r"got 2 .*; every fit was perfect at N = 64, 128"):
        some.plan(0.1)
    other = kr.run_pilot(lambda n, seed: {"mse": 0.5, "dice": 1.0}, SIZES, 1)
    assert other.left_out == {"dice": "every fit was perfect"}


def test_nothing_beyond_a_size_that_is_perfect_is_measured() -> None:
    def fit(n: int, seed: int) -> float:
        return 0.0 if n >= 100 else power(n, seed)

    pilot = kr.run_pilot(fit, [16, 32, 64, 128], 2, target=0.03)
    assert pilot.too_large == 128
    assert max(pilot.open_sizes) < 128


# --- What a store tells --------------------------------------------------------------------------


def test_a_store_knows_the_metric_and_the_unit_that_were_given(tmp_path: Path) -> None:
    def top(n: int, seed: int) -> dict[str, float]:
        return {"bias": -1.0, "top1": 1 - power(n, seed)}

    path = tmp_path / "p.db"
    pilot = kr.run_pilot(top, SIZES, 2, store=path, metric="top1", unit={"top1": "accuracy"})
    assert stored(path) == {"top": [pilot.curve]}
    (point,) = read_contents(path).points
    assert (point.metric, point.curves, point.left_out) == ("top1", (pilot.curve,), ())


def test_a_unit_of_ones_own_is_stored_as_its_law() -> None:
    own = kr.Unit("hits", "complement")
    assert Reading("x", own).stored({"x": 0.5}) == {"metric": "x", "unit": "complement"}
    assert Reading("y").stored({"x": 0.5}) == {}
    assert Reading().stored({"ssim": 0.5}) == {"metric": "ssim", "unit": "ssim"}


def test_a_unit_or_a_name_that_comes_later_does_not_split_a_pilot(tmp_path: Path) -> None:
    path = tmp_path / "p.db"

    def fit(n: int, seed: int) -> float:
        return 1 - power(n, seed)

    kr.run_pilot(fit, SIZES[:3], 2, store=path)
    later: list[dict[str, Any]] = [{"unit": "accuracy"}, {"metric": "dice"}]
    for options in later:
        pilot = kr.run_pilot(fit, SIZES, 2, store=path, **options)
        assert pilot.failures == ()
        assert pilot.curve.counts.tolist() == [2] * 4
        assert pilot.curve.error[0] == pytest.approx(power(16, 0), rel=1e-9)
        assert pilot.metric == next(iter(options.values()))
    pilot = kr.run_pilot(fit, SIZES, 2, store=path, unit="accuracy")
    assert stored(path) == {"fit": [pilot.curve]}  # of the fits that were measured last
    table = CliRunner().invoke(app, ["export", str(path)]).stdout.splitlines()
    assert "accuracy" in table[0]
    assert ",error" not in table[0]
    assert len(table) == 9


def test_a_dict_keeps_its_names(tmp_path: Path) -> None:
    path = tmp_path / "p.db"
    kr.run_pilot(scores, SIZES, 1, store=path)
    again = kr.run_pilot(scores, SIZES, 1, store=path, metric="loss")
    assert again.curve.error[0] == 2 * power(16, 0)

"""Pilots in this process: what they give, what fits may do, what is kept, and what is shown."""

import contextlib
import csv
import json
import math
import os
import re
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pilot_fits
import pytest
import torch
from pilot_fits import KeepsSilent, RefusesNotes, SpeaksBadly, grouped, power, scores
from typer.testing import CliRunner

import korisk as kr
from korisk.cli.app import app
from korisk.errors import KoriskError, KoriskWarning
from korisk.pilots import Compute, PilotModel
from korisk.pilots.fit import Reading
from korisk.pilots.options import own_name
from korisk.report.contents import read_contents
from korisk.store.store import Store
from korisk.studies.results import curves
from korisk.studies.run.events import Event

SIZES = [16, 32, 64, 128]


def reasons(pilot: kr.Pilot) -> dict[tuple[int, int], str]:
    return {(failure.n, failure.seed): failure.reason for failure in pilot.failures}


def stored(path: Path) -> dict[str, list[kr.Curve]]:
    with Store.read(path) as held:
        return curves(held.rows())


def export(*arguments: object) -> list[str]:
    return CliRunner().invoke(app, ["export", *map(str, arguments)]).stdout.splitlines()


def test_a_curve_of_every_size_and_seed() -> None:
    pilot = kr.run_pilot(power, SIZES, 3)
    curve = pilot.curve
    assert curve.error.tolist() == [power(n, seed) for n in SIZES for seed in range(3)]
    assert (curve.model, curve.metric, curve.unit.name) == ("power", "error", "error")
    assert (pilot.failures, pilot.store) == ((), None)
    assert pilot.plan(0.04).to_dict() == kr.plan(curve, 0.04).to_dict()
    with pytest.raises(KoriskError, match="plan needs a target"):
        pilot.plan()


def test_metrics_have_their_units_and_one_is_chosen() -> None:
    pilot = kr.run_pilot(scores, SIZES, [4, 9], target=0.97)
    assert (pilot.metric, pilot.curve.unit.name) == ("accuracy", "accuracy")
    assert (pilot.curve.seeds, set(pilot.curves)) == (("4", "9"), {"accuracy", "loss"})
    assert pilot.curves["loss"].unit.name == "error"
    np.testing.assert_allclose(pilot.curves["loss"].error, 2 * pilot.curve.error, rtol=1e-12)
    assert "above 0" in pilot.left_out["bias"]
    assert pilot.plan().target == 0.97
    other = kr.run_pilot(scores, SIZES, 1, metric="loss", unit="rmse")
    assert (other.metric, other.curve.unit.name) == ("loss", "rmse")
    named = kr.run_pilot(scores, SIZES, 1, metric="bias", unit={"bias": "negated"})
    assert named.curve.error[0] == power(16, 0)
    single = kr.run_pilot(lambda n, seed: 20 * math.log10(n), SIZES, 1, unit="psnr")
    assert (single.metric, single.curve.unit.name) == ("psnr", "psnr")


def test_words_csv_and_export_tell_the_same(tmp_path: Path) -> None:
    store = tmp_path / "deep" / "pilot.db"
    pilot = kr.run_pilot(scores, SIZES, 2, store=store, model="net", target=0.95)
    pilot.to_csv(tmp_path / "pilot.csv")
    assert kr.Curve.read(tmp_path / "pilot.csv", metric="accuracy", unit="accuracy") == pilot.curve
    rows = list(csv.DictReader(export(store)))
    expected = [("net", "16", "0"), ("net", "16", "1"), ("net", "32", "0")]
    assert [(r["point"], r["n"], r["seed"]) for r in rows[:3]] == expected
    assert float(rows[0]["accuracy"]) == scores(16, 0)["accuracy"]
    (tmp_path / "loss.csv").write_text("\n".join(export(store, "--metric", "loss")))
    assert kr.Curve.read(tmp_path / "loss.csv") == pilot.curves["loss"]
    assert stored(store) == {"net": [pilot.curve]}
    text = str(pilot)
    assert text.startswith("net: 8 fits at N = 16, 32, 64, 128, in ")
    assert "No curve of 'bias'" in text
    assert pilot.plan().explain() in text


def test_two_models_of_a_store_are_one_point_with_a_ratio(tmp_path: Path) -> None:
    """The store, a table of it, and the curves in Python give one answer."""
    store = tmp_path / "pilot.db"
    first = kr.run_pilot(power, SIZES, 2, store=store, model="A")
    second = kr.run_pilot(lambda n, seed: 1.3 * power(n, seed), SIZES, 2, store=store, model="B")
    assert kr.Curve.read_all(store) == (first.curve, second.curve)
    assert kr.Curve.read(store, model="B") == second.curve
    (point,) = read_contents(store).points
    assert point.curves == (first.curve, second.curve)
    (tmp_path / "all.csv").write_text("\n".join(export(store)))
    expected = kr.compare(first.curve, second.curve, 0.05)
    assert expected.ratio is not None
    for path in (store, tmp_path / "all.csv"):
        done = CliRunner().invoke(app, ["compare", str(path), "--target", "0.05", "--json"])
        found = json.loads(done.stdout)
        assert (found["first"]["name"], found["second"]["name"]) == ("A", "B")
        assert found["ratio"] == expected.ratio
        ends = expected.ratio_range
        finite = ends and [end if math.isfinite(end) else None for end in ends]
        assert found["ratio_range"] == finite


def test_damaged_fits_of_another_model_take_its_others_with_them(tmp_path: Path) -> None:
    store = tmp_path / "pilot.db"
    first, second = (kr.run_pilot(power, SIZES, 2, store=store, model=name) for name in "AB")
    with contextlib.closing(sqlite3.connect(store)) as opened, opened:  # one fit of A, one of B
        opened.execute(
            "UPDATE rows SET metrics = '{}' WHERE cell IN (1, (SELECT max(id) FROM cells))"
        )
    key = f"A, n = {SIZES[0]}, seed 0"
    with pytest.raises(kr.KoriskError, match=key):
        kr.Curve.read(store, model="A")
    with pytest.warns(KoriskWarning, match=f"{key}.*damaged-1"):
        assert kr.run_pilot(power, SIZES, 2, store=store, model="B").curve == second.curve
    assert kr.Curve.read_all(store) == (second.curve,)
    assert kr.run_pilot(power, SIZES, 2, store=store, model="A").curve == first.curve


@pytest.mark.parametrize("unit", kr.curves.UNITS)
def test_an_exported_metric_is_read_as_the_stores(tmp_path: Path, unit: str) -> None:
    """Also where the metric's name does not tell its unit, and as JSON."""
    store, known = tmp_path / "pilot.db", kr.curves.UNITS[unit]

    def fit(n: int, seed: int) -> dict[str, float]:
        error = power(n, seed)
        return {"quality": float(known.from_error(error)), "accuracy": 1 - error}

    pilot = kr.run_pilot(fit, SIZES, 2, store=store, model="net", unit=unit)
    pilot.to_csv(tmp_path / "own.csv")
    for metric in ("quality", "accuracy"):
        stored_curve = kr.Curve.read(store, metric=metric)
        assert kr.Curve.read(tmp_path / "own.csv", metric=metric) == stored_curve
        for kind in ("csv", "json"):
            file = tmp_path / f"{metric}.{kind}"
            file.write_text("\n".join(export(store, "--metric", metric, "--format", kind)))
            assert kr.Curve.read(file) == stored_curve == pilot.curves[metric]
    assert pilot.curve.unit.name == known.name


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"sizes": []}, "in ascending order"),
    ({"sizes": [1, 2]}, "sizes must be a whole number from 2"),
    ({"sizes": "8"}, "sizes must be a whole number from 2"),
    *(({"sizes": 8}, "sizes must be a list"), ({"seeds": 0}, "seeds must be a whole number")),
    ({"seeds": []}, "seeds must be one or more"),
    ({"seeds": [1, 1]}, "seeds must be one or more"),
    ({"unit": "furlong"}, "unit must be one of"),
    ({"settings": {"x": object()}}, "settings must be a dict of plain values"),
    ({"settings": [1]}, "settings must be a dict"),
    ({"workers": "2"}, "workers must be a whole number from 0 to 512, got '2'"),
    ({"store": 3}, "store must be the name of a file, got 3"),
    ({"watch": 3}, "watch must be a function, got 3"),
    ({"cluster": 3}, "cluster must be one of korisk.studies.run.clusters, got 3"),
    ({"metric": 3}, "metric must be a printable text, got 3"),
    ({"target": math.nan}, "target must be a finite number"),
    ({"model": "two\nlines"}, "model must be a printable text"),
]


def test_options_that_make_no_sense_are_refused_before_the_first_fit() -> None:
    def never(n: int, seed: int) -> float:
        raise AssertionError("called")

    for options, said in WRONG:
        with pytest.raises(KoriskError, match=said):
            kr.run_pilot(never, **grouped(**{"sizes": SIZES, "seeds": 1} | options))
    assert len(kr.run_pilot(power, np.array([4, 8]), np.arange(2)).curve) == 4


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Compute(threads=-1), "threads must be a whole number >= 1, got -1; count threads"),
        (lambda: PilotModel(name=3), "^name must be a printable text, got 3; give it a short"),  # type: ignore[arg-type]
        (lambda: PilotModel.of("\n"), "^model must be a printable text, got '.n'; give it a short"),
    ],
)
def test_value_objects_refuse_wrong_values_when_they_are_made(
    make: Callable[[], object], said: str
) -> None:
    with pytest.raises(KoriskError, match=said):
        make()


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (math.nan, "must give a finite number, got nan"),
        (10**400, "must give a finite number, got inf"),
        *((None, "must give a number, got None"), (True, "must give a number, got True")),
        (np.ones(1), "an array of shape (1,)"),
        *((torch.ones(2, 3), "an array of shape (2, 3)"), (-0.5, "must be above 0")),
        *((1e-300, "must be above 0"), ({}, "a dict of 0 metrics")),
        *(({3: 0.5}, "name of a metric must be"), ({"mse": [0.5]}, "mse must give a number")),
        ({"accuracy": 1.2}, "accuracy must be below 1"),
    ],
)
def test_what_is_no_error_is_a_failure_of_that_fit_alone(value: Any, said: str) -> None:
    good = dict.fromkeys(value, 0.5) if isinstance(value, dict) and "mse" in value else 0.5
    pilot = kr.run_pilot(lambda n, seed: value if seed == 1 else good, [8, 16], 3)
    assert set(reasons(pilot)) == {(8, 1), (16, 1)}
    assert said in reasons(pilot)[8, 1]
    assert pilot.curve.counts.tolist() == [2, 2]
    assert f"N = 8, seed 1: {reasons(pilot)[8, 1]}" in str(pilot)


def test_scalars_of_any_library_are_numbers() -> None:
    half = torch.tensor(0.5, requires_grad=True), torch.tensor(0.5, dtype=torch.bfloat16)
    values: list[Any] = [np.float32(0.5), np.array(0.5), Decimal("0.5"), *half, np.int64(3)]
    pilot = kr.run_pilot(lambda n, seed: values[seed], [8], len(values))
    assert pilot.curve.error.tolist() == [0.5] * 5 + [3.0]


def test_other_metrics_than_those_of_most_fits() -> None:
    def moody(n: int, seed: int) -> dict[str, float]:
        return {"mse": 0.5, "extra": 1.0} if seed == 1 else {"mse": 0.5}

    pilot = kr.run_pilot(moody, [8, 16], 3)
    said = "gave the metrics 'mse', 'extra', and most others did not"
    assert (reasons(pilot), len(pilot.fits)) == ({(8, 1): said, (16, 1): said}, 4)


def test_a_metric_that_nobody_gave_can_be_chosen_anew_without_fitting(tmp_path: Path) -> None:
    store = tmp_path / "pilot.db"
    pilot = kr.run_pilot(scores, SIZES, 1, store=store, metric="acuracy")
    assert "gave no metric 'acuracy', but 'accuracy'" in reasons(pilot)[16, 0]
    with pytest.raises(KoriskError, match="no fit gave an error, 4 failed, the first"):
        _ = pilot.curve
    assert "no fit gave an error" in str(pilot)
    started: list[Event] = []
    for metric, error in (("accuracy", power(16, 0)), ("loss", 2 * power(16, 0))):
        again = kr.run_pilot(
            scores,
            SIZES,
            1,
            store=store,
            metric=metric,
            watch=started.append,
        )
        assert (started, again.curve.error[0]) == ([], pytest.approx(error, rel=1e-12))


def test_too_few_sizes_for_a_plan_are_named() -> None:
    def fails_late(n: int, seed: int) -> float:
        if n > 32:
            raise MemoryError
        return power(n, seed)

    pilot = kr.run_pilot(fails_late, SIZES, 2, target=0.04)
    said = r"needs errors at 3 sizes, got 2 \(N = 16, 32\); .*failed or was perfect at N = 64, 128"
    with pytest.raises(KoriskError, match=said):
        pilot.plan(0.1)
    assert "needs errors at 3 sizes" in str(pilot)


def often_perfect(n: int, seed: int) -> float:
    return 0.0 if n == 128 or (n == 64 and seed % 2) else power(n, seed)


UNITS: list[tuple[str, Callable[[float], float]]] = [
    *(("error", lambda error: error), ("accuracy", lambda error: 1 - error)),
    *(("percent", lambda error: 100 - error), ("rmse", lambda error: error)),
    ("negated", lambda error: -error),
]


@pytest.mark.parametrize(("unit", "shown"), UNITS)
def test_perfect_scores_count(tmp_path: Path, unit: str, shown: Callable[[float], float]) -> None:
    pilot = kr.run_pilot(
        lambda n, seed: shown(often_perfect(n, seed)), SIZES, 4, unit=unit, store=tmp_path / "p.db"
    )
    assert (pilot.failures, len(pilot.fits)) == ((), 16)
    assert pilot.curve.sizes.tolist() == [16, 32, 64]
    assert pilot.curve.counts.tolist() == [4, 4, 2]
    law = np.square if unit == "rmse" else np.asarray
    for n, mean in zip(SIZES, pilot.curve.means, strict=False):
        every = [float(law(often_perfect(n, seed))) for seed in range(4)]
        assert mean == pytest.approx(np.mean(every), rel=1e-9)
    some, every_one = pilot.perfect
    assert some.startswith("2 of 4 fits at N = 64 were perfect")
    assert every_one == "every fit at N = 128 was perfect"
    assert "Every fit at N = 128 was perfect." in str(pilot)
    assert stored(tmp_path / "p.db") == {pilot.model: [pilot.curve]}
    (point,) = read_contents(tmp_path / "p.db").points
    assert point.curves == (pilot.curve,)
    assert point.left_out == tuple(f"{pilot.model}: {said}" for said in pilot.perfect)


def test_scores_that_are_all_perfect_leave_nothing_to_plan() -> None:
    pilot = kr.run_pilot(lambda n, seed: {"accuracy": 1.0}, SIZES, 2, target=0.9)
    with pytest.raises(KoriskError, match="every fit was perfect in 'accuracy'"):
        pilot.plan()
    some = kr.run_pilot(lambda n, seed: 0.0 if n > 32 else 0.5, SIZES, 1)
    with pytest.raises(KoriskError, match="; every fit failed or was perfect at N = 64, 128"):
        some.plan(0.1)
    other = kr.run_pilot(lambda n, seed: {"mse": 0.5, "dice": 1.0}, SIZES, 1)
    assert other.left_out == {"dice": "every fit was perfect"}
    late = kr.run_pilot(lambda n, s: 0.0 if n >= 100 else power(n, s), SIZES, 2, target=0.03)
    assert late.too_large == 128
    assert late.next_n is None


def test_a_store_knows_the_metric_and_the_unit_that_were_given(tmp_path: Path) -> None:
    def top(n: int, seed: int) -> dict[str, float]:
        return {"bias": -1.0, "top1": 1 - power(n, seed)}

    path = tmp_path / "p.db"
    pilot = kr.run_pilot(top, SIZES, 2, store=path, metric="top1", unit={"top1": "accuracy"})
    assert stored(path) == {"top": [pilot.curve]}
    (point,) = read_contents(path).points
    assert (point.metric, point.curves, point.left_out) == ("top1", (pilot.curve,), ())
    own = kr.curves.Unit("hits", "complement")  # is stored as its law
    assert Reading("x", own).stored({"x": 0.5}) == {"metric": "x", "unit": "complement"}
    assert Reading("y").stored({"x": 0.5}) == {}
    assert Reading().stored({"ssim": 0.5}) == {"metric": "ssim", "unit": "ssim"}


def test_a_unit_or_a_name_that_comes_later_does_not_split_a_pilot(tmp_path: Path) -> None:
    path = tmp_path / "p.db"

    def fit(n: int, seed: int) -> float:
        return 1 - power(n, seed)

    kr.run_pilot(fit, SIZES[:3], 2, store=path)
    later: list[dict[str, Any]] = [{"unit": "accuracy"}, {"metric": "dice"}, {"unit": "accuracy"}]
    for options in later:
        pilot = kr.run_pilot(fit, SIZES, 2, store=path, **options)
        assert (pilot.failures, pilot.curve.counts.tolist()) == ((), [2] * 4)
        assert pilot.curve.error[0] == pytest.approx(power(16, 0), rel=1e-9)
        assert pilot.metric == next(iter(options.values()))
    assert stored(path) == {"fit": [pilot.curve]}  # of the fits that were measured last
    table = export(path)
    assert "accuracy" in table[0]
    assert ",error" not in table[0]
    assert len(table) == 9


@pytest.mark.parametrize(
    "error",
    [SpeaksBadly(), KeepsSilent("said"), RefusesNotes("said"), ValueError("x"), SystemExit(3)],
)
def test_exceptions_are_failures_of_their_fit_alone(error: BaseException) -> None:
    def fit(n: int, seed: int) -> float:
        if seed == 1:
            raise error
        return power(n, seed)

    pilot = kr.run_pilot(fit, [8, 16], 2)
    assert len(pilot.fits) == 2
    assert all(failure.reason.startswith(type(error).__name__) for failure in pilot.failures)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_a_forked_child_is_no_second_pilot(tmp_path: Path) -> None:
    fits = [pilot_fits.forks, pilot_fits.forks_and_raises]
    traces = tmp_path / "traces"

    def watch(event: Event) -> None:
        with traces.open("a") as file:
            file.write(f"{os.getpid()} {event.kind}\n")

    pilot = kr.run_pilot(lambda n, seed: fits[seed](n, seed), [8, 16], 2, watch=watch)
    assert pilot.curve.error.tolist() == [power(n, seed) for n in (8, 16) for seed in (0, 1)]
    lines = traces.read_text().splitlines()
    assert ({line.split()[0] for line in lines}, len(lines)) == ({str(os.getpid())}, 8)


def test_a_store_goes_on_where_it_ended(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    store = tmp_path / "pilot.db"

    def fit(n: int, seed: int) -> float:
        calls.append((n, seed))
        if (n, seed) == (32, 1) and len(calls) < 5:
            raise RuntimeError("once")
        return power(n, seed)

    first = kr.run_pilot(fit, [16, 32], 2, store=store)
    assert (len(calls), set(reasons(first))) == (4, {(32, 1)})
    second = kr.run_pilot(fit, [16, 32, 64], 3, store=store)
    assert calls[4:] == [(16, 2), (32, 2), (64, 0), (64, 1), (64, 2)]
    assert (set(reasons(second)), second.store) == ({(32, 1)}, store)
    third = kr.run_pilot(fit, [16, 32, 64], 3, store=store, compute=Compute(retry_failed=True))
    assert (calls[9:], third.failures) == ([(32, 1)], ())
    fewer = kr.run_pilot(fit, [16, 64], 2, store=store)
    assert (len(calls), fewer.curve.sizes.tolist()) == (10, [16, 64])
    assert fewer.curve.counts.tolist() == [2, 2]


def test_results_of_something_else_are_refused_in_words(tmp_path: Path) -> None:
    store = tmp_path / "pilot.db"

    def fit(n: int, seed: int, depth: int = 0) -> float:
        return power(n, seed)

    given: dict[str, Any] = {"settings": {"depth": 3, "a": [1]}, "name": "net"}
    kr.run_pilot(fit, [8], 1, store=store, model=PilotModel(**given))
    two: Any = np.int64(2)
    kr.run_pilot(partial(fit, depth=2), [8], 1, store=store, model="bound")
    kr.run_pilot(partial(fit, depth=two), [8], 1, store=store, model="bound")  # is 2 too
    refused: list[tuple[Any, dict[str, Any], str]] = [
        (fit, {"settings": {"depth": 4, "a": [1]}}, "settings.depth of model 'net' is 3 in"),
        (fit, {"settings": {"a": [1]}}, "is 3 in the store and missing now"),
        (fit, {"settings": {"depth": 3, "a": [1], "b": 0}}, "is missing in the store and 0 now"),
        (power, {}, "fit of model 'net' is "),
        (fit, {"study": "x"}, "holds the study 'pilot', not 'x'"),
        (partial(fit, depth=3), {"name": "bound", "settings": {}}, "partial depth of model"),
    ]
    for other, options, said in refused:
        with pytest.raises(KoriskError, match=re.escape(said)):  # at sizes of its own, too
            kr.run_pilot(other, [16], 1, store=store, model=PilotModel(**given | options))
    assert len(kr.run_pilot(power, [8, 16], 1, store=store, model="other").curve) == 2
    assert {curve.model for curve in stored(store)["pilot"]} == {"net", "bound", "other"}


@pytest.mark.parametrize(
    ("one", "other"),
    [([64], [128]), ({"a": (1, 2)}, {"a": (1, 3)}), (None, 1), (np.int64(1), np.int64(2))],
)
def test_everything_plain_that_partial_binds_counts(one: Any, other: Any) -> None:
    def anything(n: int, seed: int, layers: Any) -> float:
        return 0.5

    names, bound = zip(*(own_name(partial(anything, layers=x)) for x in (one, other)), strict=True)
    assert {name.rpartition(".")[2] for name in names} == {"anything"}
    assert bound[0] != bound[1]
    assert own_name(partial(anything, layers=one))[1] == bound[0]
    assert json.loads(json.dumps(bound[0])) == bound[0]
    assert own_name(partial(anything, layers=[np.float64(0.5)]))[1] == {"partial layers": [0.5]}
    assert own_name(partial(anything, layers=np.ones(3)))[1] == {}


def test_a_store_that_is_being_written_or_is_none(tmp_path: Path) -> None:
    with (
        Store.create_or_open(tmp_path / "p.db", {"name": "pilot"}),
        pytest.raises(KoriskError, match=r"is being written by .*or choose another path"),
    ):
        kr.run_pilot(power, [8], 1, store=tmp_path / "p.db")
    (tmp_path / "notes.db").write_text("no store")
    with pytest.raises(KoriskError, match="is not a store of a korisk study"):
        kr.run_pilot(power, [8], 1, store=tmp_path / "notes.db")


def test_an_interrupt_keeps_what_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(n: int, seed: int) -> float:
        if n == 32:
            raise KeyboardInterrupt
        return power(n, seed)

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(KeyboardInterrupt):
        kr.run_pilot(interrupted, [16, 32], 2, store=tmp_path / "p.db")
    with pytest.raises(KeyboardInterrupt) as caught:
        kr.run_pilot(interrupted, [16, 32], 2)
    [note] = caught.value.__notes__
    kept = Path(note.partition("store='")[2].removesuffix("'"))
    for path in (tmp_path / "p.db", kept):
        with Store.read(path) as store:
            assert len(list(store.results())) == 2


def test_nothing_is_left_without_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    kr.run_pilot(power, [8], 1)
    with pytest.raises(ZeroDivisionError):
        kr.run_pilot(power, [8], 1, watch=lambda event: 1 / 0)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_a_line_in_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def noisy(n: int, seed: int) -> float:
        print("out of the fit")
        return pilot_fits.raises(n, seed) if seed else power(n, seed)

    printed = "out of the fit\nout of the fit\nso far so good\n"
    kr.run_pilot(noisy, [8], 2)
    assert capsys.readouterr() == (printed, "")
    for name, value in {"FORCE_COLOR": "1", "TERM": "xterm", "COLUMNS": "100"}.items():
        monkeypatch.setenv(name, value)  # rich takes it for a terminal
    seen: list[Event] = []
    kr.run_pilot(noisy, [8], 2, watch=seen.append)
    out, err = capsys.readouterr()
    assert out == printed
    assert "noisy, n = 8, seed 1: failed: ValueError: no luck with 8" in err
    assert [event.kind for event in seen] == ["started", "done", "started", "failed"]
    kr.run_pilot(noisy, [8], 2, quiet=True)
    assert capsys.readouterr() == (printed, "")


def test_pilots_need_no_pytorch() -> None:
    code = (
        "import sys; sys.modules['torch'] = sys.modules['sklearn'] = None\n"
        "import korisk as kr, json\n"
        "from korisk.pilots import Pilot, run_pilot\n"
        "pilot = run_pilot(lambda n, s: 1 / n, [4, 8, 16], 1)\n"
        "print(json.dumps(pilot.curve.error.tolist()))\n"
        "for name in 'pilot_sklearn', 'pilot_torch':\n"
        "    try: getattr(kr, name)(print, [1, 2], *([[1, 2]] if 'sk' in name else []),\n"
        "        sizes=[2], **({} if 'sk' in name else {'test': []}))\n"
        "    except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    first, *errors = done.stdout.splitlines()
    assert json.loads(first) == [1 / 4, 1 / 8, 1 / 16]
    expected = [["pip install scikit-learn"], ["pip install 'korisk[torch]'"]]
    assert [re.findall("pip install .*", error) for error in errors] == expected


def test_a_metric_of_a_store_that_rises_and_says_nothing_is_asked_about(tmp_path: Path) -> None:
    path = tmp_path / "pilot.db"
    kr.run_pilot(
        lambda n, seed: {"mse": 1 / n, "quality": 1 - 1 / n},
        [4, 8, 16],
        1,
        store=path,
        metric="mse",
        quiet=True,
    )
    with pytest.raises(kr.KoriskError, match="larger is better; pass unit='accuracy'"):
        kr.Curve.read(path, metric="quality")
    curve = kr.Curve.read(path, metric="quality", unit="accuracy")
    assert curve.means == pytest.approx([1 / 4, 1 / 8, 1 / 16])


@pytest.mark.parametrize("given", [3, {}])
def test_a_group_of_options_is_its_own_value(given: Any, tmp_path: Path) -> None:
    """A number or a mapping in its place is neither ignored nor taken apart."""
    with pytest.raises(KoriskError, match=r"compute must be a Compute, got .*pass "):
        kr.run_pilot(lambda n, seed: 1 / n, [4, 8, 16], store=tmp_path / "p.db", compute=given)

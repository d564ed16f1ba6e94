"""Pilots: what fits may do to each other (nothing), what is kept, and when they end."""

import csv
import json
import math
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pilot_fits
import pytest
import torch
from pilot_fits import power, scores
from typer.testing import CliRunner
from waiting import until

import korisk as kr
from korisk.cli.app import app
from korisk.errors import KoriskError, KoriskWarning
from korisk.pilots.fit import LENGTH, FitWork, Reading, pickled
from korisk.pilots.request import own_name
from korisk.studies.result import Task
from korisk.studies.results import curves
from korisk.studies.run.events import Event
from korisk.studies.store.store import Store

SIZES = [16, 32, 64, 128]


@pytest.fixture(autouse=True)
def _no_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers import the script that they are started from; spare them pytest's, for speed."""
    monkeypatch.delattr(sys.modules["__main__"], "__file__", raising=False)
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)


def reasons(pilot: kr.Pilot) -> dict[tuple[int, int], str]:
    return {(failure.n, failure.seed): failure.reason for failure in pilot.failures}


# --- What it gives -------------------------------------------------------------------------------


def test_a_curve_of_every_size_and_seed() -> None:
    pilot = kr.run_pilot(power, SIZES, 3)
    expected = [(n, seed, power(n, seed)) for n in SIZES for seed in range(3)]
    curve = pilot.curve
    assert list(zip(curve.n.tolist(), map(int, curve.seed), curve.error.tolist(), strict=True)) == (
        expected
    )
    assert (curve.model, curve.metric, curve.unit.name) == ("power", "error", "error")
    assert pilot.failures == ()
    assert pilot.stopped == "all requested sizes are measured"
    assert pilot.plan(0.04) == kr.plan(curve, 0.04)
    assert 0 < pilot.seconds < 60
    assert pilot.store is None
    with pytest.raises(FrozenInstanceError):
        pilot.model = "other"  # type: ignore[misc]
    with pytest.raises(KoriskError, match="plan needs a target"):
        pilot.plan()


def test_metrics_have_their_units_and_one_is_chosen() -> None:
    pilot = kr.run_pilot(scores, SIZES, [4, 9], target=0.97)
    assert (pilot.metric, pilot.curve.unit.name, pilot.curve.seeds) == ("accuracy",) * 2 + (
        ("4", "9"),
    )
    assert set(pilot.curves) == {"accuracy", "loss"}
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
    said = CliRunner().invoke(app, ["export", str(store)])
    rows = list(csv.DictReader(said.stdout.splitlines()))
    assert [(r["point"], r["n"], r["seed"]) for r in rows[:3]] == [
        *(("net", "16", "0"), ("net", "16", "1"), ("net", "32", "0")),
    ]
    assert float(rows[0]["accuracy"]) == scores(16, 0)["accuracy"]
    planned = CliRunner().invoke(app, ["export", str(store), "--metric", "loss"])
    (tmp_path / "loss.csv").write_text(planned.stdout)
    assert kr.Curve.read(tmp_path / "loss.csv") == pilot.curves["loss"]
    with Store.read(store) as held:
        assert curves(held.rows()) == {"net": [pilot.curve]}
    text = str(pilot)
    assert text.startswith("net: 8 fits at N = 16, 32, 64, 128, in ")
    assert "No curve of 'bias'" in text
    assert pilot.plan().explain() in text


def test_sizes_and_seeds_that_make_no_sense() -> None:
    wrong: list[tuple[Any, Any, str]] = [
        ([], 1, "sizes must be one or more N"),
        ([1, 2], 1, "sizes must be a whole number from 2"),
        ([4, 4], 1, "in ascending order"),
        ([8, 4], 1, "in ascending order"),
        ("8", 1, "sizes must be a list"),
        ([4], 0, "seeds must be a whole number"),
        ([4], [], "seeds must be one or more"),
        ([4], [1, 1], "seeds must be one or more"),
        ([4], [-1], "seeds must be a whole number"),
        ([4], True, "seeds must be a whole number"),
    ]
    for sizes, seeds, said in wrong:
        with pytest.raises(KoriskError, match=said):
            kr.run_pilot(power, sizes, seeds)
    assert len(kr.run_pilot(power, np.array([4, 8]), np.arange(2)).curve) == 4


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"timeout": 1, "workers": 0}, "needs workers >= 1"),
        ({"timeout": 0}, "timeout must be a finite number > 0"),
        ({"unit": "furlong"}, "unit must be one of"),
        ({"settings": {"x": object()}}, "settings must hold plain values"),
        ({"settings": {1: 2}}, "settings must hold plain values"),
        ({"settings": [1]}, "settings must be a dict"),
        ({"workers": "2"}, "workers must be a whole number >= 0, got '2'"),
        ({"store": 3}, "store must be the name of a file, got 3"),
        ({"store": ""}, "store must be the name of a file"),
        ({"watch": 3}, "watch must be a function, got 3"),
        ({"cost": 3}, "cost must be a function, got 3"),
        ({"cluster": 3}, "cluster must be one of korisk.studies.run.clusters, got 3"),
        ({"metric": 3}, "metric must be a printable text, got 3"),
        ({"metric": ""}, "metric must be a printable text"),
        ({"mlflow": 3}, "mlflow must be True or an experiment's name, got 3"),
        ({"grow": True}, "must have a target"),
        ({"grow": True, "target": 0.1}, "must have an end"),
        ({"largest": 8, "target": 0.1}, "largest must be a whole number from 128"),
        ({"narrow_enough": 1.0}, "narrow_enough must be a finite number > 1"),
        ({"budget": -1}, "budget must be"),
        ({"most_fits": 0}, "most_fits must be"),
        ({"mlflow": " "}, "mlflow must be True or"),
        ({"model": "two\nlines"}, "model must be a printable text"),
    ],
)
def test_options_that_make_no_sense(options: Any, said: str) -> None:
    def never(n: int, seed: int) -> float:
        raise AssertionError("called")

    with pytest.raises(KoriskError, match=said):
        kr.run_pilot(never, SIZES, 1, **options)


# --- Fits that misbehave, in this process --------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (math.nan, "must give a finite number, got nan"),
        (-math.inf, "must give a finite number, got -inf"),
        (10**400, "must give a finite number, got inf"),
        (None, "must give a number, got None"),
        ("0.5", "must give a number, got '0.5'"),
        (True, "must give a number, got True"),
        (1 + 2j, "must give a number"),
        (np.ones(1), "an array of shape (1,)"),
        (torch.ones(2, 3), "an array of shape (2, 3)"),
        (np.bool_(True), "must give a number"),
        (-0.5, "must be above 0"),
        (1e-300, "must be above 0"),
        ({}, "a dict of 0 metrics"),
        ({"": 0.5}, "name each metric"),
        ({3: 0.5}, "name each metric"),
        ({"mse": [0.5]}, "mse must give a number"),
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


@pytest.mark.parametrize(
    "value",
    [
        *(np.float32(0.5), np.array(0.5), torch.tensor(0.5, requires_grad=True)),
        *(Decimal("0.5"), torch.tensor(0.5, dtype=torch.bfloat16)),
    ],
)
def test_scalars_of_any_library_are_numbers(value: Any) -> None:
    assert kr.run_pilot(lambda n, seed: value, [8], 1).curve.error.tolist() == [0.5]


def test_a_metric_is_a_whole_number_too() -> None:
    assert kr.run_pilot(lambda n, seed: np.int64(3), [8], 1).curve.error.tolist() == [3.0]


def test_other_metrics_than_those_of_most_fits() -> None:
    def moody(n: int, seed: int) -> dict[str, float]:
        return {"mse": 0.5, "extra": 1.0} if seed == 1 else {"mse": 0.5}

    pilot = kr.run_pilot(moody, [8, 16], 3)
    assert reasons(pilot) == {
        (n, 1): "gave the metrics 'mse', 'extra', and most others did not" for n in (8, 16)
    }
    assert len(pilot.fits) == 4


def test_a_metric_that_nobody_gave_can_be_chosen_anew_without_fitting(tmp_path: Path) -> None:
    store = tmp_path / "pilot.db"
    pilot = kr.run_pilot(scores, SIZES, 1, store=store, metric="acuracy")
    assert "gave no metric 'acuracy', but 'accuracy'" in reasons(pilot)[16, 0]
    with pytest.raises(KoriskError, match="no fit gave an error, 4 failed, the first"):
        _ = pilot.curve
    assert "no fit gave an error" in str(pilot)

    started: list[Event] = []
    again = kr.run_pilot(scores, SIZES, 1, store=store, metric="accuracy", watch=started.append)
    assert started == []
    assert len(again.curve) == 4


def test_too_few_sizes_for_a_plan_are_named() -> None:
    def fails_late(n: int, seed: int) -> float:
        if n > 32:
            raise MemoryError
        return power(n, seed)

    pilot = kr.run_pilot(fails_late, SIZES, 2, target=0.04)
    with pytest.raises(
        KoriskError,
        match=r"needs errors at 3 sizes, got 2 \(N = 16, 32\); every fit failed at N = 64, 128",
    ):
        pilot.plan(0.1)
    assert pilot.next_size is None
    assert "needs errors at 3 sizes" in str(pilot)


def test_output_is_kept_and_bounded_and_does_not_pass(capfd: pytest.CaptureFixture[str]) -> None:
    def chatty(n: int, seed: int) -> float:
        print(f"first of {n}")
        sys.stdout.buffer.write(b"raw bytes\n")
        print("lone surrogate \udc80", file=sys.stderr)
        if n == 16:
            print("x" * 1_000_000)
        print("the end")
        return power(n, seed)

    pilot = kr.run_pilot(chatty, [8, 16], 1)
    short, long = pilot.printed[8, 0], pilot.printed[16, 0]
    assert short == "first of 8\nraw bytes\nlone surrogate \\udc80\nthe end\n"
    assert long.startswith("first of 16\n")
    assert long.endswith("x\nthe end\n")
    assert "bytes left out" in long
    assert len(long) < LENGTH + 100
    assert capfd.readouterr() == ("", "")


def test_failures_in_this_process_keep_what_was_printed() -> None:
    fits = {0: pilot_fits.raises, 1: pilot_fits.leaves, 2: power}
    pilot = kr.run_pilot(lambda n, seed: fits[seed](n, seed), [8], 3)
    assert reasons(pilot) == {(8, 0): "ValueError: no luck with 8", (8, 1): "SystemExit: 3"}
    assert pilot.printed == {(8, 0): "so far so good\n", (8, 1): "before the exit\n"}


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
    assert {line.split()[0] for line in lines} == {str(os.getpid())}
    assert len(lines) == 8


def test_what_is_left_running_is_named() -> None:
    end = threading.Event()

    def careless(n: int, seed: int) -> float:
        threading.Thread(target=end.wait, name="idler", daemon=True).start()
        return power(n, seed)

    pilot = kr.run_pilot(careless, [8], 2)
    end.set()
    assert [fit.left_running for fit in pilot.fits] == ["1 thread (idler)"] * 2
    assert "2 fits left something running, the first at N = 8, seed 0" in str(pilot)


# --- Fits that misbehave, in processes of their own ----------------------------------------------


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_each_kind_of_misbehaviour_is_recorded_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(pilot_fits.FOLDER, str(tmp_path))
    names = [fit.__name__ for fit in pilot_fits.BEHAVIOURS]
    seed = names.index
    pilot = kr.run_pilot(pilot_fits.by_seed, [8], len(names), workers=2, timeout=4.5, quiet=True)
    assert reasons(pilot) == {
        (8, seed("hangs")): "took longer than 4.5 s",
        (8, seed("kills_itself")): "its worker died 2 times (exit code -9)",
        (8, seed("leaves")): "SystemExit: 3",
        (8, seed("raises")): "ValueError: no luck with 8",
    }
    good = ["power", "forks", "forks_and_raises", "leaves_things_running", "prints"]
    assert {fit.seed: fit.metrics["error"] for fit in pilot.fits} == {
        seed(name): power(8, seed(name)) for name in good
    }
    left = {fit.seed: fit.left_running for fit in pilot.fits if fit.left_running}
    assert left == {seed("leaves_things_running"): "1 thread (sleeper) and 1 child process"}
    assert sorted(pilot.printed[8, seed("prints")].splitlines()) == [
        *("as an error", "by Python", "by a child", "by the system"),
    ]
    assert pilot.printed[8, seed("raises")] == "so far so good\n"
    assert pilot.printed[8, seed("leaves")] == "before the exit\n"
    assert capfd.readouterr() == ("", "")
    pids = [int(path.name) for path in tmp_path.iterdir()]
    assert len(pids) == 3
    until(lambda: not any(map(alive, pids)))


def test_fits_that_cannot_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pickled(power)
    assert pickled(lambda n, seed: 0.5)  # cloudpickle, which Dask brings, is installed
    held = threading.Lock()
    with pytest.raises(KoriskError, match=r"can be given.*lock.*use workers=0"):
        kr.run_pilot(lambda n, seed: held, [8], 1, workers=1)
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(KoriskError, match="pip install cloudpickle, or use workers=0"):
        kr.run_pilot(lambda n, seed: 0.5, [8], 1, timeout=5)


def test_a_closure_travels_with_cloudpickle() -> None:
    import pickle

    shift = 0.25
    work = FitWork(lambda n, seed: shift + seed, "m", Reading(), alone=False)
    there: FitWork = pickle.loads(pickle.dumps(work))
    task = Task(point="p", seed=1, spec={"n": 8})
    assert there(task, print).rows[0].metrics == {"error": 1.25}


# --- Stores --------------------------------------------------------------------------------------


def counted(calls: list[tuple[int, int]], n: int, seed: int) -> float:
    calls.append((n, seed))
    if (n, seed) == (32, 1) and len(calls) < 5:
        raise RuntimeError("once")
    return power(n, seed)


def test_a_store_goes_on_where_it_ended(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []
    fit, store = lambda n, seed: counted(calls, n, seed), tmp_path / "pilot.db"
    first = kr.run_pilot(fit, [16, 32], 2, store=store)
    assert len(calls) == 4
    assert set(reasons(first)) == {(32, 1)}
    second = kr.run_pilot(fit, [16, 32, 64], 3, store=store)
    assert calls[4:] == [(16, 2), (32, 2), (64, 0), (64, 1), (64, 2)]
    assert set(reasons(second)) == {(32, 1)}
    assert second.store == store
    third = kr.run_pilot(fit, [16, 32, 64], 3, store=store, retry_failed=True)
    assert calls[9:] == [(32, 1)]
    assert third.failures == ()
    fewer = kr.run_pilot(fit, [16, 64], 2, store=store)
    assert len(calls) == 10
    assert fewer.curve.sizes.tolist() == [16, 64]
    assert fewer.curve.counts.tolist() == [2, 2]


def test_results_of_something_else_are_refused_in_words(tmp_path: Path) -> None:
    store = tmp_path / "pilot.db"
    fit = partial(counted, [], **{})
    kr.run_pilot(fit, [8], 1, store=store, model="net", settings={"depth": 3, "a": [1]})
    refused: list[tuple[Any, dict[str, Any], str]] = [
        (fit, {"settings": {"depth": 4, "a": [1]}}, "settings.depth of model 'net' is 3 in"),
        (fit, {"settings": {"a": [1]}}, "is 3 in the store and missing now"),
        (fit, {"settings": {"depth": 3, "a": [1], "b": 0}}, "is missing in the store and 0 now"),
        (power, {"settings": {"depth": 3, "a": [1]}}, "fit of model 'net' is 'counted' in"),
        (fit, {"settings": {"depth": 3, "a": [1]}, "name": "x"}, "holds the study 'pilot', not"),
    ]
    for other, options, said in refused:
        with pytest.raises(KoriskError, match=re.escape(said)):  # at sizes of its own, too
            kr.run_pilot(other, [16], 1, store=store, **({"model": "net"} | options))
    beside = kr.run_pilot(power, [8, 16], 1, store=store, model="other")
    assert len(beside.curve) == 2
    with Store.read(store) as held:
        assert set(curves(held.rows())) == {"net", "other"}


def test_a_store_that_is_being_written_or_is_none(tmp_path: Path) -> None:
    with (
        Store.create_or_open(tmp_path / "p.db", {"name": "pilot"}),
        pytest.raises(KoriskError, match=r"is being written by .*or choose another path"),
    ):
        kr.run_pilot(power, [8], 1, store=tmp_path / "p.db")
    (tmp_path / "notes.db").write_text("no store")
    with pytest.raises(KoriskError, match="is not a store of a korisk study"):
        kr.run_pilot(power, [8], 1, store=tmp_path / "notes.db")


def test_what_partial_binds_is_a_setting(tmp_path: Path) -> None:
    def fit(n: int, seed: int, depth: int) -> float:
        return power(n, seed)

    kr.run_pilot(partial(fit, depth=2), [8], 1, store=tmp_path / "p.db")
    with pytest.raises(KoriskError, match=r"partial depth.* is 2 in the store and 3 now"):
        kr.run_pilot(partial(fit, depth=3), [8], 1, store=tmp_path / "p.db")
    two: Any = np.int64(2)
    kr.run_pilot(partial(fit, depth=two), [8], 1, store=tmp_path / "p.db")  # is 2 too


@pytest.mark.parametrize(
    ("one", "other"),
    [([64], [128]), ({"a": (1, 2)}, {"a": (1, 3)}), (None, 1), (np.int64(1), np.int64(2))],
)
def test_everything_plain_that_partial_binds_counts(one: Any, other: Any) -> None:
    def anything(n: int, seed: int, layers: Any) -> float:
        return 0.5

    names, bound = zip(*(own_name(partial(anything, layers=x)) for x in (one, other)), strict=True)
    assert set(names) == {"test_everything_plain_that_partial_binds_counts.<locals>.anything"}
    assert bound[0] != bound[1]
    assert own_name(partial(anything, layers=one))[1] == bound[0]
    assert json.loads(json.dumps(bound[0])) == bound[0]
    assert own_name(partial(anything, layers=[np.float64(0.5)]))[1] == {"partial layers": [0.5]}
    assert own_name(partial(anything, layers=np.ones(3)))[1] == {}


def interrupted(n: int, seed: int) -> float:
    if n == 32:
        raise KeyboardInterrupt
    return power(n, seed)


def test_an_interrupt_keeps_what_is_finished(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        kr.run_pilot(interrupted, [16, 32], 2, store=tmp_path / "p.db")
    with Store.read(tmp_path / "p.db") as store:
        assert len(list(store.results())) == 2
    with pytest.raises(KeyboardInterrupt) as caught:
        kr.run_pilot(interrupted, [16, 32], 2)
    [note] = caught.value.__notes__
    path = Path(note.partition("store='")[2].removesuffix("'"))
    with Store.read(path) as store:
        assert len(list(store.results())) == 2
    path.unlink()
    path.parent.rmdir()


def test_nothing_is_left_without_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    kr.run_pilot(power, [8], 1)
    with pytest.raises(ZeroDivisionError):
        kr.run_pilot(power, [8], 1, watch=lambda event: 1 / 0)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


# --- What is seen --------------------------------------------------------------------------------


def test_a_bar_in_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def noisy(n: int, seed: int) -> float:
        print("out of the fit")
        return pilot_fits.raises(n, seed) if seed else power(n, seed)

    kr.run_pilot(noisy, [8], 2)
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    seen: list[Event] = []
    kr.run_pilot(noisy, [8], 2, watch=seen.append)
    out, err = capsys.readouterr()
    assert out == ""
    assert "noisy, n = 8, seed 1: failed: ValueError: no luck with 8" in err
    assert "out of the fit" not in err
    assert [event.kind for event in seen] == ["started", "done", "started", "failed"]
    kr.run_pilot(noisy, [8], 2, quiet=True)
    assert capsys.readouterr() == ("", "")


class StubMlflow:
    """Records what is called."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def active_run(self) -> None:
        return None

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **kwargs: self.calls.append((name, args, kwargs))


def test_mlflow_gets_one_run_for_each_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    stub = StubMlflow()
    monkeypatch.setitem(sys.modules, "mlflow", stub)
    fits = [scores, pilot_fits.raises]
    kr.run_pilot(
        lambda n, seed: fits[seed](n, seed), [8], 2, model="m", settings={"a": 1}, mlflow="digits"
    )
    by_name = [(name, args) for name, args, _ in stub.calls if name != "start_run"]
    plain = {"model": "m", "n": 8, "settings.a": 1}
    assert by_name[0] == ("set_experiment", ("digits",))
    assert by_name[1] == ("log_params", (plain | {"seed": 0},))
    assert by_name[2] == ("log_metrics", (scores(8, 0),))
    assert by_name[3][1][0] == "seconds"
    assert by_name[4] == ("end_run", ("FINISHED",))
    assert by_name[5] == ("log_params", (plain | {"seed": 1},))
    assert by_name[6][1][1].startswith("ValueError: no luck with 8")
    assert by_name[7] == ("end_run", ("FAILED",))
    assert [kwargs["run_name"] for name, _, kwargs in stub.calls if name == "start_run"] == [
        *("m, n = 8, seed 0", "m, n = 8, seed 1"),
    ]


def test_a_failing_mlflow_is_said_once_and_the_pilot_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Down(StubMlflow):
        def log_params(self, params: Any) -> None:
            raise RuntimeError("server is down")

    monkeypatch.setitem(sys.modules, "mlflow", Down())
    with pytest.warns(KoriskWarning, match="server is down") as said:
        pilot = kr.run_pilot(power, [8, 16], 2, mlflow="digits")
    assert len(said) == 1
    assert len(pilot.curve) == 4
    assert len(kr.run_pilot(power, [8], 1, mlflow=None).curve) == 1


def test_mlflow_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mlflow", None)
    with pytest.raises(ImportError, match="pip install mlflow"):
        kr.run_pilot(power, [8], 1, mlflow=True)


def test_the_real_mlflow(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path}/mlflow.db")
    kr.run_pilot(scores, [8], 2, mlflow="digits")
    found = mlflow.search_runs(experiment_names=["digits"])
    assert sorted(found["metrics.accuracy"]) == sorted(scores(8, s)["accuracy"] for s in (0, 1))


def test_pilots_need_no_pytorch() -> None:
    code = (
        "import sys; sys.modules['torch'] = sys.modules['sklearn'] = None\n"
        "import korisk as kr, json\n"
        "pilot = kr.run_pilot(lambda n, s: 1 / n, [4, 8, 16], 1)\n"
        "print(json.dumps(pilot.curve.error.tolist()))\n"
        "for name in 'pilot_sklearn', 'pilot_torch':\n"
        "    try: getattr(kr, name)(print, [1, 2], *([[1, 2]] if 'sk' in name else []),\n"
        "        sizes=[2], **({} if 'sk' in name else {'test': []}))\n"
        "    except ImportError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    first, *errors = done.stdout.splitlines()
    assert json.loads(first) == [1 / 4, 1 / 8, 1 / 16]
    assert [re.findall("pip install .*", error) for error in errors] == [
        *(["pip install scikit-learn"], ["pip install 'korisk[torch]'"]),
    ]

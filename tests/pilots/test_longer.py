"""Pilots that find out what limits their error: training errors, longer training."""

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from pilot_fits import power
from sklearn.datasets import make_classification
from sklearn.linear_model import SGDClassifier
from sklearn.svm import SVC
from typer.testing import CliRunner

import korisk as kr
from korisk.cli.app import app
from korisk.pilots import Compute
from korisk.planning.pilot import read_training
from korisk.report.contents import read_contents

SIZES = [16, 64, 256, 1024]


@dataclass
class Trained:
    """A fit whose error has a part of the data, one of training, and a floor of the network."""

    data: float
    training: float
    network: float
    calls: list[tuple[int, int, float]] = field(default_factory=list)

    def __call__(self, n: int, seed: int, longer: float = 1.0) -> dict[str, float]:
        self.calls.append((n, seed, longer))
        rest = self.training / longer + self.network
        noise = np.exp(0.02 * np.random.default_rng([n, seed, int(longer)]).standard_normal())
        test = (rest + self.data * (n / SIZES[-1]) ** -0.5) * float(noise)
        return {"train_mse": rest, "mse": test, "steps": 100 * longer}


CASES = {
    "data": Trained(0.08, 0.01, 0.01),
    "training": Trained(0.0, 0.09, 0.01),
    "network": Trained(0.0, 0.01, 0.09),
}


@pytest.mark.parametrize("kind", CASES)
def test_the_limit_of_a_simulated_training_is_found(kind: str) -> None:
    pilot = kr.run_pilot(CASES[kind], SIZES, 4, longer=3.0)
    known = {"network": "unknown"}.get(kind, kind)
    assert pilot.limit.kind == known
    assert ("train a larger network at N = 1,024" in pilot.limit.next_run) == (kind == "network")
    assert str(pilot).count(pilot.limit.sentence) == 1
    action = pilot.plan(0.07).recommend().action
    assert action == "train" if kind == "training" else action != "train"
    assert (action == "unknown") == (kind == "network")
    assert pilot.longer is not None
    assert (pilot.longer.n, pilot.longer.factor) == (1024, 3.0)
    assert len(pilot.longer.errors) == len(pilot.longer.before) == 3


def test_training_errors_and_steps_are_kept_and_are_no_metrics(tmp_path: Path) -> None:
    pilot = kr.run_pilot(CASES["data"], SIZES, 2, store=tmp_path / "pilot.db")
    assert (pilot.metrics, pilot.metric, set(pilot.curves)) == (("mse",), "mse", {"mse"})
    assert pilot.training is not None
    assert pilot.training.error.tolist() == [0.02] * 8
    assert pilot.fits[0].training["steps"] == 100
    assert pilot.limit.kind == "data"
    pilot.to_csv(tmp_path / "pilot.csv")
    with (tmp_path / "pilot.csv").open() as file:
        assert {row["metric"] for row in csv.DictReader(file)} == {"mse", "train_mse", "steps"}
    training = kr.Curve.read(tmp_path / "pilot.csv", metric="train_mse")
    assert training.error.tolist() == pilot.training.error.tolist()
    assert kr.Curve.read(tmp_path / "pilot.db") == pilot.curve


@pytest.mark.parametrize(
    ("test", "train"), [("error", "train"), ("test_loss", "train_loss"), ("psnr", "train_psnr")]
)
def test_a_training_error_is_found_by_its_name(test: str, train: str) -> None:
    pilot = kr.run_pilot(lambda n, seed: {test: 30.0, train: 60.0}, SIZES, 1)
    assert pilot.training is not None
    assert pilot.training.unit == pilot.curve.unit
    assert pilot.curve.unit.from_error(pilot.training.error).tolist() == pytest.approx([60.0] * 4)


def test_a_perfect_training_error_speaks_for_data() -> None:
    def fit(n: int, seed: int) -> dict[str, float]:
        return {"accuracy": 1 - power(n, seed), "train_accuracy": 1.0}

    assert kr.run_pilot(fit, SIZES, 2).limit.kind == "data"


def test_training_errors_alone_are_refused() -> None:
    pilot = kr.run_pilot(lambda n, seed: {"train_mse": 0.1}, [16], 1)
    assert "must give an error on a test set" in pilot.failures[0].reason
    with pytest.raises(kr.KoriskError, match="metric must be a metric of test samples"):
        kr.run_pilot(CASES["data"], SIZES, 1, metric="train_mse")


def test_a_longer_run_is_resumed_and_in_no_curve(tmp_path: Path) -> None:
    """Nor in a table, a report, or a plan of the store."""
    fit, store = Trained(0.0, 0.09, 0.01), tmp_path / "pilot.db"
    without = kr.run_pilot(fit, SIZES, 2, store=store)
    fit.calls.clear()
    pilot = kr.run_pilot(fit, SIZES, 2, store=store, longer=3)
    assert fit.calls == [(1024, 0, 3.0), (1024, 1, 3.0)]
    again = kr.run_pilot(fit, SIZES, 2, store=store, longer=3)
    assert len(fit.calls) == 2
    assert (again.training, again.longer) == (pilot.training, pilot.longer)
    assert pilot.curve == without.curve == kr.Curve.read(store)
    assert read_training(store, pilot.curve) == (pilot.training, pilot.longer)
    told = CliRunner().invoke(app, ["plan", str(store), "--target", "0.05", "--json"])
    (plan,) = json.loads(told.stdout)["plans"]
    assert plan["recommendation"] == pilot.plan(0.05).recommend().to_dict()
    (point,) = read_contents(store).points
    assert (point.curves, len(point.cells)) == ((pilot.curve,), 8)
    table = tmp_path / "pilot.csv"
    table.write_text(CliRunner().invoke(app, ["export", str(store)]).stdout)
    assert kr.Curve.read(table, metric="mse") == pilot.curve
    assert kr.run_pilot(fit, SIZES, 2, store=store).longer is None


def test_a_longer_run_that_fails_is_a_failure_and_no_evidence() -> None:
    def fit(n: int, seed: int, longer: float = 1.0) -> float:
        if longer > 1:
            raise RuntimeError("out of time")
        return power(n, seed)

    pilot = kr.run_pilot(fit, SIZES, 1, longer=3)
    (failure,) = pilot.failures
    assert "3 times the training: RuntimeError: out of time" in failure.reason
    assert (pilot.longer, pilot.sizes) == (None, SIZES)


def never(n: int, seed: int) -> float:
    raise AssertionError("called")


@pytest.mark.parametrize("fit", [never, partial(never, n=3), max])
def test_a_fit_that_cannot_train_longer_is_refused_before_it_runs(fit: object) -> None:
    with pytest.raises(kr.KoriskError, match=r"fit must take the keyword longer.*longer=1\.0"):
        kr.run_pilot(fit, SIZES, 1, longer=3)  # type: ignore[arg-type]


def test_the_factor_is_checked() -> None:
    with pytest.raises(kr.KoriskError, match="longer must be a finite number > 1"):
        kr.run_pilot(CASES["data"], SIZES, 1, longer=1)


def test_workers_are_told_to_train_longer(tmp_path: Path) -> None:
    store, compute = tmp_path / "pilot.db", Compute(workers=1)
    pilot = kr.run_pilot(CASES["training"], SIZES, 1, longer=3, store=store, compute=compute)
    assert pilot.limit.kind == "training"


def test_scikit_learn_reports_training_scores_and_trains_longer() -> None:
    x, y = make_classification(400, 20, flip_y=0.1, random_state=0)
    model = SGDClassifier(max_iter=2, tol=None)
    pilot = kr.pilot_sklearn(model, x, y, sizes=[20, 60, 200], seeds=2, longer=5)
    assert pilot.training is not None
    assert [fit.training["steps"] for fit in pilot.longer_fits] == [10, 10]
    assert pilot.fits[0].training["steps"] == 2
    with pytest.raises(kr.KoriskError, match="estimator must have max_iter"):
        kr.pilot_sklearn(SVC(kernel="linear", max_iter=-1), x, y, sizes=[20], longer=3)


def test_a_function_of_a_dataset_is_told_to_train_longer() -> None:
    def fit(train: list[float], test: list[float], seed: int, longer: float = 1.0) -> float:
        return 0.1 / longer

    def run(fit: Callable[..., float]) -> kr.Pilot:
        numbers = [float(i) for i in range(100)]
        return kr.pilot_torch(fit, numbers, test=0.25, sizes=[10, 20, 40], seeds=2, longer=3)

    assert run(fit).limit.kind == "training"
    with pytest.raises(kr.KoriskError, match=r"fit\(train, test, seed, longer=1\.0\)"):
        run(lambda train, test, seed: 0.1)

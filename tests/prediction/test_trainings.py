"""Rehearsals: what they take, networks that are kept, and curves that rise."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import korisk as kr
from korisk.fitting.gradient.train import Pace
from korisk.operators import LinearOperator, ParallelBeam, Projector
from korisk.prediction import Callbacks, Training
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
    assert foreseen[1] == (
        8 * 40.0,
        2**30,
    )  # four sizes, half and a quarter of the images, twice the steps


def test_own_trainings_are_told_one_by_one(scan: LinearOperator) -> None:
    told: list[str] = []

    def fit(network: nn.Module, *data: Tensor) -> None:
        assert f"N = {len(data[0])}, " in told[-1]

    fitted = QUICK | {"training": Training(fit=fit)}
    calls = Callbacks(progress=lambda what, share: told.append(what))
    kr.rehearse(Net, scan, images(), callbacks=calls, **fitted)
    assert any("Net at N = 8, seed 2, 5 of 18 finished" in what for what in told)


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
    with pytest.raises(KeyboardInterrupt, match=f"5 of 18 trainings had finished, .*{tmp_path}"):
        kr.rehearse(Net, scan, images(), folder=tmp_path, **own)
    stop["after"] = 11
    part = kr.rehearse(Net, scan, images(), folder=tmp_path, **own)
    assert part.curve.sizes.tolist() == [4, 8, 16]  # of N = 32 one seed lacks
    assert part.curve.counts.tolist() == [3] * 3
    assert part.distinct is None
    note = next(note for note in part.notes if note.startswith("Interrupted"))
    assert all(fact in note for fact in ("11 of 18", str(tmp_path), "continues", "N = 16"))
    stop["after"] = 18
    resumed = kr.rehearse(Net, scan, images(), folder=tmp_path, **own)
    assert trained == [*[4] * 3, *[8] * 3, *[16] * 3, *[32] * 9]
    assert len(list(tmp_path.iterdir())) == 18
    stop["after"] = 100
    alone = kr.rehearse(Net, scan, images(), **own)
    assert resumed.curve.error.tolist() == alone.curve.error.tolist()
    assert resumed.level == alone.level
    assert resumed.distinct is not None
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

    assert trained() == 4  # one of them for twice the steps
    first = min(tmp_path.iterdir())
    assert trained() == 0
    assert trained(sizes=(4, 5, 6, 8)) == 1
    assert trained(seeds=2) == 3
    for changed in (
        *({"build": lambda: Net(2.0)}, {"build": Other}, {"model": "another"}),
        *({"noise": 0.11}, {"images": images() * 1.01}, {"training": Training(steps=12)}),
        {"training": Training(steps=10, rate=0.002)},
    ):
        assert trained(**changed) == 4
    whole = first.read_bytes()
    at = whole.index(b"errors") + 12  # a digit of the first error: one more or one less
    first.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(kr.KoriskError, match=f"{first}: is not as it was written; remove it"):
        trained()
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
    kr.rehearse(Net, scan, images(), **kept | {"seeds": 2})  # twelve networks of 40 s
    foreseen: list[float] = []
    calls = Callbacks(estimate=lambda seconds, memory: foreseen.append(seconds))
    kr.rehearse(Net, scan, images(), callbacks=calls, **kept)
    assert foreseen == [240.0]


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
    with pytest.raises(kr.KoriskError, match="estimate must be a function"):
        Callbacks(estimate=3)  # type: ignore[arg-type]


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
    assert "more data will not help" in " ".join(made.forecast().notes)

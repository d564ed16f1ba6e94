"""Sharded training: on two ranks as on one, killed and resumed, in parts of the memory."""

import fcntl
import json
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sharded_work as work
import torch

from korisk.errors import KoriskError
from korisk.fitting import Recipe, train
from korisk.fitting.gradient.sharded import (
    Ranks,
    ShardedDense,
    joined,
    launch,
    newest_iteration,
    train_sharded,
    uniform_rows,
)
from korisk.networks import DenseNet
from korisk.theory.footprint import sharded_bytes, share_bytes


def on_ranks(ranks: int, folder: Path, *tasks: str) -> dict[str, Any]:
    """What the ranks wrote down, whether they lived or not."""
    command = [sys.executable, work.__file__, str(folder), *tasks]
    if "killed" in tasks:
        with pytest.raises(KoriskError, match=r"rank \d of 2 was ended by signal 9"):
            launch(command, ranks)
    else:
        launch(command, ranks)
    said: dict[str, Any] = json.loads((folder / f"said-{ranks}.json").read_text())
    return said


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    # The ranks are to share two cores, and small allocations are to be given back at once, so
    # that peaks are those of tensors and not of an allocator's stock.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("MIMALLOC_ARENA_EAGER_COMMIT", "0")
        patch.setenv("MIMALLOC_PURGE_DELAY", "0")
        yield


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """One start of two ranks: all trainings, the memory, and a last one that is killed.

    It takes longest of all that tests share, so that processes that share these tests have one.
    """
    root = tmp_path_factory.getbasetemp()
    folder = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / "two-ranks"
    folder.mkdir(exist_ok=True)
    whole = folder / "whole.json"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed
        if not whole.exists():
            whole.write_text(json.dumps(on_ranks(2, folder, "curves", "memory", "killed")))
    return folder, json.loads(whole.read_text())


@pytest.fixture
def alone() -> Iterator[Ranks]:
    with joined() as ranks:
        yield ranks


def whole() -> DenseNet:
    rows, columns = 25, 60
    matrix = uniform_rows(0, rows, columns, seed=work.SEED)
    return DenseNet(work.DOMAIN, work.RANGE, matrix=matrix)


def curve(recipe: Recipe) -> torch.Tensor:
    return train(whole(), *work.data(), recipe, indices=work.batches(recipe)).losses


# On two ranks as on one. Sums in another order differ by roundings of 1e-16, which twenty steps
# on a quadratic loss do not grow beyond 1e-9; a sample that is lost changes the third digit.


@pytest.mark.parametrize("name", work.RECIPES)
def test_two_ranks_train_as_one_process_does(name: str, two: tuple[Path, dict[str, Any]]) -> None:
    recipe, found = work.RECIPES[name], two[1]["curves"][name]
    net = whole()
    expected = train(net, *work.data(), recipe, indices=work.batches(recipe))
    losses = torch.tensor(found["losses"], dtype=torch.float64)
    torch.testing.assert_close(losses, expected.losses, rtol=1e-9, atol=0)
    matrix = torch.tensor(found["matrix"], dtype=torch.float64)
    torch.testing.assert_close(matrix, net.matrix().detach(), rtol=1e-9, atol=1e-12)
    images = torch.tensor(found["images"], dtype=torch.float64)
    torch.testing.assert_close(images, net(work.data()[0]).detach(), rtol=1e-9, atol=1e-12)
    assert losses[-1] < 0.9 * losses[0]


def test_one_rank_trains_as_one_process_does(alone: Ranks) -> None:
    _, done = work.trained(alone, work.KEPT)
    torch.testing.assert_close(done.losses, curve(work.KEPT), rtol=1e-9, atol=0)
    assert (done.ranks, done.steps) == (1, 20)


def test_a_network_without_relu_starts_from_zero(alone: Ranks) -> None:
    recipe = work.RECIPES["sgd 3"]
    net = ShardedDense(
        work.DOMAIN, work.RANGE, ranks=alone, relu=False, start="zero", dtype=torch.float64
    )
    done = train_sharded(net, *work.data(), recipe, indices=work.batches(recipe))
    same = DenseNet(work.DOMAIN, work.RANGE, relu=False, dtype=torch.float64)
    expected = train(same, *work.data(), recipe, indices=work.batches(recipe))
    torch.testing.assert_close(done.losses, expected.losses, rtol=1e-9, atol=0)


# Killed and resumed


def copy_of(two: tuple[Path, dict[str, Any]], to: Path) -> Path:
    return Path(shutil.copytree(two[0] / "checkpoints", to / "checkpoints"))


def test_what_was_killed_while_it_wrote_goes_on_from_the_checkpoint_before(
    two: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    kept = copy_of(two, tmp_path)
    assert (kept / "iteration-00000015.partial" / ".metadata").exists()
    assert newest_iteration(kept) == 10
    expected = curve(work.KEPT)

    again = on_ranks(2, tmp_path, "resumed")["resumed"]
    assert again["at"] == 10
    losses = torch.tensor(again["losses"], dtype=torch.float64)
    torch.testing.assert_close(losses, expected, rtol=1e-9, atol=0)
    assert sorted(path.name for path in kept.iterdir()) == [
        "iteration-00000015",
        "iteration-00000020",
    ]


def test_what_two_ranks_began_one_ends(
    two: tuple[Path, dict[str, Any]], tmp_path: Path, alone: Ranks
) -> None:
    kept = copy_of(two, tmp_path)
    _, done = work.trained(alone, work.KEPT, kept)
    assert done.resumed_at == 10
    torch.testing.assert_close(done.losses, curve(work.KEPT), rtol=1e-9, atol=0)

    _, again = work.trained(alone, work.KEPT, kept)
    assert (again.steps, again.seconds_per_step) == (0, None)
    assert torch.equal(again.losses, done.losses)


# Checkpoints that are not to be read


@pytest.fixture
def kept(tmp_path: Path, alone: Ranks) -> Path:
    folder = tmp_path / "kept"
    work.trained(alone, work.KEPT, folder)
    return folder


def test_data_are_known_by_their_values_or_by_their_name(tmp_path: Path, alone: Ranks) -> None:
    inputs, targets = work.data()
    rounded = inputs * (1 + 1e-15)  # as another way to compute them would give
    assert not torch.equal(inputs, rounded)
    resumed: list[int] = []

    def go_on(inputs: torch.Tensor, folder: str, data: str | None) -> None:
        train_sharded(
            *(work.network(alone), inputs, targets, work.KEPT),
            indices=work.batches(work.KEPT),
            folder=tmp_path / folder,
            data=data,
            resumed=resumed.append,
        )

    go_on(inputs, "values", None)
    with pytest.raises(KoriskError, match="another training, its data is"):
        go_on(rounded, "values", None)
    go_on(inputs, "name", "the same")
    assert resumed == []
    go_on(rounded, "name", "the same")
    assert resumed == [work.KEPT.iterations]
    with pytest.raises(KoriskError, match="another training, its data is"):
        go_on(inputs, "name", "another")


@pytest.mark.parametrize(
    ("change", "field"),
    [({"rate": 2e-2}, "rate"), ({"iterations": 30}, "iterations"), ({"batch": 2}, "batch")],
)
def test_another_trainings_checkpoint_is_refused(
    change: dict[str, Any], field: str, kept: Path, alone: Ranks
) -> None:
    settings: dict[str, Any] = {"optimiser": "adam", "rate": 1e-2, "iterations": 20, "batch": 3}
    with pytest.raises(KoriskError, match=f"another training, its {field} is"):
        work.trained(alone, Recipe(**settings | change), kept)


def test_a_checkpoint_whose_files_changed_is_refused(kept: Path, alone: Ranks) -> None:
    (file,) = (kept / "iteration-00000020").glob("*.distcp")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(KoriskError, match="not as they were written"):
        work.trained(alone, work.KEPT, kept)


class Hostile:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("name", [".metadata", "__0_0.distcp"])
def test_a_hostile_checkpoint_runs_nothing(name: str, kept: Path, alone: Ranks) -> None:
    victim, made = kept / "iteration-00000020" / name, kept / "made"
    hostile = pickle.dumps(Hostile(made))
    pickle.loads(hostile)  # it works where it is let
    made.rmdir()
    length = victim.stat().st_size
    victim.write_bytes(hostile.ljust(length, b"\0"))
    with pytest.raises(KoriskError, match="the checkpoint is damaged") as caught:
        work.trained(alone, work.KEPT, kept)
    assert not made.exists()
    assert "\n" not in str(caught.value)


def test_a_folder_that_is_no_checkpoint_is_refused(tmp_path: Path, alone: Ranks) -> None:
    (tmp_path / "iteration-00000005").mkdir()
    with pytest.raises(KoriskError, match="is not a checkpoint"):
        work.trained(alone, work.KEPT, tmp_path)


# Memory


def test_memory_is_shared_among_ranks_and_as_foretold(
    two: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    one = on_ranks(1, tmp_path, "memory")["memory"]
    both = two[1]["memory"]
    assert max(both["peaks"]) < 0.65 * one["peaks"][0]
    weights = work.LARGE_ROWS * work.LARGE_COLUMNS
    assert both["begun"] < 0.7 * 4 * weights  # no rank ever has the whole matrix
    for ranks, found in ((1, one), (2, both)):
        settings: dict[str, Any] = {"ranks": ranks, "optimiser": "adam"}
        least = share_bytes(weights, **settings)
        most = sharded_bytes(weights, blocks=work.LARGE_BLOCKS, **settings)
        assert all(0.8 * least < peak < 1.25 * most for peak in found["peaks"])


# Starting ranks


def test_the_words_of_a_rank_that_fails_are_those_of_the_error() -> None:
    code = "import os, sys; print('korisk: no such thing', file=sys.stderr); sys.exit(2)"
    with pytest.raises(KoriskError, match=r"^no such thing$"):
        launch([sys.executable, "-c", code], 2)


@pytest.mark.parametrize("rank", [0, 1])
def test_one_rank_that_fails_ends_the_others(rank: int) -> None:
    code = f"import os, time; time.sleep(600 * (os.environ['RANK'] != '{rank}')); os._exit(7)"
    with pytest.raises(RuntimeError, match=f"rank {rank} of 2 failed"):
        launch([sys.executable, "-c", code], 2)


def test_ranks_end_with_their_launcher(tmp_path: Path) -> None:
    rank = (
        "import os, time, korisk.fitting.gradient.sharded_ranks as r; r._end_with_the_launcher(); "
        f"open({str(tmp_path)!r} + '/' + os.environ['RANK'], 'w').write(str(os.getpid())); "
        "time.sleep(600)"
    )
    command = [sys.executable, "-c", rank]
    code = f"from korisk.fitting.gradient.sharded import launch; launch({command!r}, 1)"
    launcher = subprocess.Popen([sys.executable, "-c", code])
    number = tmp_path / "0"
    wait_for(lambda: number.exists() and number.read_text() != "")
    launcher.kill()
    launcher.wait()
    wait_for(lambda: not alive(int(number.read_text())))


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, "it never came"
        time.sleep(0.05)


def alive(process: int) -> bool:
    stat = Path(f"/proc/{process}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


# Wrong use


def test_what_cannot_be_is_said(alone: Ranks) -> None:
    make: Any = ShardedDense
    for options, words in (
        ({"start": "zero"}, "would never move"),
        ({"start": "ones"}, "start must be one of"),
        ({"blocks": 26}, "blocks must be a whole number from 1 to 25, got 26"),
        ({"offload": True}, "leave it out"),
        ({"seed": -1}, "seed must be"),
    ):
        with pytest.raises(KoriskError, match=words):
            make(work.DOMAIN, work.RANGE, ranks=alone, **options)
    x, y = work.data()
    net = work.network(alone)
    for pool, words in (
        ((x[:, :5], y), "inputs must have shape"),
        ((x, y[:3]), "as many, got 7 and 3"),
        ((x.float(), y), "inputs must be torch.float64"),
    ):
        with pytest.raises(KoriskError, match=words):
            train_sharded(net, *pool, work.KEPT, indices=work.batches(work.KEPT))


def test_a_last_step_that_diverges_is_seen(alone: Ranks) -> None:
    recipe = Recipe(optimiser="sgd", rate=1e308, iterations=1, batch=3)
    inputs, targets = work.data()
    with pytest.raises(KoriskError, match="training diverged"):
        train_sharded(
            *(work.network(alone), 1e3 * inputs, targets, recipe), indices=work.batches(recipe)
        )


def test_a_diverging_training_ends(alone: Ranks) -> None:
    recipe = Recipe(optimiser="sgd", rate=1e200, iterations=20, batch=3)
    with pytest.raises(KoriskError, match=r"not finite at iteration \d+ of 20; lower the rate"):
        work.trained(alone, recipe)

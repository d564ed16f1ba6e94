"""Sharded training: on two ranks as on one, killed and resumed, in parts of the memory."""

import fcntl
import hashlib
import json
import os
import pickle
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import sharded_work as work
import torch
from hypothesis import example, given
from hypothesis import strategies as some
from torch import Tensor

from korisk import _memory
from korisk.errors import KoriskError
from korisk.fitting import Recipe, train
from korisk.fitting.gradient import sharded
from korisk.networks import DenseNet
from korisk.studies.run import sharded as command

Found = tuple[Path, dict[str, Any]]
LARGE = work.LARGE_ROWS * work.LARGE_COLUMNS
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]


@pytest.fixture(scope="module", autouse=True)
def quiet_processes() -> Iterator[None]:
    # Ranks share two cores, and small allocations are returned at once, so that peaks are those of
    # tensors and not of an allocator's stock.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("MIMALLOC_ARENA_EAGER_COMMIT", "0")
        patch.setenv("MIMALLOC_PURGE_DELAY", "0")
        yield


def on_ranks(ranks: int, folder: Path, *tasks: str) -> dict[str, Any]:
    """What the ranks wrote down, whether they lived or not."""
    code = [*TORCHRUN, str(ranks), work.__file__, str(folder), *tasks]
    done = subprocess.run(code, capture_output=True, text=True)
    assert ("SIGKILL" in done.stderr) == ("killed" in tasks), done.stderr
    found: dict[str, Any] = json.loads((folder / f"found-{ranks}.json").read_text())
    return found


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """One start of two ranks, shared by test processes; its last training is killed."""
    root = tmp_path_factory.getbasetemp()
    folder = (root.parent if "PYTEST_XDIST_WORKER" in os.environ else root) / "two-ranks"
    folder.mkdir(exist_ok=True)
    whole = folder / "whole.json"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until it is closed
        if not whole.exists():
            whole.write_text(json.dumps(on_ranks(2, folder, "curves", "killed")))
    return folder, json.loads(whole.read_text())


@pytest.fixture
def alone() -> Iterator[torch.device]:
    with sharded.process_group() as device:
        yield device


def whole() -> DenseNet:
    rows = torch.empty(25, 60, dtype=torch.float64)
    matrix = sharded.draw_rows(rows, 0, seed=work.SEED)
    return DenseNet(work.DOMAIN, work.RANGE, matrix=matrix)


def curve(recipe: Recipe) -> Tensor:
    return train(whole(), *work.data(), recipe, generator=work.batches()).losses


def close(found: Any, expected: Tensor) -> None:
    values = torch.as_tensor(found, dtype=torch.float64)
    torch.testing.assert_close(values, expected.detach(), rtol=1e-9, atol=1e-12)


# On two ranks as on one. Sums in another order differ by roundings of 1e-16, which twenty steps
# on a quadratic loss do not grow beyond 1e-9; a sample that is lost changes the third digit.


@pytest.mark.parametrize("name", work.RECIPES)
def test_two_ranks_train_as_one_process_does(name: str, two: Found) -> None:
    recipe, found, net = work.RECIPES[name], two[1]["curves"][name], whole()
    expected = train(net, *work.data(), recipe, generator=work.batches())
    close(found["losses"], expected.losses)
    close(found["matrix"], net.matrix())
    close(found["images"], net(work.data()[0]))
    assert found["losses"][-1] < 0.9 * found["losses"][0]


@pytest.mark.parametrize("relu", [True, False])
def test_one_rank_trains_as_one_process_does(relu: bool, alone: torch.device) -> None:
    recipe, net = work.RECIPES["sgd 3"], work.network(alone, relu=relu)
    same = DenseNet(work.DOMAIN, work.RANGE, matrix=whole().matrix(), relu=relu)
    done = sharded.train_sharded(net, *work.data(), recipe, generator=work.batches())
    close(done.losses, train(same, *work.data(), recipe, generator=work.batches()).losses)
    assert (done.ranks, done.resumed_at) == (1, 0)


def copy_of(two: Found, to: Path) -> Path:
    return Path(shutil.copytree(two[0] / "checkpoints", to / "checkpoints"))


@pytest.mark.slow  # one rank continues it below, without another start of two
def test_a_training_whose_rank_was_killed_continues_from_the_last_complete_checkpoint(
    two: Found, tmp_path: Path
) -> None:
    kept = copy_of(two, tmp_path)
    assert (kept / "iteration-00000015.partial" / ".metadata").exists()
    assert list(sharded.complete_checkpoints(kept)) == [5, 10]
    again = on_ranks(2, tmp_path, "resumed")["resumed"]
    assert again["at"] == 10
    close(again["losses"], curve(work.KEPT))
    assert sorted(path.name for path in kept.iterdir()) == [
        "iteration-00000015",
        "iteration-00000020",
    ]


def test_one_rank_continues_what_two_ranks_began(
    two: Found, tmp_path: Path, alone: torch.device
) -> None:
    kept = copy_of(two, tmp_path)
    done = work.trained(alone, work.KEPT, kept)[1]
    assert done.resumed_at == 10
    close(done.losses, curve(work.KEPT))
    again = work.trained(alone, work.KEPT, kept)[1]
    assert (again.resumed_at, again.seconds_per_step) == (20, None)
    assert torch.equal(again.losses, done.losses)


@pytest.fixture
def kept(tmp_path: Path, alone: torch.device) -> Path:
    folder = tmp_path / "kept"
    work.trained(alone, work.KEPT, folder)
    return folder


def test_data_are_known_by_their_values_or_by_their_name(
    tmp_path: Path, alone: torch.device
) -> None:
    inputs, targets = work.data()
    rounded = inputs * (1 + 1e-15)  # as another way to compute them would give
    assert not torch.equal(inputs, rounded)

    def resumed_at(inputs: Tensor, folder: str, data: str | None) -> int:
        options: dict[str, Any] = {"generator": work.batches(), "data": data}
        pool, folder_ = (work.network(alone), inputs, targets), tmp_path / folder
        return sharded.train_sharded(*pool, work.KEPT, folder=folder_, **options).resumed_at

    assert resumed_at(inputs, "values", None) == resumed_at(inputs, "name", "the same") == 0
    assert resumed_at(rounded, "name", "the same") == work.KEPT.iterations
    for other in ((rounded, "values", None), (inputs, "name", "another")):
        with pytest.raises(KoriskError, match="another training, its data is"):
            resumed_at(*other)


@pytest.mark.parametrize("change", [{"rate": 2e-2}, {"iterations": 30}, {"batch": 2}])
def test_the_checkpoint_of_another_training_is_refused(
    change: dict[str, Any], kept: Path, alone: torch.device
) -> None:
    settings: dict[str, Any] = {"optimiser": "adam", "rate": 1e-2, "iterations": 20, "batch": 3}
    with pytest.raises(KoriskError, match=f"another training, its {next(iter(change))} is"):
        work.trained(alone, Recipe(**settings | change), kept)


def test_a_checkpoint_whose_files_changed_is_refused(kept: Path, alone: torch.device) -> None:
    (file,) = (kept / "iteration-00000020").glob("*.distcp")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(KoriskError, match="not as they were written"):
        work.trained(alone, work.KEPT, kept)
    file.unlink()
    with pytest.raises(KoriskError, match="not as they were written"):
        work.trained(alone, work.KEPT, kept)
    (kept / "iteration-00000015").rename(kept / "iteration-00000030")
    with pytest.raises(KoriskError, match="its iteration is 15 and here it is 30"):
        work.trained(alone, work.KEPT, kept)


class Hostile:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("name", [".metadata", "index.pt", "__0_0.distcp"])
@pytest.mark.parametrize("zipped", [True, False])
def test_a_hostile_checkpoint_runs_nothing(
    name: str, zipped: bool, kept: Path, alone: torch.device
) -> None:
    folder, made = kept / "iteration-00000020", kept / "made"
    if zipped:
        with (folder / name).open("wb") as file:
            torch.save(Hostile(made), file)
        torch.load(folder / name, weights_only=False)  # it works where it is allowed to
    else:
        (folder / name).write_bytes(pickle.dumps(Hostile(made)))
        pickle.loads((folder / name).read_bytes())
    made.rmdir()
    about = json.loads((folder / "training.json").read_text())
    digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    about["sha256"][name] = digest  # whoever changed the file changed this, too
    (folder / "training.json").write_text(json.dumps(about))
    if name == ".metadata":  # nobody reads it
        assert work.trained(alone, work.KEPT, kept)[1].resumed_at == 20
    else:
        with pytest.raises(KoriskError, match=r"damaged.*delete it and run again") as caught:
            work.trained(alone, work.KEPT, kept)
        assert "\n" not in str(caught.value)
        shutil.rmtree(folder)  # as it says
        before = max(int(path.name[-8:]) for path in kept.glob("iteration-*"))
        assert work.trained(alone, work.KEPT, kept)[1].resumed_at == before
    assert not made.exists()


@pytest.mark.parametrize("about", [None, "{}", "[" * 10**5, '{"identity": 3}', "{" + " " * 10**6])
def test_a_folder_that_is_no_checkpoint_is_refused(
    about: str | None, tmp_path: Path, alone: torch.device
) -> None:
    folder = tmp_path / "iteration-00000005"
    folder.mkdir()
    if about is not None:
        (folder / "training.json").write_text(about)
    with pytest.raises(KoriskError, match=r"iteration-00000005: .*delete it and run") as caught:
        work.trained(alone, work.KEPT, tmp_path)
    assert "\n" not in str(caught.value)
    shutil.rmtree(folder)  # as it says
    assert work.trained(alone, work.KEPT, tmp_path)[1].resumed_at == 0


def test_a_checkpoint_that_cannot_be_written_is_reported(
    tmp_path: Path, alone: torch.device
) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KoriskError, match="cannot be written: Not a directory"):
        work.trained(alone, work.KEPT, tmp_path / "file")


@pytest.mark.slow
def test_memory_is_shared_among_ranks_and_as_predicted(tmp_path: Path) -> None:
    one, both = (on_ranks(ranks, tmp_path, "memory")["memory"] for ranks in (1, 2))
    assert max(both["peaks"]) < 0.65 * one["peaks"][0]  # no rank ever has the whole matrix
    recipe = Recipe(optimiser="adam", rate=1e-4, iterations=2, batch=2)
    all_ranks, flight = sharded.sharded_bytes(LARGE, recipe, work.LARGE_BLOCKS)
    for ranks, found in ((1, one), (2, both)):
        share = all_ranks / ranks
        assert all(0.8 * share < peak < 1.25 * (share + flight) for peak in found["peaks"])


@pytest.mark.parametrize(
    ("optimiser", "momentum", "numbers"),
    [("adam", 0.0, 3), ("adagrad", 0.0, 2), ("sgd", 0.0, 1), ("sgd", 0.9, 2)],
)
def test_the_predicted_memory_is_that_of_simple_counts(
    optimiser: Any, momentum: float, numbers: int
) -> None:
    recipe = Recipe(optimiser=optimiser, momentum=momentum, rate=1e-3, iterations=1, batch=1)
    assert sharded.sharded_bytes(1000, recipe, 10) == (4000 * numbers, 3 * 100 * 4)


@example(rows=1, columns=1)  # no smaller than a megabyte
@example(rows=1024, columns=256)
@example(rows=1024, columns=257)
@example(rows=1024, columns=256 * 1000)  # sixteen are enough
@example(rows=2**16, columns=2**18)  # but none is larger than a gigabyte
@example(rows=3, columns=2**34)  # nor smaller than a row
@given(rows=some.integers(1, 2**16), columns=some.integers(1, 2**20))
def test_blocks_are_neither_large_nor_many_and_cover_all_rows(rows: int, columns: int) -> None:
    blocks, size = sharded.sharded_blocks(rows, columns), 4 * rows * columns
    assert [*(first for first, _ in blocks), rows] == [0, *(last for _, last in blocks)]
    assert len(blocks) == min(rows, max(-(-size // 2**30), min(16, -(-size // 2**20))))


def test_wrong_values_are_refused(alone: torch.device) -> None:
    for options, words in (
        ({"blocks": 26}, "blocks must be a whole number from 1 to 25, got 26"),
        ({"seed": -1}, "seed must be"),
    ):
        with pytest.raises(KoriskError, match=words):
            work.network(alone, **options)
    (x, y), net = work.data(), work.network(alone)
    for pool, words in (
        ((x[:, :5], y), "the input must have shape"),
        ((x, y[:3]), "got 7 and 3"),
        ((x.float(), y), "inputs must be torch.float64"),
    ):
        with pytest.raises(KoriskError, match=words):
            sharded.train_sharded(net, *pool, work.KEPT, generator=work.batches())


@pytest.mark.parametrize(("rate", "iterations"), [(1e308, 1), (1e200, 20)])
def test_a_diverging_training_ends(rate: float, iterations: int, alone: torch.device) -> None:
    recipe = Recipe(optimiser="sgd", rate=rate, iterations=iterations, batch=3)
    (inputs, targets), net = work.data(), work.network(alone)
    with pytest.raises(KoriskError, match=rf"at iteration \d+ of {iterations}; lower the rate"):
        sharded.train_sharded(net, 1e3 * inputs, targets, recipe, generator=work.batches())


def test_each_rank_needs_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setenv("LOCAL_RANK", "1")
    with (
        pytest.raises(KoriskError, match="needs a GPU, found 1"),
        sharded.process_group("cuda"),
    ):
        pass


# The command

STUDY = """
name: tiny
problem: {beam: surrogate}
points:
  - {name: small, side: 8, sizes: [4, 16]}
  - {name: large, side: 16, sizes: [4]}
seeds: [1]
pools: {validation: 0, test: 8}
models: {FC: {select: leave-one-out}}
"""


@pytest.fixture
def study(tmp_path: Path) -> list[str]:
    path = tmp_path / "tiny.yaml"
    path.write_text(STUDY)
    settings = "--point small --device cpu --rate 1e-2 --iterations 400 --every 50"
    return [str(path), *settings.split(), "--out"]


def result(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "train.json").read_text())
    return content


@pytest.mark.slow
def test_a_training_whose_rank_was_killed_is_resumed_on_one(
    study: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert command.main([*study, str(whole)]) == 0
    expected = result(whole)
    assert expected["metrics"]["mse"] > 0
    assert len(expected["losses"]) == 400
    assert expected["losses"][-1] < 0.5 * expected["losses"][0]

    code = [*TORCHRUN, "2", "-m", command.__name__, *study, str(broken)]
    torchrun = subprocess.Popen(code, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 120
    while not (broken / "checkpoints" / "iteration-00000050").exists():
        assert time.monotonic() < until, "there is no checkpoint"
        time.sleep(0.01)
    ranks = Path(f"/proc/{torchrun.pid}/task/{torchrun.pid}/children").read_text().split()
    os.kill(int(ranks[-1]), 9)
    assert torchrun.wait() != 0
    assert not (broken / "train.json").exists()

    capsys.readouterr()
    assert command.main([*study, str(broken)]) == 0
    printed, resumed = capsys.readouterr().out, result(broken)
    assert f"{resumed['resumed_at']} of 400 iterations already done" in printed
    assert "small, seed 1, 16 samples: mse" in printed
    assert 50 <= resumed["resumed_at"] < 400
    close(resumed["losses"], torch.tensor(expected["losses"], dtype=torch.float64))
    assert resumed["metrics"] == pytest.approx(expected["metrics"], rel=1e-6)

    assert command.main([*study, str(broken)]) == 0
    assert "400 of 400 iterations already done" in capsys.readouterr().out
    assert command.main([*study, str(broken), "--iterations", "500"]) == 2
    assert "another training, its iterations is 400" in capsys.readouterr().err
    assert result(broken) == resumed


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--samples 0", "samples must be a whole number from 1 to"),
        ("--point smal", "did you mean 'small'?"),
        ("--point=", "small, large"),
        ("--optimiser lion", "optimiser must be one of"),
        ("--momentum 0.9", "belongs to optimiser='sgd'"),
        ("--iterations 0", "iterations must be a whole number"),
        ("--every 0", "every must be"),
        ("--seed -1", "seed must be"),
        ("--device gpu", "device must be"),
    ],
)
def test_wrong_options_are_refused_in_one_line(
    options: str,
    words: str,
    study: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command.main([*study, str(tmp_path / "out"), *options.split()]) == 2
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_too_little_memory_is_reported(
    study: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # 64 x 80 weights of 8 bytes with Adam: 120 KiB, three times a block, 120 KiB, and 24 samples
    # of 144 numbers, 27 KiB.
    for kibibytes, code in ((266, 2), (268, 0)):
        monkeypatch.setattr(_memory, "free_memory", lambda device, free=kibibytes: free * 1024)
        assert command.main([*study, str(tmp_path / "out"), "--iterations", "1"]) == code
        said = capsys.readouterr().err
        assert ("fit in dual form" in said) == (code == 2)
        assert said.count("\n") == (code == 2)

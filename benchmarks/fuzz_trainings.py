"""What trainings leave and read again: checkpoints, of one process and of several, and results."""

import io
import json
import pickletools
import random
import tempfile
import warnings
import zlib
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

from fuzz_mutations import changed

FOLDER = "iteration-00000300"  # of a checkpoint that several ranks wrote
_IDENTITY = {"optimiser": "sgd", "rate": 0.1, "data": "x"}


# --- Of one process -------------------------------------------------------------------------------


def _train(checkpoint: Path) -> None:
    import torch

    from korisk.fitting import Recipe, train
    from korisk.networks import DenseNet

    rows = torch.arange(12.0).reshape(4, 3) / 12
    made = train(
        DenseNet(3, 3, relu=False),
        rows,
        2 * rows,
        Recipe(optimiser="adam", rate=0.01, iterations=10, batch=2),
        generator=torch.Generator().manual_seed(1),
        checkpoint=checkpoint,
        every=5,
        validation=(rows, rows),
    )
    assert made.losses.shape == (10,)
    assert made.explain()


@cache
def checkpoints() -> list[bytes]:
    """The checkpoint of a whole training."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "training.pt")
        _train(path)
        return [path.read_bytes()]


def read_checkpoint(path: Path) -> None:
    """Resume a training."""
    _train(path)


def checkpoint_changed(rng: random.Random, content: bytes) -> bytes:
    """Keys and values of a checkpoint changed."""
    import torch

    made = io.BytesIO()
    torch.save(changed(rng, torch.load(io.BytesIO(content), weights_only=True)), made)
    return made.getvalue()


# --- Of several -----------------------------------------------------------------------------------


def _kept(folder: Path) -> Any:
    """The checkpoints of a folder, as the only rank sees them."""
    import torch

    from korisk.fitting.gradient.sharded_ranks import Ranks
    from korisk.fitting.gradient.sharded_store import Checkpoints

    class Alone(Ranks):
        def wait(self) -> None:
            pass

        def agree(self, value: int) -> int:
            return value

        def gather(self, value: int) -> tuple[int, ...]:
            return (value,)

    return Checkpoints(folder, _IDENTITY, Alone(rank=0, size=1, device=torch.device("cpu")))


def _state() -> dict[str, Any]:
    import torch

    return {"weights.0": torch.ones(4, 3), "losses": torch.zeros(5, dtype=torch.float64)}


@cache
def _sound() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is one rank
        _kept(Path(name)).write(300, _state())
        return {path.name: path.read_bytes() for path in Path(name, FOLDER).iterdir()}


def indices() -> list[bytes]:
    """The file that says whose a checkpoint is."""
    return [_sound()["training.json"]]


def metadata() -> list[bytes]:
    """PyTorch's own file in a checkpoint, a pickle."""
    return [_sound()[".metadata"]]


def metadata_changed(rng: random.Random, content: bytes) -> bytes:
    """Numbers and words within a pickle changed, its instructions left as they are."""
    data = bytearray(content)
    found = [(place, code.name) for code, value, place in pickletools.genops(content) if place]
    for place, name in rng.sample(found, rng.choice((1, 1, 2))):
        if name == "SHORT_BINUNICODE":
            data[place + 2] = rng.choice(b"x./\0")
        elif name in ("BININT1", "BININT", "BININT2", "BINPUT", "LONG_BINPUT", "BINGET"):
            data[place + 1] = rng.choice((0, 1, 2, 127, 255))
        elif name == "MEMOIZE":
            data[place : place + 1] = b"r" + rng.randbytes(4)  # LONG_BINPUT
    return bytes(data)


def read_index(path: Path) -> None:
    """Read a checkpoint whose `training.json` is the file."""
    _read_shards(path, {**_sound(), "training.json": path.read_bytes()})


def read_metadata(path: Path) -> None:
    """Read a checkpoint whose `.metadata` is the file, with a check sum that belongs to it."""
    files = {**_sound(), ".metadata": path.read_bytes()}
    about = json.loads(files["training.json"])
    about["crc32"][".metadata"] = zlib.crc32(files[".metadata"])
    _read_shards(path, {**files, "training.json": json.dumps(about).encode()})


def _read_shards(path: Path, files: dict[str, bytes]) -> None:
    from korisk.fitting.gradient.sharded_store import newest_identity

    above = path.with_name("checkpoints")
    (above / FOLDER).mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (above / FOLDER / name).write_bytes(content)
    assert newest_identity(above) is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is one rank
        _kept(above).read(300, _state())


# --- Their results --------------------------------------------------------------------------------


@cache
def results() -> list[bytes]:
    """The file that a sharded training ends in."""
    content = {
        **{"point": "a", "seed": 1, "samples": 4, "weights": 6144, "blocks": 1},
        **{"offload": False, "device": "cpu", "resumed_at": 0, "ranks": 2},
        **{"seconds_per_step": 0.01, "peak_bytes": [1000, 1000], "predicted_bytes": 900},
        **{"metrics": {"mse": 0.1, "psnr": None}, "losses": [0.5, 0.4, 0.3]},
    }
    return [json.dumps(content, indent=1).encode()]


def read_result(path: Path) -> None:
    """All that `korisk train` prints of it."""
    from korisk.cli.train import _print
    from korisk.fitting import Recipe
    from korisk.studies.run.sharded_job import Job

    job = Job(
        study=Path("study.yaml"),
        point="a",
        spec={},
        seed=1,
        samples=4,
        recipe=Recipe(optimiser="sgd", rate=0.1, iterations=3, batch=2),
        every=1,
        blocks=None,
        offload=False,
        device="cpu",
        out=path.parent,
        ranks=2,
    )
    with redirect_stdout(io.StringIO()):
        _print(job, as_json=False)
        _print(job, as_json=True)

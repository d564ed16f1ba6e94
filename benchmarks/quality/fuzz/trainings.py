"""What trainings write and read again: checkpoints of one process and of several."""

import hashlib
import io
import json
import pickletools
import random
import tempfile
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.quality.fuzz.mutations import Mutation, changed

FOLDER = "iteration-00000300"  # of a checkpoint that several ranks wrote
_MARKED, _SIGNED = 16, 48  # bytes of a checkpoint's mark, and of that with the SHA-256 behind it
_IDENTITY: dict[str, Any] = {"optimiser": "sgd", "rate": 0.1, "data": "x"}


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


def opened(content: bytes) -> Any:
    """What a checkpoint holds."""
    import torch

    return torch.load(io.BytesIO(content[_SIGNED:]), weights_only=True)


def signed(content: object) -> bytes:
    """A checkpoint that holds this, as PyTorch or as bytes, with the digest that belongs to it."""
    import torch

    made = io.BytesIO()
    if isinstance(content, bytes):
        made.write(content)
    else:
        torch.save(content, made)
    written = made.getvalue()
    return checkpoints()[0][:_MARKED] + hashlib.sha256(written).digest() + written


def checkpoint_changed(rng: random.Random, content: bytes) -> bytes:
    """Keys and values of a checkpoint changed."""
    return signed(changed(rng, opened(content)))


def behind_the_digest(way: Mutation) -> Mutation:
    """A change that the digest does not give away."""
    return lambda rng, content: signed(way(rng, content[_SIGNED:]))


# --- Of several -----------------------------------------------------------------------------------


def _state() -> dict[str, Any]:
    import torch

    return {"0.weight": torch.ones(4, 3), "losses": torch.zeros(5, dtype=torch.float64)}


@cache
def _sound() -> dict[str, bytes]:
    from korisk.fitting.gradient.sharded import process_group, write_checkpoint

    with tempfile.TemporaryDirectory() as name, process_group():
        write_checkpoint(Path(name), 300, _IDENTITY, _state())
        return {path.name: path.read_bytes() for path in Path(name, FOLDER).iterdir()}


def indices() -> list[bytes]:
    """The file that says which training a checkpoint belongs to."""
    return [_sound()["training.json"]]


def metadata() -> list[bytes]:
    """The index of a checkpoint's tensors."""
    return [_sound()["index.pt"]]


def metadata_changed(rng: random.Random, content: bytes) -> bytes:
    """Numbers and words within the index's pickle changed, its instructions left as they are."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as sound, zipfile.ZipFile(made, "w") as wrong:
        for entry in sound.infolist():
            data = sound.read(entry)
            if entry.filename.endswith("data.pkl"):
                data = _pickle_changed(rng, data)
            wrong.writestr(entry.filename, data)
    return made.getvalue()


def _pickle_changed(rng: random.Random, content: bytes) -> bytes:
    data = bytearray(content)
    found = [(place, code.name) for code, value, place in pickletools.genops(content) if place]
    for place, name in rng.sample(found, rng.choice((1, 1, 2))):
        if name in ("BINUNICODE", "SHORT_BINUNICODE"):
            data[place + (5 if name == "BINUNICODE" else 2)] = rng.choice(b"x./\0")
        elif name in ("BININT1", "BININT", "BININT2", "BINPUT", "LONG_BINPUT", "BINGET"):
            data[place + 1] = rng.choice((0, 1, 2, 127, 255))
    return bytes(data)


def read_index(path: Path) -> None:
    """Read a checkpoint whose `training.json` is the file."""
    _read_shards(path, {**_sound(), "training.json": path.read_bytes()})


def read_metadata(path: Path) -> None:
    """Read a checkpoint whose `index.pt` is the file, with a digest that belongs to it."""
    files = {**_sound(), "index.pt": path.read_bytes()}
    about = json.loads(files["training.json"])
    about["sha256"]["index.pt"] = hashlib.sha256(files["index.pt"]).hexdigest()
    _read_shards(path, {**files, "training.json": json.dumps(about).encode()})


def _read_shards(path: Path, files: dict[str, bytes]) -> None:
    from korisk.fitting.gradient.sharded import process_group, read_checkpoint

    folder = path.with_name("checkpoints") / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    with process_group():
        read_checkpoint(folder, _IDENTITY, _state())

"""What trainings write and read again: checkpoints."""

import hashlib
import io
import random
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.quality.fuzz.mutations import Mutation, changed

_MARKED, _SIGNED = 16, 48  # bytes of a checkpoint's mark, and of that with the SHA-256 behind it


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
    assert made.end.loss.isfinite()


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

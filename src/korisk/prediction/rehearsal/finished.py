"""Networks of a rehearsal that have finished, kept in a folder so that none is trained twice.

Each has a file with its errors. Its name has a digest of all that decides these: the pairs that it
trains on and is judged by, the network with its initial weights, and how it is trained.
"""

from __future__ import annotations

import copy
import hashlib
import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import torch
from pydantic import Field
from torch import Tensor, nn

from korisk import _checks
from korisk._version import __version__
from korisk.errors import Argument, KoriskError
from korisk.files import Spec, make_folder, parse, read_text, write_text

_LARGEST_BYTES = 50_000_000
_MOST = 1_000_000  # images that judge a network
_TRIAL = 4  # inputs by which a network's function is told

Error = Annotated[float, Field(ge=0, lt=1e300, allow_inf_nan=False)]


class FinishedRecord(Spec):
    """The file of a network."""

    korisk: str
    model: str
    n: int
    seed: int
    variant: str
    errors: list[Error] = Field(min_length=1, max_length=_MOST)  # of every image that judges


class Finished:
    """The finished networks in a folder, which is created if needed."""

    def __init__(self, folder: str | Path) -> None:
        remedy = "name a folder for finished networks"
        self.folder = make_folder(_checks.path("folder", folder, remedy=remedy))

    def has(self, name: str) -> bool:
        """Whether a network has finished."""
        return (self.folder / name).exists()

    def read(self, name: str, count: int) -> Tensor:
        """The errors of a network on so many images."""
        file = self.folder / name
        errors = read_finished(file).errors
        if len(errors) != count:
            raise KoriskError(f"{file}: must have {count:,} errors, got {len(errors):,}; remove it")
        return torch.tensor(errors, dtype=torch.float64)

    def write(self, name: str, model: str, cell: tuple[int, int, str], errors: Tensor) -> None:
        """Keep the errors of a network."""
        n, seed, variant = cell
        record = FinishedRecord(
            korisk=__version__,
            model=model,
            n=n,
            seed=seed,
            variant=variant,
            errors=errors.double().tolist(),
        )
        write_text(self.folder / name, record.model_dump_json() + "\n")


def read_finished(file: Path) -> FinishedRecord:
    """Read the file of a network."""
    text = read_text(file, max_bytes=_LARGEST_BYTES)
    try:
        content = json.loads(text, object_pairs_hook=_checks.unique_keys)
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise KoriskError(f"{file}: not valid JSON: {reason}; remove it") from None
    return parse(FinishedRecord, content, source=file)


def digest_of_pairs(*pairs: Tensor) -> str:
    """A digest of inputs and targets."""
    whole = hashlib.sha256()
    for values in pairs:
        whole.update(f"{tuple(values.shape)} {values.dtype}".encode())
        whole.update(values.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return whole.hexdigest()


def digest_of_network(module: nn.Module, inputs: Tensor) -> str:
    """A digest of a network: its layers, their code, its weights, and what it does with inputs."""
    whole = hashlib.sha256(repr(module).encode())
    for kind in sorted({type(layer) for layer in module.modules()}, key=lambda kind: kind.__name__):
        whole.update(_source(kind).encode())
    for name, values in module.state_dict().items():
        if isinstance(values, Tensor):
            whole.update(f"{name} {digest_of_pairs(values.reshape(-1))}".encode())
    # Numbers that are no weights show in the output alone; rounded, since cores round differently.
    tried = copy.deepcopy(module).eval()
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        output = tried(inputs[:_TRIAL])
    if isinstance(output, Tensor):  # else training refuses it
        whole.update(f"{float(output.abs().double().norm()):.3e}".encode())
    return whole.hexdigest()


def digest_of_fit(fit: Callable[..., object] | None) -> str:
    """A digest of the user's own training, by its source."""
    if fit is None:
        return ""
    source = _source(fit)
    if not source:
        unread = "networks of a fit whose source cannot be read are not kept; write it as a "
        raise KoriskError(unread, "function in a file, or leave ", Argument("folder", ...), " out")
    return hashlib.sha256(source.encode()).hexdigest()


def file_name(cell: tuple[int, int, str], decisive: Mapping[str, object]) -> str:
    """The name of a network's file, from all that decides its errors."""
    n, seed, variant = cell
    text = json.dumps({"korisk": __version__, **decisive}, sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:24]
    return f"n{n}-seed{seed}-{variant}-{digest}.json"


def _source(defined: Callable[..., object]) -> str:
    """The source of a function or class; empty where it cannot be read."""
    try:
        return inspect.getsource(defined)
    except (OSError, TypeError):
        return ""

"""Checkpoints of trainings: written whole or not at all, and refused where they do not belong."""

from __future__ import annotations

import hashlib
import os
import tempfile
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from korisk.errors import KoriskError, shown

_FORMAT = "korisk training 1"
_REMEDY = "delete the file to train from the start, or name another"


def fingerprint(tensors: Iterable[Tensor]) -> str:
    """A digest of the tensors' bytes, the same on every device."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def write(path: Path, identity: Mapping[str, object], content: Mapping[str, Any]) -> None:
    """Write a checkpoint of the training that `identity` describes, in place of an earlier one."""
    whole = {"format": _FORMAT, "identity": dict(identity), **content}
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                torch.save(whole, file)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except (OSError, RuntimeError) as error:  # torch.save calls a full disk a RuntimeError
        raise KoriskError(f"{path}: the checkpoint cannot be written: {_reason(error)}") from None


def read(path: Path, identity: Mapping[str, object], device: torch.device) -> dict[str, Any] | None:
    """The checkpoint of this training, or None where there is none yet."""
    if not path.exists():
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content = torch.load(path, map_location=device, weights_only=True)
    except Exception as error:  # whatever a file that is no checkpoint makes of the reader
        raise KoriskError(
            f"{path}: cannot be read as a checkpoint, it is damaged or something else: "
            f"{_reason(error)}; {_REMEDY}"
        ) from None
    if not isinstance(content, dict) or content.get("format") != _FORMAT:
        raise KoriskError(f"{path}: is not a checkpoint of korisk's training; {_REMEDY}")
    _require_same(path, content.get("identity"), identity)
    return content


def damaged(path: Path) -> KoriskError:
    """What is raised where a checkpoint lacks something that it should hold."""
    return KoriskError(f"{path}: the checkpoint is damaged; {_REMEDY}")


def _require_same(path: Path, theirs: object, ours: Mapping[str, object]) -> None:
    if not isinstance(theirs, dict):
        raise damaged(path)
    for field, value in ours.items():
        if theirs.get(field) != value:
            raise KoriskError(
                f"{path}: is a checkpoint of another training, its {field} is "
                f"{shown(theirs.get(field))} and here it is {shown(value)}; {_REMEDY}"
            )


def _reason(error: Exception) -> str:
    text = " ".join(str(getattr(error, "strerror", None) or error).split())
    return text if len(text) <= 100 else text[:97] + "..."

"""Checkpoints that all ranks write together: whole or not at all, read on any number of ranks.

Each is a folder `iteration-00000300`, written under another name and renamed when it is whole. In
it lie PyTorch's distributed checkpoint, a file for each rank and `.metadata`, and `training.json`,
which says whose it is. `.metadata` is a pickle, so it is read with all but its own classes refused.
"""

from __future__ import annotations

import io
import json
import pickle
import pickletools
import re
import shutil
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.metadata import Metadata, StorageMeta, TensorStorageMetadata
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from korisk.errors import KoriskError, shown
from korisk.fitting.gradient.sharded_ranks import Ranks

FORMAT = "korisk sharded training 1"
_KEPT = 2
_NAME = re.compile(r"iteration-(\d{8,})")
_ABOUT = "training.json"
_MAX_ABOUT = 10**6  # bytes
_PIECE = 2**24  # bytes that are read at once
_REMEDY = "delete the folder to train from the start, or name another"

_PARTS = "torch.distributed.checkpoint.metadata"
_ALLOWED = {
    *((_PARTS, name) for name in ("Metadata", "TensorStorageMetadata", "TensorProperties")),
    *((_PARTS, name) for name in ("ChunkStorageMetadata", "MetadataIndex", "StorageMeta")),
    (_PARTS, "_MEM_FORMAT_ENCODING"),
    ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
    ("torch", "Size"),
    ("torch", "float32"),
    ("torch", "float64"),
    ("torch", "int64"),
    ("torch.serialization", "_get_layout"),
    *(
        (module, name)
        for module in ("pathlib", "pathlib._local")  # where the checkpoint was written
        for name in ("PosixPath", "WindowsPath", "PurePosixPath", "PureWindowsPath")
    ),
}


class Checkpoints:
    """The checkpoints of one training in one folder; all ranks call every method together."""

    def __init__(self, folder: Path, identity: Mapping[str, object], ranks: Ranks) -> None:
        self.folder, self.identity, self.ranks = folder, dict(identity), ranks

    def newest(self) -> int:
        """The iteration of the newest whole checkpoint, seen by rank 0; 0 where there is none."""
        found = newest_iteration(self.folder) if self.ranks.first else 0
        return self.ranks.agree(found)

    def write(self, iteration: int, state: Mapping[str, Tensor]) -> None:
        """Write a checkpoint, and drop all but the last two when it is whole."""
        target = self.folder / _name(iteration)
        partial = target.with_name(f"{target.name}.partial")
        try:
            if self.ranks.first:
                self.folder.mkdir(parents=True, exist_ok=True)
                shutil.rmtree(partial, ignore_errors=True)  # of a training that was killed
                partial.mkdir()
            self.ranks.wait()
            save(dict(state), storage_writer=FileSystemWriter(partial))
            sums = self._sums(partial, sorted(path.name for path in partial.iterdir()))
            if self.ranks.first:
                about = {"format": FORMAT, "iteration": iteration, "identity": self.identity}
                about |= {"crc32": sums}
                (partial / _ABOUT).write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
                partial.rename(target)
                self._prune()
            self.ranks.wait()
        except (OSError, RuntimeError, CheckpointException) as error:
            raise KoriskError(
                f"{target}: the checkpoint cannot be written: {_reason(error)}; look at the disk's "
                "free space and rights"
            ) from None

    def _sums(self, folder: Path, names: list[str]) -> dict[str, int]:
        """Check sums of files, which the ranks read in turns."""
        own = {name: _crc32(folder / name) for name in names[self.ranks.rank :: self.ranks.size]}
        return {name: max(self.ranks.gather(own.get(name, 0))) for name in names}

    def _prune(self) -> None:
        for iteration in _whole(self.folder)[:-_KEPT]:
            shutil.rmtree(self.folder / _name(iteration), ignore_errors=True)
        for rest in self.folder.glob("iteration-*.partial"):
            shutil.rmtree(rest, ignore_errors=True)

    def read(self, iteration: int, state: Mapping[str, Tensor]) -> None:
        """Fill tensors from a checkpoint of this training, each rank its own parts."""
        path = self.folder / _name(iteration)
        _require_same(path, stored_identity(path), self.identity)
        try:
            kept = _about(path).get("crc32")
            if not isinstance(kept, dict) or any(Path(name).name != name for name in kept):
                raise ValueError("it does not say what its files are")
            if self._sums(path, sorted(kept)) != kept:
                raise ValueError("its files are not as they were written")
            reader = _Reader(path)
            reader.read_metadata()  # of what is wrong with it PyTorch would print a traceback
            load(dict(state), storage_reader=reader)
        except KoriskError:
            raise
        except (Exception, CheckpointException) as error:  # whatever damage makes of the reader
            raise KoriskError(
                f"{path}: the checkpoint is damaged: {_reason(error)}; delete that folder to go on "
                "from the one before"
            ) from None


def newest_iteration(folder: Path) -> int:
    """The iteration of a folder's newest whole checkpoint; 0 where there is none."""
    return max(_whole(folder), default=0)


def _about(path: Path) -> dict[str, Any]:
    try:
        with (path / _ABOUT).open("rb") as file:
            about = json.loads(file.read(_MAX_ABOUT))
    except (OSError, ValueError, RecursionError) as error:
        raise KoriskError(f"{path}: is not a checkpoint: {_reason(error)}; {_REMEDY}") from None
    return about if isinstance(about, dict) else {}


def _crc32(path: Path) -> int:
    if not path.is_file():
        raise ValueError(f"{path.name} is not there")
    total = 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            total = zlib.crc32(piece, total)
    return total


def stored_identity(path: Path) -> dict[str, Any]:
    """Which training a checkpoint belongs to."""
    about = _about(path)
    identity = about.get("identity")
    if not isinstance(identity, dict) or about.get("format") != FORMAT:
        raise KoriskError(f"{path}: is not a checkpoint of korisk's sharded training; {_REMEDY}")
    return identity


def newest_identity(folder: Path) -> dict[str, Any] | None:
    """Which training a folder's newest checkpoint belongs to; None where there is none."""
    iteration = newest_iteration(folder)
    return stored_identity(folder / _name(iteration)) if iteration else None


def _name(iteration: int) -> str:
    return f"iteration-{iteration:08d}"


def _whole(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    names = (_NAME.fullmatch(path.name) for path in folder.iterdir())
    return sorted(int(name[1]) for name in names if name is not None)


def _require_same(path: Path, theirs: Mapping[str, object], ours: Mapping[str, object]) -> None:
    for field, value in ours.items():
        if theirs.get(field) != value:
            raise KoriskError(
                f"{path}: is a checkpoint of another training, its {field} is "
                f"{shown(theirs.get(field))} and here it is {shown(value)}; {_REMEDY}"
            )


def _refuse_bombs(content: bytes) -> None:
    """A pickle may number what it keeps as it likes, and room is made for all numbers below."""
    for code, value, _ in pickletools.genops(content):
        if code.name in ("PUT", "BINPUT", "LONG_BINPUT") and int(value or 0) > len(content):
            raise pickle.UnpicklingError(f"it keeps something under {value:,}")


class _Unpickler(pickle.Unpickler):
    """Builds what the metadata of a checkpoint consists of, and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} does not belong there")
        return super().find_class(module, name)


class _Reader(FileSystemReader):
    """Reads checkpoints that may come from elsewhere: tensors alone, from this folder alone."""

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        path = Path(self.path) / ".metadata"
        content = path.read_bytes()
        _refuse_bombs(content)
        metadata = _Unpickler(io.BytesIO(content)).load()
        if not isinstance(metadata, Metadata):
            raise pickle.UnpicklingError("its metadata is something else")
        for name, entry in metadata.state_dict_metadata.items():
            if not isinstance(entry, TensorStorageMetadata):  # others are pickles themselves
                raise pickle.UnpicklingError(f"{shown(name)} is not a tensor")
        for place in (metadata.storage_data or {}).values():
            if Path(place.relative_path).name != place.relative_path:
                raise pickle.UnpicklingError(f"{shown(place.relative_path)} lies elsewhere")
        if metadata.storage_meta is None:
            metadata.storage_meta = StorageMeta()
        metadata.storage_meta.load_id = self.load_id
        return metadata


def _reason(error: BaseException) -> str:
    """A short line; of a failure on several ranks, that of the first."""
    failures = getattr(error, "failures", None)
    if failures:
        error = next(iter(failures.values()))[0]
    text = " ".join(str(getattr(error, "strerror", None) or error).split())
    if text.startswith("Weights only load failed"):  # after which PyTorch says how to dare it
        return "a file in it does not hold tensors"
    return text if len(text) <= 120 else text[:117] + "..."

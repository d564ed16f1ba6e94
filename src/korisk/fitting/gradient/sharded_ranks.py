"""Ranks: the processes that train one network together, how they join and how they are started."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import IO

import torch
import torch.distributed as dist

from korisk.errors import KoriskError

Hear = Callable[[str], None]  # a line that rank 0 printed

_STORE = "KORISK_RANKS_PORT"  # where ranks that `launch` started find each other
_HERE = "127.0.0.1"
_PAUSE = 0.05  # seconds between two looks at the ranks
_GRACE = 2.0  # seconds in which ranks may say why they failed, once one has
_LAST_WORDS = 5.0  # seconds from the request to end until the end


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """This process among those that train together."""

    rank: int
    size: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this is the one that speaks for all."""
        return self.rank == 0

    def wait(self) -> None:
        """Go on when all ranks have come here."""
        token = torch.zeros(1)
        dist.all_reduce(token)

    def agree(self, value: int) -> int:
        """The value of rank 0, on all ranks."""
        token = torch.tensor([value])
        dist.broadcast(token, 0)
        return int(token)

    def gather(self, value: int) -> tuple[int, ...]:
        """The values of all ranks, on all ranks."""
        token = torch.zeros(self.size, dtype=torch.int64)
        token[self.rank] = value
        dist.all_reduce(token)
        return tuple(token.tolist())


def launched() -> bool:
    """Whether `launch` started this process."""
    return _STORE in os.environ


def among_ranks() -> bool:
    """Whether this process is a rank already: of `launch`, of torchrun, or of another launcher."""
    return launched() or {"RANK", "WORLD_SIZE"} <= os.environ.keys()


@contextmanager
def joined(device: str = "cpu") -> Iterator[Ranks]:
    """Join the other ranks, if there are any, for as long as the block lasts.

    The environment says who they are, as torchrun sets it; a process of its own is the only rank.
    On "cuda" each takes the GPU of its local rank. Ranks speak through gloo on the CPU, and
    through NCCL on CUDA.
    """
    place = torch.device(device)
    if not dist.is_available():
        raise KoriskError(
            "sharded training needs torch.distributed, which this build of PyTorch lacks; install "
            "another, or train with korisk.fitting.train"
        )
    if dist.is_initialized():
        yield _standing(place)
        return
    if place.type == "cuda":
        place = _own_gpu(place)
    backend = "gloo" if place.type == "cpu" else "cpu:gloo,cuda:nccl"
    if launched():
        _end_with_the_launcher()
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        store = dist.TCPStore(_HERE, int(os.environ[_STORE]))  # type: ignore[attr-defined]
        dist.init_process_group(backend, store=store, rank=rank, world_size=size)
    elif among_ranks():
        dist.init_process_group(backend)
    else:
        alone = dist.HashStore()  # type: ignore[attr-defined]
        dist.init_process_group(backend, store=alone, rank=0, world_size=1)
    try:
        ranks = _standing(place)
        yield ranks
        ranks.wait()  # nobody hangs up while others still listen
    finally:
        dist.destroy_process_group()


def _standing(place: torch.device) -> Ranks:
    return Ranks(rank=dist.get_rank(), size=dist.get_world_size(), device=place)


def _own_gpu(place: torch.device) -> torch.device:
    if not dist.is_nccl_available():
        raise KoriskError(
            "ranks on CUDA speak through NCCL, which this build of PyTorch lacks; use the CPU, or "
            "install a build of PyTorch for CUDA"
        )
    given: int | None = place.index
    number = int(os.environ.get("LOCAL_RANK", "0")) if given is None else given
    count = torch.cuda.device_count()
    if number >= count:
        raise KoriskError(
            f"each rank needs a GPU of its own, and rank {number} of this machine found {count}; "
            f"start {max(count, 1)} ranks, or use the CPU"
        )
    torch.cuda.set_device(number)
    return torch.device("cuda", number)


def _end_with_the_launcher() -> None:
    """End this process when the pipe from its launcher closes: no rank is left over by a kill."""

    def listen() -> None:
        with suppress(OSError):
            while os.read(0, 1):
                pass
        os._exit(1)

    threading.Thread(target=listen, daemon=True).start()


# --- Starting ranks on this machine --------------------------------------------------------------


def launch(command: Sequence[str], ranks: int, *, hear: Hear | None = None) -> None:
    """Run a command as so many ranks, until all are done or one fails.

    What rank 0 prints goes to `hear`, line by line. A `KoriskError` of a rank, as the command line
    prints it, is raised here in its words. Ranks end with this process, however it ends.
    """
    # Held here, so that it outlives all ranks; the port is any that is free.
    store = dist.TCPStore(_HERE, 0, is_master=True, wait_for_workers=False)  # type: ignore[attr-defined]
    with ExitStack() as stack:
        # Without names: nothing of them is left, however this process ends.
        words = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(ranks)]
        processes: list[subprocess.Popen[bytes]] = []
        try:
            for rank in range(ranks):  # one by one: those that were started are ended if one fails
                processes += [_start(command, rank, ranks, store.port, words[rank])]
            listener = threading.Thread(target=_listen, args=(processes[0].stdout, hear))
            listener.start()
            first = _wait(processes)
        finally:
            _end(processes)
        listener.join()
        _raise_failure(processes, words, first)


def _start(
    command: Sequence[str], rank: int, ranks: int, port: int, words: IO[bytes]
) -> subprocess.Popen[bytes]:
    environment = {
        **os.environ,
        _STORE: str(port),
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
    }
    environment.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // ranks)))
    if sys.platform == "linux":  # all ranks are here: nothing of theirs needs to leave the machine
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
    return subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,  # which the rank watches; see _end_with_the_launcher
        stdout=subprocess.PIPE if rank == 0 else subprocess.DEVNULL,
        stderr=words,
        start_new_session=True,  # Ctrl-C reaches the launcher alone, which ends the ranks
    )


def _read(words: IO[bytes]) -> str:
    words.seek(0)
    return words.read().decode(errors="replace")


def _listen(stream: IO[bytes] | None, hear: Hear | None) -> None:
    assert stream is not None
    with stream:
        for line in stream:
            if hear is not None:
                hear(line.decode(errors="replace").rstrip("\n"))


def _wait(processes: Sequence[subprocess.Popen[bytes]]) -> list[int]:
    """Until all are done, or one has failed and the others had time to say why they did.

    Gives the ranks that were seen to fail first.
    """
    first: list[int] = []
    deadline = 0.0
    while True:
        codes = [process.poll() for process in processes]
        if not first and any(codes):
            first = [rank for rank, code in enumerate(codes) if code]
            deadline = time.monotonic() + _GRACE
        if None not in codes or (first and time.monotonic() > deadline):
            return first
        time.sleep(_PAUSE)


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + _LAST_WORDS
    for process in processes:
        try:
            process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()


def _raise_failure(
    processes: Sequence[subprocess.Popen[bytes]], said_by: Sequence[IO[bytes]], first: list[int]
) -> None:
    """The failure that explains the others: a rank alone fails again for want of its partners."""
    failed = [rank for rank, process in enumerate(processes) if process.returncode]
    if not failed:
        return
    words = {rank: _read(said_by[rank]) for rank in failed}
    for rank in failed:
        if processes[rank].returncode == KoriskError.exit_code:
            said = re.findall(r"^korisk: (.*)$", words[rank], re.MULTILINE)
            if said:
                raise KoriskError(said[-1])
    for rank in failed:
        ended_by = -processes[rank].returncode
        if ended_by > 0 and (rank in first or ended_by != signal.SIGTERM):  # ours, if later
            why = ", perhaps for want of memory" if ended_by == signal.SIGKILL else ""
            raise KoriskError(
                f"rank {rank} of {len(processes)} was ended by signal {ended_by}{why}; run again "
                "to go on from the last checkpoint"
            )
    rank = (first or failed)[0]
    raise RuntimeError(f"rank {rank} of {len(processes)} failed:\n{words[rank]}")

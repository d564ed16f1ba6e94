"""Jobs of a batch system as YAML: how many to ask for, and what each of them has."""

from __future__ import annotations

import re
from os import PathLike
from typing import Literal

from pydantic import Field

from korisk.errors import KoriskError, shown
from korisk.files import Spec, parse, read_yaml

System = Literal["slurm", "pbs", "lsf"]

_MOST_JOBS, _MOST_CORES = 10_000, 4_096
_WALLTIME = re.compile(r"(?:(\d{1,3})-)?(\d{1,4}):([0-5]\d):([0-5]\d)")
_MEMORY = re.compile(r"(\d+(?:\.\d+)?) ?([KMGT])(i?)B")
_POWERS = {"K": 1, "M": 2, "G": 3, "T": 4}


class JobProfile(Spec):
    """What is asked of the batch system. One worker process runs in each job.

    `cores` are the threads of a worker's numeric libraries, `gpus` is 0 or 1 a job, `directives`
    are further lines for the batch system without its prefix (`--constraint=fast`), `prologue` is
    shell to run before the worker starts. A worker runs `python`, by default the driver's own.
    """

    system: System = "slurm"
    jobs: int
    cores: int
    memory: str
    walltime: str
    queue: str | None = None
    account: str | None = None
    gpus: int = 0
    directives: list[str] = Field(default_factory=list)
    prologue: list[str] = Field(default_factory=list)
    python: str | None = None
    interface: str | None = None
    local_directory: str | None = None
    log_directory: str | None = None

    @classmethod
    def read(cls, path: str | PathLike[str]) -> JobProfile:
        """A profile from a YAML file, checked."""
        profile = parse(cls, read_yaml(path), source=path)
        profile.check(path)
        return profile

    def check(self, source: object) -> None:
        """Refuse values that no batch system takes, in one line."""
        for problem in (*_counts(self), *_texts(self)):
            raise KoriskError(f"{source}: {problem}")

    @property
    def memory_bytes(self) -> int:
        """`memory` in bytes."""
        found = _MEMORY.fullmatch(self.memory)
        assert found is not None
        number, unit, binary = found.groups()
        return int(float(number) * (1024 if binary else 1000) ** _POWERS[unit])

    @property
    def walltime_seconds(self) -> int:
        """`walltime` in seconds."""
        found = _WALLTIME.fullmatch(self.walltime)
        assert found is not None
        days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
        return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def _counts(profile: JobProfile) -> list[str]:
    problems = []
    for name, most in (("jobs", _MOST_JOBS), ("cores", _MOST_CORES)):
        value = getattr(profile, name)
        if not 1 <= value <= most:
            problems.append(f"{name} must be from 1 to {most}, got {shown(value)}; correct it")
    if profile.gpus not in (0, 1):
        problems.append(
            f"gpus must be 0 or 1, got {shown(profile.gpus)}; "
            "a job has one worker: ask for more jobs of one GPU each"
        )
    return problems


def _texts(profile: JobProfile) -> list[str]:
    problems = []
    if not _MEMORY.fullmatch(profile.memory) or profile.memory_bytes < 1:
        problems.append(
            f"memory must be a size with its unit, got {shown(profile.memory)}; write 16 GB"
        )
    if not _WALLTIME.fullmatch(profile.walltime) or profile.walltime_seconds < 60:
        problems.append(
            "walltime must be HH:MM:SS or D-HH:MM:SS, a minute or more, "
            f'got {shown(profile.walltime)}; write "02:00:00"'
        )
    odd = {"python": "\"'", "local_directory": "\"'", "log_directory": "\"' "}
    problems += [
        f"{name} must have no quotes{' or blanks' * (' ' in marks)}, got {shown(text)}; choose "
        "another path"
        for name, marks in odd.items()
        if set(marks) & set(text := getattr(profile, name) or "")
    ]
    names = ("queue", "account", "python", "interface", "local_directory", "log_directory")
    lines = [(name, getattr(profile, name)) for name in names]
    lines += [("directives", line) for line in profile.directives]
    for name, text in lines:
        if text is not None and (not text.strip() or not text.isprintable()):
            problems.append(f"{name} must be one line of text, got {shown(text)}; correct it")
    return problems

"""Fits that behave, and fits that do not: what `run_pilot` is tested with."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from korisk.pilots import Compute, PilotModel

SLEEP = ["sleep", "300"]
FOLDER = "PILOT_FITS_FOLDER"  # where processes that are left behind write their ids


def grouped(**options: Any) -> dict[str, Any]:
    """Arguments of `run_pilot` with those of its value objects put into them."""
    names = [each.name for each in fields(Compute) if each.name in options]
    if names:
        options["compute"] = Compute(**{name: options.pop(name) for name in names})
    if "settings" in options:
        name = options.pop("model", None)
        options["model"] = PilotModel(name=name, settings=options.pop("settings"))
    return options


def power(n: int, seed: int) -> float:
    """0.02 + 0.5 n^-0.5, with 3% of noise."""
    rng = np.random.default_rng([n, seed])
    return float((0.02 + 0.5 * n**-0.5) * np.exp(0.03 * rng.standard_normal()))


def scores(n: int, seed: int) -> dict[str, Any]:
    error = power(n, seed)
    return {"accuracy": 1 - error, "loss": 2 * error, "bias": -error}


def note(pid: int) -> None:
    (Path(os.environ[FOLDER]) / str(pid)).touch()


def kills_itself(n: int, seed: int) -> float:
    os.kill(os.getpid(), signal.SIGKILL)
    return power(n, seed)


def leaves(n: int, seed: int) -> float:
    print("before the exit")
    sys.exit(3)


def forks(n: int, seed: int) -> float:
    """Child and parent both return, the child something else."""
    if os.fork() == 0:
        return 77.0
    os.wait()
    return power(n, seed)


def forks_and_raises(n: int, seed: int) -> float:
    if os.fork() == 0:
        raise RuntimeError("in the child")
    os.wait()
    return power(n, seed)


def leaves_things_running(n: int, seed: int) -> float:
    note(subprocess.Popen(SLEEP).pid)
    threading.Thread(target=time.sleep, args=(300,), name="sleeper", daemon=True).start()
    return power(n, seed)


def raises(n: int, seed: int) -> float:
    print("so far so good")
    raise ValueError(f"no luck with {n}")


# The worker of the last one ends in peace, and must take along what that has left.
BEHAVIOURS = [
    *(kills_itself, power, leaves, forks),
    *(forks_and_raises, raises, leaves_things_running),
]


def by_seed(n: int, seed: int) -> float:
    return float(BEHAVIOURS[seed](n, seed))


class SpeaksBadly(Exception):
    def __str__(self) -> str:
        raise RuntimeError("not even that")


class KeepsSilent(Exception):
    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        raise RuntimeError("no notes")


class RefusesNotes(Exception):
    def add_note(self, note: str, /) -> None:
        raise RuntimeError("no notes")


def has_a_child(n: int, seed: int) -> float:
    """By multiprocessing, as the loaders of PyTorch are."""
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(0.01,))
    child.start()
    child.join()
    assert child.exitcode == 0
    return power(n, seed)


def leaves_a_sleeper(n: int, seed: int) -> float:
    note(subprocess.Popen(SLEEP).pid)
    return power(n, seed)


def interrupts_itself(n: int, seed: int) -> float:
    raise KeyboardInterrupt("of its own")


def speaks_badly(n: int, seed: int) -> float:
    raise SpeaksBadly


MORE_BEHAVIOURS = [has_a_child, interrupts_itself, speaks_badly, leaves_a_sleeper]


def more_by_seed(n: int, seed: int) -> float:
    return float(MORE_BEHAVIOURS[seed](n, seed))


def hangs_with_a_child(n: int, seed: int) -> float:
    """Deaf to polite requests, as its child is."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(300,))
    child.start()
    assert child.pid is not None
    note(child.pid)
    note(os.getpid())
    time.sleep(300)
    return power(n, seed)


def torch_fit(train: Any, test: Any, seed: int) -> dict[str, float]:
    """Least squares of y on x, and how many samples it had."""
    x, y = (np.array([float(pair[part]) for pair in train]) for part in (0, 1))
    slope = float(x @ y / (x @ x))
    errors = [(float(b) - slope * float(a)) ** 2 for a, b in test]
    return {"mse": float(np.mean(errors)) + 1e-6, "samples": len(train)}

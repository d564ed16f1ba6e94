"""Functions that follow the progress of a rehearsal or an ablation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from korisk import _checks

Progress = Callable[[str, float], None]


@dataclass(frozen=True, kw_only=True)
class Callbacks:
    """Functions of your own that are called while networks are trained.

    Parameters
    ----------
    progress : callable, optional
        Called with what is being done and the share that is done.
    estimate : callable, optional
        Called before training with how many seconds and how many bytes of memory it will take.

    Raises
    ------
    KoriskError
        If one of them is no function.

    Examples
    --------
    >>> import korisk as kr
    >>> kr.prediction.Callbacks(progress=print).estimate is None
    True
    """

    progress: Progress | None = None
    estimate: Callable[[float, float], None] | None = None

    def __post_init__(self) -> None:
        for name, function in vars(self).items():
            _checks.function_or_none(name, function)

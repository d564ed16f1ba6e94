"""Motion of the object during a scan, in studies of CT and MRI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from korisk._json import JsonMapping
from korisk.files import Spec

if TYPE_CHECKING:
    from korisk.problems import Motion


class MotionEntry(Spec):
    """Keys of the motion during a scan, see `korisk.problems.Motion`."""

    states: int = 4
    turn: float = 0.0  # degrees at the end of the scan
    shift: list[float] = Field(default_factory=lambda: [0.0, 0.0])  # pixels along rows and columns
    stretch: float = 0.0  # growth, as a share
    handled: Literal["known", "estimated", "ignored"] = "known"  # by the known operators


def motion_of(settings: JsonMapping) -> Motion | None:
    """The motion of a point."""
    from korisk.problems import Motion

    motion = settings.get("motion")
    return None if motion is None else Motion(**{**motion, "shift": tuple(motion["shift"])})


def motion_words(settings: JsonMapping) -> str:
    """The motion in the name of a point."""
    motion = settings.get("motion")
    return "" if motion is None else f", motion {motion['handled']}"

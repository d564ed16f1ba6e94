"""Deblurring behind pixels of unknown gain."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from korisk._json import JsonDict, JsonMapping
from korisk.files import Spec
from korisk.studies.spec.entries import (
    ImagesEntry,
    NoiseEntry,
    PointEntry,
    StudyEntry,
    check_gaussian,
    gaussian_of,
    population,
    source_of,
)
from korisk.studies.spec.kind import Kind, register

if TYPE_CHECKING:
    from korisk.problems import Problem


class BlurProblemEntry(Spec):
    """The camera, and what is in front of it: see `korisk.problems.BlurProblem`."""

    kind: Literal["blur"]
    deviation: float = 1.0
    gain: float = 0.2
    mu: float = 0.01
    ellipses: list[int] = Field(default_factory=lambda: [1, 4])
    images: ImagesEntry | None = None
    noise: NoiseEntry | None = None


class BlurPointEntry(PointEntry):
    """One operating point: the image's size, the blur that the network assumes, and more."""

    side: int
    assumed: float | None = None
    deviation: float | None = None
    gain: float | None = None
    mu: float | None = None
    noise: NoiseEntry | None = None


@register
class Blur(Kind[BlurProblemEntry, BlurPointEntry]):
    """Sharp images from blurred ones."""

    name = "blur"
    study = StudyEntry[BlurProblemEntry, BlurPointEntry]
    images = True

    def settings(self, shared: BlurProblemEntry, point: BlurPointEntry) -> JsonDict:
        """What is imaged, the camera, and the blur that the network assumes."""
        camera = {"deviation", "gain", "mu"}
        settings: JsonDict = {
            "kind": "blur",
            **population(shared.ellipses, shared.images, point.noise or shared.noise),
            **shared.model_dump(include=camera),
            **point.model_dump(include={"side", "assumed"} | camera, exclude_none=True),
        }
        settings.setdefault("assumed", settings["deviation"])
        check_gaussian(settings)
        return settings

    def title(self, settings: JsonMapping) -> str:
        """Such as "side 32, blur 1.2 for 1"."""
        assumed, true = settings["assumed"], settings["deviation"]
        return f"side {settings['side']}, blur {assumed:g} for {true:g}"

    def entries(self, settings: JsonMapping) -> tuple[int, int]:
        """Pixels, before and after."""
        return settings["side"] ** 2, settings["side"] ** 2

    def problem(self, spec: JsonMapping) -> Problem:
        """The problem of a point."""
        from korisk.problems import BlurProblem

        settings = spec["problem"]
        camera = {name: settings[name] for name in ("side", "deviation", "assumed", "gain", "mu")}
        return BlurProblem(noise=gaussian_of(settings), source=source_of(spec), **camera)

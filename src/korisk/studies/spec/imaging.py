"""Keys and settings that all kinds of imaging share: images and noise."""

from typing import ClassVar, TypeVar, get_args

from pydantic import Field

from korisk._json import JsonDict, JsonMapping
from korisk.errors import KoriskError
from korisk.files import Spec
from korisk.studies.spec.entries import (
    ImagesEntry,
    NetworkKind,
    NoiseEntry,
    PointEntry,
    noise_of,
    population,
    source_of,
)
from korisk.studies.spec.kind import Kind

ImagingKeys = TypeVar("ImagingKeys", bound="ImagingEntry")
ImagingPointKeys = TypeVar("ImagingPointKeys", bound="ImagingPointEntry")

_SHARED = {"ellipses", "images", "noise"}  # keys that `population` turns into settings


class ImagingEntry(Spec):
    """Keys of a problem: images and noise."""

    ellipses: list[int] = Field(default_factory=lambda: [1, 4])  # least and largest number
    images: ImagesEntry | None = None  # instead of ellipses
    noise: NoiseEntry | None = None


class ImagingPointEntry(PointEntry):
    """Keys of an operating point: the image's size, and the noise if it differs."""

    side: int
    noise: NoiseEntry | None = None


class ImagingKind(Kind[ImagingKeys, ImagingPointKeys]):
    """Images of ellipses or of the user, from noisy measurements."""

    networks = get_args(NetworkKind)
    photons: ClassVar[bool] = False  # whether Poisson noise makes sense

    def settings(self, shared: ImagingKeys, point: ImagingPointKeys) -> JsonDict:
        """Images and the study's numbers, overridden by the point's."""
        ellipses, noise = getattr(point, "ellipses", None), point.noise or shared.noise
        # Later entries win: keys of the point override those of the study.
        settings = {
            "kind": self.name,
            **population(shared.ellipses if ellipses is None else ellipses, shared.images, noise),
            **shared.model_dump(exclude=_SHARED, exclude_none=True),
            **point.model_dump(exclude={"name", "sizes", *_SHARED}, exclude_none=True),
        }
        if "poisson" in (settings["noise"] or ()) and not self.photons:
            problem = f"noise of kind {self.name} must be gaussian"
            raise KoriskError(f"{problem}; write noise: {{gaussian: 0.1}}")
        return settings

    def arguments(self, spec: JsonMapping) -> JsonDict:
        """Arguments of a point's problem: numbers, noise and source of images."""
        settings = spec["problem"]
        numbers = settings.keys() - {"kind", "population", *_SHARED}
        arguments: JsonDict = {name: settings[name] for name in numbers}
        return arguments | {"noise": noise_of(settings), "source": source_of(spec)}

"""Kinds of imaging: images of ellipses or of the user, from noisy measurements."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field, create_model

from korisk import problems
from korisk._checks import require
from korisk._json import JsonDict, JsonMapping
from korisk.errors import KoriskError
from korisk.files import Spec
from korisk.networks import zoo
from korisk.problems import FileSource, Gaussian, Noise, Poisson
from korisk.store.cells import FOUND_AT
from korisk.studies.spec.entries import PointEntry, Positive, keys_of
from korisk.studies.spec.kind import Kind, found_at, register
from korisk.texts import counted

_NOISES: dict[str, type[Noise]] = {"gaussian": Gaussian, "poisson": Poisson}

Images: Any = create_model("Images", __base__=Spec, **keys_of(FileSource, without=["fingerprint"]))


class NoiseEntry(Spec):
    """Noise on the inputs, of one kind."""

    gaussian: Positive | None = None  # standard deviation over the input's root mean square
    poisson: Positive | None = None  # photons per ray without an object


class ImagingEntry(Spec):
    """Keys of a problem: images and noise."""

    ellipses: list[int] = Field(default_factory=lambda: [1, 4])  # least and largest number
    images: Images | None = None  # instead of ellipses
    noise: NoiseEntry | None = None


class ImagingPointEntry(PointEntry):
    """Keys of an operating point, if it differs in images or noise."""

    ellipses: list[int] | None = None
    noise: NoiseEntry | None = None


class ImagingKind(Kind):
    """Images of ellipses or of the user, from noisy measurements."""

    no_keys = ("source", "noise")
    shared_keys = ImagingEntry
    point_keys = ImagingPointEntry
    networks = tuple(zoo.KINDS)
    photons: ClassVar[bool] = False  # whether Poisson noise makes sense

    def settings(self, shared: Any, point: Any) -> JsonDict:
        """Images and the study's numbers, overridden by the point's."""
        settings = super().settings(shared, point)
        settings = {name: value for name, value in settings.items() if value is not None}
        ellipses, noise = settings["ellipses"], point.noise or shared.noise
        valid = len(ellipses) == 2 and 1 <= ellipses[0] <= ellipses[1] <= 100
        rule = "be the least and the largest number in an image, from 1 to 100"
        require(valid, "ellipses", rule, ellipses, "write [1, 4]")
        kinds = {} if noise is None else noise.model_dump(exclude_none=True)
        rule = "have exactly one of the keys 'gaussian' and 'poisson'"
        valid = noise is None or len(kinds) == 1
        require(valid, "noise", rule, len(kinds), "write noise: {gaussian: 0.02}")
        if "poisson" in kinds and not self.photons:
            problem = f"noise of kind {self.name} must be gaussian"
            raise KoriskError(f"{problem}; write noise: {{gaussian: 0.1}}")
        common: JsonDict = {"kind": self.name, "population": "ellipses", "ellipses": ellipses}
        common["noise"] = kinds or None
        if (images := shared.images) is not None:
            # Paths are left out of the settings: images may move without becoming another study.
            description = images.model_dump(exclude_unset=True, exclude=set(found_at(images)))
            common |= {"population": "images", "images": description}
        return common | {name: settings[name] for name in settings if name not in common}

    def check_keys(self, shared: Any, point: Any) -> None:
        """Raise for ellipses beside images, which have no effect."""
        drawn = "ellipses" in shared.model_fields_set or point.ellipses is not None
        met, remedy = shared.images is None or not drawn, "remove one of the two"
        require(met, "ellipses", "stand without images", point.ellipses or shared.ellipses, remedy)

    def arguments(self, spec: JsonMapping) -> JsonDict:
        """Numbers, motion, noise and source of images of a point's problem."""
        arguments = super().arguments(spec)
        for name in ("population", "images", "ellipses"):
            arguments.pop(name, None)
        if (motion := arguments.get("motion")) is not None:
            arguments["motion"] = problems.Motion(**motion)
        for kind, level in (arguments["noise"] or {}).items():
            arguments["noise"] = _NOISES[kind](level)
        return arguments | {"source": source_of(spec)}

    def moving(self, settings: JsonMapping) -> str:
        """The motion in the name of a point."""
        motion = settings.get("motion")
        return "" if motion is None else f", motion {motion['handled']}"


def source_of(spec: JsonMapping) -> problems.ImageSource:
    """The source of a point's images."""
    problem = spec["problem"]
    if problem.get("images") is not None:
        return FileSource(**problem["images"] | spec[FOUND_AT])
    fewest, most = problem["ellipses"]
    return problems.EllipseSource(fewest=fewest, most=most)


@register
class Blur(ImagingKind):
    """Sharp images from blurred ones."""

    name = "blur"
    made_of = problems.BlurProblem
    of_points = ("side", "assumed")
    truth = "deviation"

    def title(self, settings: JsonMapping) -> str:
        """Such as "side 32, blur 1.2 for 1"."""
        assumed, true = settings["assumed"], settings["deviation"]
        return f"side {settings['side']}, blur {assumed:g} for {true:g}"


@register
class Mri(ImagingKind):
    """Images from some lines of k-space."""

    name = "mri"
    made_of = problems.MriProblem
    of_points = ("side", "lines", "centre", "coils", "mu")

    def settings(self, shared: Any, point: Any) -> JsonDict:
        """Images, lines and coils; `centre` always, as stores of 0.3.0 have it."""
        return {"centre": None} | super().settings(shared, point)

    def title(self, settings: JsonMapping) -> str:
        """Such as "8 of 32 lines, 4 coils"."""
        coils = settings.get("coils")
        coil_text = "" if coils is None else f", {counted(coils, 'coil')}"
        lines = f"{settings['lines']} of {settings['side']} lines"
        if (trajectory := settings.get("trajectory")) is not None:
            shots = "spokes" if trajectory == "radial" else "spiral shots"
            lines = f"{settings['lines']} {shots}, {settings['side']} pixels"
        return f"{lines}{coil_text}{self.moving(settings)}"

"""Networks of a study or of the user's Python file, images, and the training of both.

Used by `korisk rehearse`, `korisk ablate` and `korisk bound --network`.
"""

from __future__ import annotations

import importlib.util
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.text import Text

from korisk import _checks
from korisk._json import JsonDict, JsonMapping
from korisk.cli.common.messages import tell, warnings_as_lines
from korisk.cli.common.options import Device, whole_numbers
from korisk.errors import KoriskError, did_you_mean, raised, shown
from korisk.texts import duration

if TYPE_CHECKING:
    from korisk.prediction.rehearsal.callbacks import Callbacks
    from korisk.prediction.study import Build, Request
    from korisk.studies.spec.study import Study

_LONG = 10.0  # seconds; longer runs print expected time and memory first
_TOO_LONG = 600.0  # seconds; longer runs are started only if the user agrees
_FEWER = "fewer --steps, --seeds or --sizes take less"
_ELSE = "[default: the study's, or"
_DATA = ("operator", "images", "noise", "patients")  # that the file of a network may define
_WHICH = "[default: all to rehearse, the first to ablate]"
_STUDY = "A study; problem and points are enough."
_NETWORK = (
    "Your own network: BUILD() in FILE.py returns it. Without a study, FILE.py also defines "
    "operator, and optionally images and noise."
)


def set_options(group: object, *names: str) -> JsonDict:
    """The options among these that the user has set."""
    return {name: value for name in names if (value := getattr(group, name)) is not None}


@dataclass(frozen=True)
class Subject:
    """The networks that are trained: those of a study, or one of the user's own."""

    path: Annotated[Path | None, typer.Argument(), "STUDY.yaml", _STUDY] = None
    network: Annotated[str | None, "FILE.py:BUILD", _NETWORK] = None
    point: Annotated[str | None, f"Which point of the study. {_WHICH}"] = None
    model: Annotated[str | None, f"Which model of the study. {_WHICH}"] = None

    def __post_init__(self) -> None:
        if self.path is None and self.network is None:
            raise KoriskError("give STUDY.yaml, or your own network with --network FILE.py:BUILD")
        if self.network is not None and self.model is not None:
            raise KoriskError("--model is of the study, and --network your own; leave one out")
        for option, value in (("--point", self.point), ("--model", self.model)):
            if self.path is None and value is not None:
                raise KoriskError(f"{option} belongs to a study; give one, or leave it out")

    def own(self) -> tuple[tuple[str, Build] | None, JsonDict]:
        """Name and builder of the user's network, and what its file defines beside it."""
        if self.network is None:
            return None, {}
        build, data = read_build(self.network)
        return (self.network.rpartition(":")[2], build), data


@dataclass(frozen=True)
class Simulated:
    """The images and the noise of the simulated pairs."""

    images: Annotated[Path | None, "DIR", "Your own example images, not the study's."] = None
    patients: Annotated[
        str | None, "RULE", f"auto, folder, file, image, or .csv of file, patient. {_ELSE} auto]"
    ] = None
    unit: Annotated[
        str | None, "UNIT", f"Of pixels: HU, 1/mm, 1/cm, 1/m or plain. {_ELSE} plain]"
    ] = None
    blank: Annotated[str | None, "skip|keep", f"Nearly empty images. {_ELSE} skip]"] = None
    on_error: Annotated[str | None, "stop|skip", f"Unreadable images. {_ELSE} stop]"] = None
    noise: Annotated[float | None, "L", "Noise over the input's RMS. [default: the study's]"] = None

    def request(self, study: Study | None, recipe: Recipe) -> Request:
        """What is simulated: from the user's own images, or from the study's."""
        from korisk.prediction.study import Request
        from korisk.problems.sources import FileSource

        overrides = set_options(self, "patients", "unit", "blank", "on_error")
        source = None
        if self.images is not None:
            # Read with the study's settings unless an option replaces them.
            problem = {} if study is None else study.content.get("problem") or {}
            of_study = dict(problem.get("images") or {})
            # A table of patients lists the study's images, not those of --images.
            if of_study.get("patients", "").lower().endswith(".csv"):
                del of_study["patients"]
            source = FileSource(**of_study | overrides | {"path": str(self.images.resolve())})
        elif overrides:
            key, value = next(iter(overrides.items()))
            its_own = f"a study says images: {{{key}: {value}}}"
            if study is None:
                its_own = "give it, or leave this out"
            if study is None and key == "patients":
                its_own = "beside images in the network's file, define patients: a list of names"
            raise KoriskError(f"--{key.replace('_', '-')} is for the images of --images; {its_own}")
        return Request(source=source, noise=self.noise, examples=recipe.examples, seed=recipe.seed)


@dataclass(frozen=True)
class Recipe:
    """How networks are trained; a study has sizes, seeds and a recipe of its own."""

    sizes: Annotated[str | None, "N,N,N", "Training pairs, ascending, three at least."] = None
    seeds: Annotated[int | None, f"Networks for each size, from --seed on. {_ELSE} 3]"] = None
    seed: Annotated[int, "S", "First random seed, unless a study has seeds."] = 0
    examples: Annotated[int, "How many example images to take; 12 at least."] = 256
    steps: Annotated[int | None, "Mini-batches of each training. [default: 2000]"] = None
    batch: Annotated[int | None, "Pairs of a mini-batch. [default: 16]"] = None
    rate: Annotated[float | None, "Learning rate at the start. [default: 0.001]"] = None
    resume: Annotated[Path | None, "DIR", "Keeps finished networks, not to train again."] = None
    yes: Annotated[bool, "Start trainings of more than ten minutes unasked."] = False
    device: Device = "auto"

    def __post_init__(self) -> None:
        _checks.count("seed", self.seed, at_least=0, at_most=2**31, remedy="give one such as 1")

    def arguments(self, of_study: JsonMapping, *, device: str) -> JsonDict:
        """Arguments of `rehearse` and `ablate`: a study's, unless an option replaces them."""
        from korisk.prediction.rehearsal.simulation import Training

        overrides = set_options(self, "sizes", "seeds", "steps", "batch", "rate")
        options: JsonDict = {"seeds": 3, **of_study, **overrides, "folder": self.resume}
        if self.sizes is not None:
            options["sizes"] = whole_numbers("--sizes", self.sizes)
        if isinstance(options["seeds"], int):
            # A number of seeds counts up from the study's first seed, or from --seed.
            first = of_study.get("seeds", [self.seed])[0]
            options["seeds"] = range(first, first + options["seeds"])
        recipe = {key: options.pop(key) for key in ("steps", "batch", "rate") if key in options}
        return options | {"training": Training(**recipe, examples=self.examples, device=device)}


@contextmanager
def training(subject: Subject, recipe: Recipe, *, quiet: bool) -> Iterator[Callbacks]:
    """Callbacks that show the progress of a training, and ask before one that takes long.

    Failures of the user's network name their option; an interruption says what is kept.
    """
    from korisk.prediction.rehearsal.callbacks import Callbacks

    with (
        warnings_as_lines(),
        Console(stderr=True, quiet=quiet).status("reading") as status,
        failures_named(subject.network),
    ):
        begun = time.monotonic()

        def progress(step: str, share: float) -> None:
            seconds = (time.monotonic() - begun) * (1 - share) / share if share else 0.0
            text = f"{step} {share:.0%}, about {duration(seconds)} left" if share else step
            status.update(Text(text))

        def estimate(seconds: float, memory: float) -> None:
            if seconds <= _LONG:
                return
            needed = f"{max(memory / 2**30, 0.1):.1f} GiB of memory"  # never 0.0
            text = f"training takes about {duration(seconds)} and {needed}, going by a few steps"
            status.stop()  # a question must not be overwritten
            if recipe.yes or seconds <= _TOO_LONG:
                tell(text)
            elif not sys.stdin.isatty():
                raise KoriskError(f"{text}; add --yes to start it; {_FEWER}")
            elif not typer.confirm(f"korisk: {text}; {_FEWER}. Start it?", err=True):
                raise KoriskError(f"not started; {_FEWER}")
            status.start()

        try:
            yield Callbacks(progress=progress, estimate=estimate)
        except KeyboardInterrupt as interruption:
            text = str(interruption)
            if recipe.resume is not None and not text:
                text = f"{recipe.resume} keeps the finished networks; "
                text += "the same command continues from there"
            if text:
                tell(text)
            raise


# --- Networks in the user's Python code ----------------------------------------------------------


def read_build(place: str) -> tuple[Build, JsonDict]:
    """Import the function that `FILE.py:BUILD` names; return it with the data of its file."""
    path, _, name = place.rpartition(":")
    if not path or not name.isidentifier():
        raise KoriskError(f"--network must be a function FILE.py:BUILD, got {shown(place)}")
    file = Path(path)
    # Inside a package the file is a module of it, so that `from .blocks import Block` works.
    names, folders = [file.stem], [file.resolve().parent]
    while (folders[-1] / "__init__.py").is_file():
        names.append(folders[-1].name)
        folders.append(folders[-1].parent)
    spec = importlib.util.spec_from_file_location(".".join(reversed(names)), file)
    if not file.is_file() or spec is None or spec.loader is None:
        raise KoriskError(f"--network {file}: there is no such Python file; check the path")
    module = importlib.util.module_from_spec(spec)
    # Modules next to the file can be imported, also later, while the network is built.
    for folder in (str(folders[-1]), str(folders[0])):
        if folder not in sys.path:
            sys.path.insert(0, folder)
    # Dataclasses and pickle look the module up by its name.
    registered = sys.modules.setdefault(module.__name__, module)
    try:
        with redirect_stdout(sys.stderr):
            spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        if registered is module:
            del sys.modules[module.__name__]
        raise _failed(file, "cannot be imported", error, "run it with Python first") from error
    build: Build | None = getattr(module, name, None)
    if not callable(build):
        names = [key for key, value in vars(module).items() if callable(value) and key[0] != "_"]
        raise KoriskError(f"{file} has no function {name!r}{did_you_mean(name, names)}")
    return build, {key: getattr(module, key) for key in _DATA if hasattr(module, key)}


@contextmanager
def failures_named(place: str | None) -> Iterator[None]:
    """Report errors of the user's network as one line; what it prints goes to stderr."""
    try:
        with redirect_stdout(sys.stderr):  # so that the output of --json stays valid
            yield
    except (KoriskError, MemoryError, OSError):  # not the network's fault; app.run explains them
        raise
    except (Exception, SystemExit) as error:
        if place is None or not _in_network(error, Path(place.rpartition(":")[0])):
            raise
        raise _failed(place, "failed", error, "try it in Python first") from error


def _in_network(error: BaseException, file: Path) -> bool:
    """Whether an error passed through the user's code or through a module that is not korisk's."""
    folder = file.resolve().parent
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if folder in Path(frame.f_code.co_filename).parents:
            return True
        module = type(frame.f_locals.get("self")).__module__
        if frame.f_code.co_name == "_call_impl" and not module.startswith("korisk."):
            return True
    return False


def _failed(place: str | Path, what: str, error: BaseException, remedy: str) -> KoriskError:
    return KoriskError(f"--network {place} {what}: {raised(error)}; {remedy}")

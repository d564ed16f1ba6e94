"""Studies as YAML: a problem at several points, models, training set sizes and seeds."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path

from korisk import _checks
from korisk._json import JsonDict, JsonMapping
from korisk.errors import KoriskError, MissingExtraError, raised
from korisk.files import parse, read_yaml
from korisk.store.cells import Task
from korisk.studies.spec.entries import PROTOCOLS as PROTOCOLS
from korisk.studies.spec.entries import Protocol as Protocol
from korisk.studies.spec.kind import Kind, found_at
from korisk.studies.spec.registry import kind_named


class Study:
    """A checked study.

    Parameters
    ----------
    content : dict
        The keys of a study file, docs/reference/study.md.
    source : object, default "the study"
        Name of the study in error messages, such as the path of the file.
    ran : bool, default False
        Whether it ran before; then the values of the problem are not checked again.
    folder : Path, optional
        The folder to which paths of images are relative.

    Attributes
    ----------
    name : str
        The study's name.
    tasks : tuple of Task
        Its cells.
    content : dict
        The keys that were given, with absolute paths.

    Raises
    ------
    KoriskError
        If a key or a value is wrong.

    Examples
    --------
    >>> from korisk.studies import Study
    >>> problem = {"kind": "pde", "points": 8}
    >>> study = Study({"name": "heat", "problem": problem, "points": [{"name": "a"}],
    ...                "sizes": [4, 16], "seeds": [1, 2]})
    >>> study.name, [task.key for task in study.tasks]
    ('heat', ['a, seed 1', 'a, seed 2'])
    """

    def __init__(
        self,
        content: JsonDict,
        *,
        source: object = "the study",
        ran: bool = False,
        folder: Path | None = None,
    ) -> None:
        problem = content.get("problem")
        try:
            kind = kind_named(problem.get("kind", "ct") if isinstance(problem, Mapping) else "ct")
        except MissingExtraError:
            raise
        except KoriskError as error:
            raise KoriskError(f"{source}: {error}") from None
        entry = parse(kind.study, content, source=source)
        # Paths in a file are relative to its folder; stored ones are absolute.
        images = getattr(entry.problem, "images", None)
        if folder is not None and images is not None:
            paths = {key: str((folder / path).resolve()) for key, path in found_at(images).items()}
            updated = entry.problem.model_copy(update={"images": images.model_copy(update=paths)})
            entry = entry.model_copy(update={"problem": updated})
        try:
            self.name = _checks.name("name", entry.name, remedy="give the study a short name")
            if len(set(entry.seeds)) < len(entry.seeds):
                raise KoriskError(f"seeds must differ, got {entry.seeds}; name each once")
            points: dict[str, JsonDict] = {}
            for point in entry.points:
                if not ran:
                    kind.check_keys(entry.problem, point)
                title, spec = kind.point(entry, point)
                remedy = "give the point a short name"
                name = title if point.name is None else point.name
                if points.setdefault(_checks.name("point", name, remedy=remedy), spec) is not spec:
                    reason = f"points must differ in name, got {name!r} twice"
                    raise KoriskError(f"{reason}; give name: to one")
            for spec in () if ran else points.values():
                _check_values(kind, spec, entry.seeds)
        except KoriskError as error:
            raise KoriskError(f"{source}: {error}") from None
        except Exception as error:
            if type(kind).__module__.startswith("korisk."):
                raise
            # Of the user's code, or of a value in the study that it takes.
            problem = f"{source}: kind {kind.name!r} failed: {raised(error)}"
            raise KoriskError(f"{problem}; correct it, or the study") from error
        self.tasks = tuple(
            Task(point=name, seed=seed, spec=spec)
            for name, spec in points.items()
            for seed in entry.seeds
        )
        # Without defaults, so that a study stays the same when a default is written out or added.
        self.content = entry.model_dump(mode="json", exclude_unset=True)

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Study:
        """The study of a YAML file.

        Parameters
        ----------
        path : str or path
            The file; paths in it are relative to its folder.

        Returns
        -------
        Study
            The checked study.

        Raises
        ------
        KoriskError
            If the file cannot be read, or a key or a value is wrong.

        Examples
        --------
        >>> from pathlib import Path
        >>> from korisk.studies import Study
        >>> text = "{name: mine, problem: {kind: pde, points: 8}, points: [{name: a}], seeds: [1]}"
        >>> _ = Path("study.yaml").write_text(text)
        >>> Study.read("study.yaml").name
        'mine'
        """
        content = read_yaml(path)
        if not isinstance(content, dict):
            problem = f"{path} must have keys such as name and points"
            raise KoriskError(f"{problem}; see docs/reference/study.md")
        return cls(content, source=path, folder=Path(path).parent)


def asked_for(study: JsonMapping) -> list[Task] | None:
    """The cells of a store's study; None if its description is not a study file."""
    try:
        # A pilot has no points: its report need not load PyTorch, which reading a study does.
        contents = [entry for entry in study.get("studies", [study]) if "points" in entry]
        return [task for content in contents for task in Study(content, ran=True).tasks]
    except (KoriskError, TypeError, AttributeError):
        return None


def _check_values(kind: Kind, spec: JsonDict, seeds: list[int]) -> None:
    """Build the problem and the fits once, so that wrong values are reported before a run."""
    from korisk.images import image_pools
    from korisk.studies.run.fits import fit_of

    problem, settings = kind.problem(spec), spec["problem"]
    # Problems with the user's images are checked by reading them, below.
    if "images" not in settings:
        kind.check(settings, problem)
    for model, fitted in spec["models"].items():
        fit_of(model, fitted).check(fitted, settings.get("side", 0))
    if "images" in settings:
        images = problem.source.read(settings["side"])  # type: ignore[attr-defined]
        # Splits depend on the seed, and some may leave too few patients.
        for seed in seeds:  # raises if there are too few
            image_pools(images, seed=seed, train=spec["sizes"][-1], **spec["pools"])
        # Part of the spec: other images in the same folder would be another study.
        settings["images"]["fingerprint"] = images.fingerprint

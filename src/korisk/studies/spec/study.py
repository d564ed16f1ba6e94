"""Studies as YAML: a problem at several points, models, training set sizes and seeds."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from korisk import _checks
from korisk.errors import KoriskError, did_you_mean, shown
from korisk.files import parse, read_yaml
from korisk.store.cells import Task
from korisk.studies.spec import kinds
from korisk.studies.spec.kinds import OF_GRADIENT, entries, source_of
from korisk.studies.spec.kinds import PROTOCOLS as PROTOCOLS
from korisk.studies.spec.kinds import Protocol as Protocol

if TYPE_CHECKING:
    from korisk.problems import Problem

# By the kind of problem: the keys of its files, the spec of a point, the problem of a spec.
KINDS: dict[str, tuple[Any, Any, Any]] = {
    "ct": (kinds.CtStudyEntry, kinds.ct_point, kinds.ct_problem),
    "mri": (kinds.MriStudyEntry, kinds.mri_point, kinds.mri_problem),
    "blur": (kinds.BlurStudyEntry, kinds.blur_point, kinds.blur_problem),
    "heat": (kinds.HeatStudyEntry, kinds.heat_point, kinds.heat_problem),
    "deep": (kinds.DeepStudyEntry, kinds.deep_point, kinds.deep_problem),
}


class Study:
    """A study whose file was checked.

    Parameters
    ----------
    content : dict
        The keys of a study file, docs/reference/study.md.
    source : object, default "the study"
        What error messages call it, such as the path of the file.
    ran : bool, default False
        Whether it ran before; then the values of the problem are not checked again, which needs
        PyTorch.
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
    >>> problem = {"kind": "heat", "points": 8}
    >>> study = Study({"name": "heat", "problem": problem, "points": [{"name": "a"}],
    ...                "sizes": [4, 16], "seeds": [1, 2]})
    >>> study.name, [task.key for task in study.tasks]
    ('heat', ['a, seed 1', 'a, seed 2'])
    """

    def __init__(
        self,
        content: dict[str, Any],
        *,
        source: object = "the study",
        ran: bool = False,
        folder: Path | None = None,
    ) -> None:
        problem = content.get("problem")
        kind = problem.get("kind", "ct") if isinstance(problem, Mapping) else "ct"
        if not isinstance(kind, str) or kind not in KINDS:
            hint = did_you_mean(str(kind), KINDS)
            raise KoriskError(f"{source}: there is no problem of kind {shown(kind)}{hint}")
        model, point_of, _ = KINDS[kind]
        entry = parse(model, content, source=source)
        images = getattr(entry.problem, "images", None)
        if folder is not None and images is not None:
            paths = {key: str((folder / path).resolve()) for key, path in images.found_at.items()}
            found = entry.problem.model_copy(update={"images": images.model_copy(update=paths)})
            entry = entry.model_copy(update={"problem": found})
        try:
            self.name = _checks.name("name", entry.name, remedy="give the study a short name")
            if len(set(entry.seeds)) < len(entry.seeds):
                raise KoriskError(f"seeds must differ, got {entry.seeds}; name each once")
            points: dict[str, dict[str, Any]] = {}
            for part in entry.points:
                name, spec = point_of(entry, part)
                remedy = "give the point a short name"
                name = name if part.name is None else part.name
                if points.setdefault(_checks.name("point", name, remedy=remedy), spec) is not spec:
                    raise KoriskError(
                        f"points must differ in name, got {name!r} twice; give name: to one"
                    )
            for spec in () if ran else points.values():
                _check_values(spec, entry.seeds)
        except KoriskError as error:
            raise KoriskError(f"{source}: {error}") from None
        self.tasks = tuple(
            Task(point=name, seed=seed, spec=spec)
            for name, spec in points.items()
            for seed in entry.seeds
        )
        # Without defaults: a study that names one would be another study.
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
        >>> text = "{name: mine, problem: {kind: heat, points: 8}, points: [{name: a}], seeds: [1]}"
        >>> _ = Path("study.yaml").write_text(text)
        >>> Study.read("study.yaml").name
        'mine'
        """
        content = read_yaml(path)
        if not isinstance(content, dict):
            raise KoriskError(
                f"{path} must have keys such as name and points; see docs/reference/study.md"
            )
        return cls(content, source=path, folder=Path(path).parent)


def asked_for(study: Mapping[str, Any]) -> list[Task] | None:
    """The cells that a store's study asked for; None if its description is not a study file."""
    parts = study.get("studies", [study])
    try:
        return [task for part in parts for task in Study(part, ran=True).tasks]
    except (KoriskError, TypeError, AttributeError):
        return None


def problem_of(spec: Mapping[str, Any]) -> Problem:
    """The problem that a cell of this spec works on."""
    problem: Problem = KINDS[spec["problem"]["kind"]][2](spec)
    return problem


def _check_values(spec: dict[str, Any], seeds: list[int]) -> None:
    """Build what the cells will build, so that wrong values are reported before anything runs."""
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError:
        return  # nothing can run without it
    import numpy as np

    from korisk.fitting import Recipe
    from korisk.images import image_pools
    from korisk.networks.zoo import check_dense, check_halved
    from korisk.problems import FileSource

    made, problem = problem_of(spec), spec["problem"]
    if problem["kind"] in ("mri", "blur", "heat") and "images" not in problem:  # where it is cheap
        with np.errstate(all="ignore"):
            drawn = made.pools(seed=0, train=0, validation=0, test=1).test
        if not all(bool(values.square().sum().isfinite()) for values in drawn):
            raise KoriskError("a sample of this problem is not finite; use smaller numbers")
    known = spec["models"].get("KO")
    if known is not None and known.get("fit", "gradient") == "gradient":
        Recipe(**{name: known[name] for name in OF_GRADIENT})  # raises for wrong values
    side, (outputs, inputs) = problem.get("side", 0), entries(problem)
    for settings in spec["models"].values():
        if "levels" in settings:
            check_halved((side, side), settings["levels"])
        if settings.get("kind") == "dense-unet":
            check_dense(inputs, outputs)
    if problem.get("population") == "released-surrogate" and spec["sizes"][-1] > 128:
        raise KoriskError(
            f"sizes must be at most 128 under the released protocol, got {spec['sizes'][-1]}"
        )
    if "images" in problem:
        source = source_of(spec)
        assert isinstance(source, FileSource)
        images = source.read(problem["side"])
        for seed in seeds:  # raises if there are too few
            image_pools(images, seed=seed, train=spec["sizes"][-1], **spec["pools"])
        problem["images"]["fingerprint"] = images.fingerprint

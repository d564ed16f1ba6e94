"""Studies as YAML: a problem at several points, models, training set sizes and seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from korisk import _checks
from korisk.errors import KoriskError, did_you_mean, shown
from korisk.files import parse, read_yaml
from korisk.studies.result import Task
from korisk.studies.spec.ct_points import CtStudyEntry, ct_point
from korisk.studies.spec.entries import LARGEST_SIZE, MOST_SEEDS, OF_GRADIENT, is_table
from korisk.studies.spec.entries import PROTOCOLS as PROTOCOLS
from korisk.studies.spec.entries import Protocol as Protocol
from korisk.studies.spec.other_points import (
    DeepStudyEntry,
    HeatStudyEntry,
    MriStudyEntry,
    deep_point,
    heat_point,
    mri_point,
)

_MOST_ITERATIONS, _MOST_BATCH = 10**7, 10**5


class _Kind(NamedTuple):
    """A kind of problem: the keys of its files, and what makes a point of them."""

    entry: type[Any]
    point: Callable[[Any, Any], tuple[str, dict[str, Any]]]


_KINDS = {
    "ct": _Kind(CtStudyEntry, ct_point),
    "mri": _Kind(MriStudyEntry, mri_point),
    "heat": _Kind(HeatStudyEntry, heat_point),
    "deep": _Kind(DeepStudyEntry, deep_point),
}
KINDS = tuple(_KINDS)


class Study:
    """A study that was checked: its name, what it says, and the cells it consists of.

    `content` has the keys of a study's file, docs/reference/study.md; `tasks` are its cells.
    `source` is what messages call it. What it does not say rightly raises `KoriskError`.

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
        """`ran` says that it ran before: what a scanner can be is not asked again, nor PyTorch.

        Paths of images are relative to `folder`, that of the study's file, and kept whole.
        """
        kind = _kind(content, source)
        entry = parse(kind.entry, _with_whole_path(content, folder), source=source)
        try:
            self.name = _checks.name("name", entry.name, remedy="give the study a short name")
            points = _points(entry, kind)
            if not ran:
                for _, spec in points:
                    _check_values(spec, entry.seeds)
        except KoriskError as error:
            raise KoriskError(f"{source}: {error}") from None
        self.tasks = tuple(
            Task(point=name, seed=seed, spec=spec) for name, spec in points for seed in entry.seeds
        )
        # Without what was left out: that a default was written would be another study.
        self.content = entry.model_dump(mode="json", exclude_unset=True)

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Study:
        """The study that a YAML file describes."""
        content = read_yaml(path)
        if not isinstance(content, dict):
            raise KoriskError(
                f"{path} must hold keys such as name and points; see docs/reference/study.md"
            )
        return cls(content, source=path, folder=Path(path).parent)


def asked_for(study: Mapping[str, Any]) -> list[Task] | None:
    """The cells that a store's study asked for; None where it does not tell."""
    parts = study.get("studies", [study])
    try:
        return [task for part in parts for task in Study(part, ran=True).tasks]
    except (KoriskError, TypeError, AttributeError):
        return None  # made by a program of someone's own


def _kind(content: Mapping[str, Any], source: object) -> _Kind:
    problem = content.get("problem")
    word = problem.get("kind", "ct") if isinstance(problem, Mapping) else "ct"
    if not isinstance(word, str) or word not in _KINDS:
        hint = did_you_mean(str(word), KINDS)
        raise KoriskError(f"{source}: there is no problem of kind {shown(word)}{hint}")
    return _KINDS[word]


def _with_whole_path(content: dict[str, Any], folder: Path | None) -> dict[str, Any]:
    problem = content.get("problem")
    images = problem.get("images") if isinstance(problem, dict) else None
    path = images.get("path") if isinstance(images, dict) else None
    if folder is None or not isinstance(path, str) or not path:
        return content
    assert isinstance(problem, dict)
    assert isinstance(images, dict)
    whole = {**images, "path": str((folder / path).resolve())}
    table = images.get("patients")
    if isinstance(table, str) and is_table(table):
        whole["patients"] = str((folder / table).resolve())
    return {**content, "problem": {**problem, "images": whole}}


def _points(entry: Any, kind: _Kind) -> list[tuple[str, dict[str, Any]]]:
    _check_seeds(entry.seeds)
    if not entry.points:
        raise KoriskError("points must name at least one operating point, got none; add one")
    made = []
    for part in entry.points:
        name, spec = kind.point(entry, part)
        name = name if part.name is None else part.name
        remedy = "give the point a short name"
        made.append((_checks.name("point", name, remedy=remedy), spec))
    twice = [name for name, times in Counter(name for name, _ in made).items() if times > 1]
    if twice:
        raise KoriskError(f"points must differ in name, got {twice[0]!r} twice; give name: to one")
    return made


def _check_seeds(given: list[int]) -> None:
    if not given or len(given) > MOST_SEEDS:
        raise KoriskError(f"seeds must be from 1 to {MOST_SEEDS:,} numbers, got {len(given)}")
    for seed in given:
        _checks.count("seeds", seed, at_least=0, at_most=2**31, remedy="give whole numbers")
    if len(set(given)) < len(given):
        raise KoriskError(f"seeds must differ, got {given}; name each once")


def _check_values(spec: dict[str, Any], seeds: list[int]) -> None:
    """Make what cells will make, so that wrong values are said before anything runs."""
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError:
        return  # nothing can run without it anyway
    from korisk.fitting import Recipe
    from korisk.studies.spec.problem_of import fingerprinted, problem_of, try_out

    try_out(problem_of(spec))
    known = spec["models"].get("KO")
    if known is not None and known.get("fit", "gradient") == "gradient":
        recipe = Recipe(**{name: known[name] for name in OF_GRADIENT})
        for name, most in (("iterations", _MOST_ITERATIONS), ("batch", _MOST_BATCH)):
            if getattr(recipe, name) > most:
                raise KoriskError(f"models.KO.{name} must be at most {most:,}, got {known[name]}")
    most = {"released-surrogate": 128}.get(spec["problem"].get("population"), LARGEST_SIZE)
    if spec["sizes"][-1] > most:
        raise KoriskError(
            f"sizes must be at most {most} under the released protocol, got {spec['sizes'][-1]}"
        )
    fingerprinted(spec, seeds)

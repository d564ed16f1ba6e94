"""Kinds by their names: those of korisk, and those of files and modules that a user names.

Those of korisk are imported with the first study, since they need PyTorch.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from korisk._json import JsonMapping
from korisk.errors import KoriskError, did_you_mean, shown
from korisk.studies.spec.kind import KINDS, Kind

if TYPE_CHECKING:
    from korisk.problems import Problem

FROM_OUTSIDE = "KORISK_KINDS"  # modules and files to import, as in PATH


def kinds() -> dict[str, Kind]:
    """All registered kinds by name."""
    from korisk.studies.spec import ct, imaging, pde  # noqa: F401 (registers them)

    return KINDS


def kind_named(name: object) -> Kind:
    """The kind of this name; modules in `KORISK_KINDS` are imported if it is unknown."""
    known = kinds()
    if isinstance(name, str) and name not in known:
        # Imported only for an unknown kind: users' files may be slow to import, or broken.
        _import_listed(filter(None, os.environ.get(FROM_OUTSIDE, "").split(os.pathsep)))
    if not isinstance(name, str) or name not in known:
        hint = did_you_mean(str(name), known)
        problem = f"there is no problem of kind {shown(name)}{hint}"
        raise KoriskError(f"{problem}; {FROM_OUTSIDE} must name the files of others")
    return known[name]


def problem_of(spec: JsonMapping) -> Problem:
    """The problem of a cell with this spec."""
    return kind_named(spec["problem"]["kind"]).problem(spec)


def classes_for(specs: Iterable[JsonMapping]) -> tuple[type, ...]:
    """The registered classes of these specs; a worker that unpickles them imports their modules."""
    return tuple({type(kind_named(spec["problem"]["kind"])): None for spec in specs})


def _import_listed(places: Iterable[str]) -> None:
    """Import modules by their names, or files by their paths."""
    for place in places:
        path = Path(place)
        is_file = path.suffix == ".py"
        if is_file and not path.is_file():
            raise KoriskError(f"{FROM_OUTSIDE}: {place}: no such file; check the path")
        if is_file and (folder := str(path.resolve().parent)) not in sys.path:
            sys.path.insert(0, folder)  # workers inherit it
        try:
            module = import_module(path.stem if is_file else place)
        except Exception as error:
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
            remedy = "correct it"
            if isinstance(error, ModuleNotFoundError) and error.name == place.partition(".")[0]:
                remedy = "name a module that Python finds, or a file that ends in .py"
            problem = f"{FROM_OUTSIDE}: {place} cannot be imported: {reason}; {remedy}"
            raise KoriskError(problem) from error
        # Python caches modules by name: a file may be hidden by another module.
        if is_file and Path(module.__file__ or "").resolve() != path.resolve():
            clash = f"{FROM_OUTSIDE}: another module is called {path.stem}"
            raise KoriskError(f"{clash}; rename {place}")

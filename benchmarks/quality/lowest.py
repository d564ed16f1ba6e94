"""The lowest versions that pyproject.toml allows of everything for users, as constraints for pip.

    python -m benchmarks.quality.lowest

`make lowest` runs the tests with them.
"""

import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


def lowest(*extras: str) -> Iterator[str]:
    """The core's dependencies and those of extras, each at its lowest."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    also = (need for name in extras for need in project["optional-dependencies"][name])
    for need in map(Requirement, (*project["dependencies"], *also)):
        if need.name != project["name"]:  # an extra that includes another
            yield f"{need.name}=={next(iter(need.specifier)).version}"


if __name__ == "__main__":
    print("\n".join(lowest("report", "torch", "dask", "io", "mri")))

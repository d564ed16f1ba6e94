"""Learning curves before a scan is made: networks trained on simulated pairs.

Start reading at `rehearsal`: `rehearse` simulates pairs, trains or fits networks on them, and
returns a `Rehearsal`. `law` is the distribution of the error on real images at any N, from a
rehearsal with its `misfit` and a pilot. `study` rehearses every point of a study, with its JSON
file (`record`); `answer` puts a point into words. docs/explanation/rehearse.md explains it.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from korisk.prediction.rehearsal.callbacks import Callbacks
    from korisk.prediction.rehearsal.simulation import Training
    from korisk.prediction.study import rehearse_study

_MODULES = {
    "Callbacks": "rehearsal.callbacks",
    "Training": "rehearsal.simulation",
    "rehearse_study": "study",
}
__all__ = ["Callbacks", "Training", "rehearse_study"]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: some import PyTorch, all SciPy."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name in ("Training", "rehearse_study"):
        import_module("korisk.operators")  # says what to install where PyTorch is missing
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)

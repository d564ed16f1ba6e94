"""Learning curves predicted before training, from the operator, the images and the noise.

Start reading at `api`: `predict_dense` and `predict_structured` check a user's inputs, compute a
theory from examples (`dense` for a dense layer, `weights` for learned weights in front of known
operators; `lanczos` serves both), and return a `Prediction` (`prediction`), which a rehearsal and
a pilot correct (`misfit`). `pair` compares two predictions, and `study` predicts every point of a
study, with its JSON file. `rehearsal` trains any network on simulated pairs.
docs/explanation/predict.md derives the formulas.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from korisk.prediction.api import predict_dense, predict_structured
    from korisk.prediction.prediction import Prediction
    from korisk.prediction.rehearsal.callbacks import Callbacks
    from korisk.prediction.rehearsal.simulation import Training
    from korisk.prediction.study import predict_study

_MODULES = {
    "Callbacks": "rehearsal.callbacks",
    "Prediction": "prediction",
    "Training": "rehearsal.simulation",
    "predict_dense": "api",
    "predict_structured": "api",
    "predict_study": "study",
}
__all__ = [
    "Callbacks",
    "Prediction",
    "Training",
    "predict_dense",
    "predict_structured",
    "predict_study",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: `api` imports PyTorch, `prediction` SciPy."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name not in ("Callbacks", "Prediction", "predict_study"):
        import_module("korisk.operators")  # says what to install where PyTorch is missing
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)

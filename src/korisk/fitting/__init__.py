"""Fits: dense layers in dual form, diagonal layers in closed form, anything by gradients."""

try:
    import torch  # noqa: F401
except ModuleNotFoundError as missing:
    from korisk.errors import MissingExtraError

    lack = "korisk.fitting needs PyTorch, which is not installed"
    raise MissingExtraError(f"{lack}; pip install 'korisk[torch]'") from missing

from korisk.fitting.gradient.recipe import Recipe, Training, draw_batches
from korisk.fitting.gradient.train import train
from korisk.fitting.ridge.choice import Choice, Scorer
from korisk.fitting.ridge.dense import DenseFit, DenseRidge, DenseTraining
from korisk.fitting.ridge.diagonal import DiagonalFit, DiagonalRidge, DiagonalTraining, tail_gram
from korisk.fitting.ridge.refinement import Refined, refine

__all__ = [
    "Choice",
    "DenseFit",
    "DenseRidge",
    "DenseTraining",
    "DiagonalFit",
    "DiagonalRidge",
    "DiagonalTraining",
    "Recipe",
    "Refined",
    "Scorer",
    "Training",
    "draw_batches",
    "refine",
    "tail_gram",
    "train",
]

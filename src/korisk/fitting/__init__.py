"""Fits: dense layers in dual form, diagonal layers in closed form, anything by gradients."""

from korisk.errors import needed_by

with needed_by("korisk.fitting", "PyTorch", "'korisk[torch]'"):
    import torch  # noqa: F401

from korisk.fitting.gradient.recipe import Recipe, draw_batches
from korisk.fitting.gradient.train import train
from korisk.fitting.ridge.choice import Choice, Scorer
from korisk.fitting.ridge.dense import DenseFit, DenseRidge, DenseTraining
from korisk.fitting.ridge.diagonal import DiagonalFit, DiagonalRidge, DiagonalTraining, tail_gram
from korisk.fitting.ridge.refinement import Refined, refine

__all__ = ["Choice", "DenseFit", "DenseRidge", "DenseTraining"]
__all__ += ["DiagonalFit", "DiagonalRidge", "DiagonalTraining", "tail_gram"]
__all__ += ["Recipe", "Refined", "Scorer", "draw_batches", "refine", "train"]

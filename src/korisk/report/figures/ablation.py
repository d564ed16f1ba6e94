"""Figure of an ablation: both curves, the target, and the two sample sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from korisk.report.figures.pilot import comparison_figure

if TYPE_CHECKING:
    from korisk.ablation.ablation import Ablation


def ablation_figure(ablation: Ablation, *, ax: Axes | None = None) -> Figure:
    """Draw the curves of a network with a known layer and with it replaced, and what it saves."""
    comparison = ablation.comparison
    first, second = comparison.names
    saved = f"samples of {second} over those of {first}: {comparison.ratio_words()}"
    return comparison_figure(comparison, notes=[saved, ablation.bound_sentence], ax=ax)

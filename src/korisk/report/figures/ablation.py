"""Figure of an ablation: both curves, the target, and the two sample sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from korisk.report.figures.pilot import comparison_figure

if TYPE_CHECKING:
    from korisk.ablation.ablation import Ablation


def ablation_figure(ablation: Ablation, *, ax: Axes | None = None) -> Figure:
    """Draw the curves of a network with a known layer and with it replaced, and what it saves.

    Parameters
    ----------
    ablation : Ablation
        What `kr.ablate` returns.
    ax : matplotlib.axes.Axes, optional
        Draw into these, without the notes.

    Returns
    -------
    matplotlib.figure.Figure
        The figure, 6.3 inches wide; `savefig` writes it.

    Examples
    --------
    >>> import torch
    >>> import korisk as kr
    >>> from korisk.operators import ParallelBeam, Projector, fbp
    >>> from korisk.report.figures.ablation import ablation_figure
    >>> scan = ParallelBeam(8, views=6, bins=12)
    >>> A = Projector(scan)
    >>> result = kr.ablate(lambda: torch.nn.Sequential(fbp(scan, trainable=True)), A, noise=0.05,
    ...                    sizes=[4, 8, 16], seeds=2, bound=False,
    ...                    training=kr.prediction.Training(steps=50))
    >>> ablation_figure(result).axes[0].get_title(loc="left")
    'known Aᵀ against dense Aᵀ'
    """
    comparison = ablation.comparison
    first, second = comparison.names
    saved = f"samples of {second} over those of {first}: {comparison.ratio_words()}"
    return comparison_figure(comparison, notes=[saved, ablation.bound_sentence], ax=ax)

"""Figure of networks: amplification and part of the bound of each layer."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from korisk import theory
from korisk.report.figures import panels, style
from korisk.report.figures.panels import Array, Entry
from korisk.report.figures.style import DARK, LOOKS, Options
from korisk.studies.networks import TitledNetwork
from korisk.theory import Layer, Learned

BOUND: Options = {"markersize": 3.4, "markeredgewidth": 0.8, "linewidth": 1.0}
BOUND |= {"markerfacecolor": "white"}
# Names, colours and marks of the forms of the bound.
FORMS: Mapping[theory.BoundForm, tuple[str, Options]] = {
    "paper": ("paper", panels.paper_style(LOOKS[1].colour) | {"marker": "s"}),
    "minkowski": ("Minkowski", panels.paper_style(LOOKS[0].colour) | {"marker": "^"}),
    "composed": ("composed", panels.paper_style(DARK) | {"marker": "o"}),
}

_FEW_LAYERS = 8  # with more layers, those that add nothing are left out
_SHIFT = {"paper": -0.26, "minkowski": 0.0, "composed": 0.26}  # marks of a layer side by side


def layers_figure(networks: Sequence[TitledNetwork], *, narrow: bool = False) -> Figure | None:
    """Draw a row for each network: A_l of every layer, and its contribution to the bound at N.

    If `narrow`, the panels stand above each other. N is the smallest of the networks' largest
    sizes. Networks with unknown constants are left out; None if no other was trained.
    """
    bounded = [entry for entry in networks if not np.isinf(entry.network.amplification()).any()]
    # The largest N up to which all of them were trained.
    n = min((entry.last for entry in bounded if entry.last is not None), default=None)
    if n is None:
        return None
    unit = "squared error with C = 0 and kappa = 1 where a calibration gives no constants"
    if all(entry.calibrated for entry in bounded):
        unit = "mse: C and kappa are such that the composed bound is the calibrated line"
    note = f"Bounds and their parts are in {unit}. Names: learned layers in green, known in grey."
    entries: list[Entry] = [(panels.line(**_mark(form)), FORMS[form][0]) for form in theory.BOUNDS]
    margins = (0.62, 0.14, 0.42, 0.46 if narrow else 0.40)
    with style.settings(fine=True):
        figure, frames = panels.sheet(
            2 * len(bounded), entries, [note], margins=margins, height=1.75, across=2, narrow=narrow
        )
        for row, entry in enumerate(bounded):
            first, second = frames[2 * row : 2 * row + 2]
            net = entry.network
            parts = {form: theory.barron_bound(net, n, bound=form).contributions for form in FORMS}
            totals = {FORMS[form][0]: style.digits(float(v.sum()), 2) for form, v in parts.items()}
            if narrow:
                name, _, scan = entry.title.partition(": ")
                panels.head(first, name, scan)
            else:
                panels.head(first, entry.title, room=style.PAGE / 2 - 0.1, lift=10)
            # Known layers add nothing to the bound; in deep networks they are left out.
            nonzero = np.flatnonzero(parts["composed"])
            layers = nonzero if len(net) > _FEW_LAYERS and nonzero.size else np.arange(len(net))
            factors = {form: net.amplification(form) for form in theory.BOUNDS}
            for axes, series, gid in ((first, factors, "A"), (second, parts, "contribution")):
                drawn = {form: values[layers] for form, values in series.items()}
                _draw_layers(axes, [net.layers[index] for index in layers], drawn, gid)
                if len(layers) < len(net):
                    axes.set_xlabel("layer that adds to the bound, input side first")
            caption = f"N = {n:,}. Bound: {', '.join(map(' '.join, totals.items()))}"
            panels.above(second, caption, 1, (0, 4), xycoords="axes fraction", ha="right")
        for column in (frames[::2], frames[1::2]):
            panels.share_heights(column, least=0)
        return figure


def _draw_layers(
    axes: Axes, layers: Sequence[Layer], series: Mapping[theory.BoundForm, Array], gid: str
) -> None:
    """Draw marks above the names of layers; a layer that adds nothing has the text 0."""
    count = len(layers)
    positive = {form: np.where(v > 0, v, np.nan) for form, v in series.items()}
    label = "amplification" if gid == "A" else "part of the bound"
    # Factors that leave space above and below the marks, also if all values are equal.
    height = panels.limits([f * v for v in positive.values() for f in (0.6, 1.6)])
    panels.frame(axes, (1, 2), height, labels=("layer, input side first", label))
    axes.set(xscale="linear", xlim=(-0.6, count - 0.4))
    axes.grid(visible=False, axis="x")
    pitch = panels.inches(axes)[0] / (count + 0.2)
    # Long names alternate between two lines.
    lines = 1 if all(style.inches_of(style.plain(layer.name)) <= pitch for layer in layers) else 2
    width = pitch if lines == 1 else min(2 * pitch - 0.04, 1.2 * pitch + 0.24)
    names = [
        "\n" * (lines - 1) * (index % 2) + style.fitted(layer.name, width)
        for index, layer in enumerate(layers)
    ]
    axes.set_xticks(range(count), names)
    for index, (text, layer) in enumerate(zip(axes.get_xticklabels(), layers, strict=True)):
        text.set_color(style.LEARNED_TEXT if isinstance(layer, Learned) else "#555555")
        if series["composed"][index] == 0:
            options: Options = {"ha": "center", "color": style.GREY, "fontsize": style.FINE}
            axes.text(index, 0.04, "0", transform=axes.get_xaxis_transform(), **options)
    for form, values in positive.items():
        positions = np.arange(count) + _SHIFT[form]
        axes.plot(positions, values, gid=f"{gid}-{form}", zorder=3, **_mark(form))


def _mark(form: theory.BoundForm) -> Options:
    return BOUND | FORMS[form][1] | {"linestyle": "none", "markersize": 4.2}

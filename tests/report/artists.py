"""What tests of figures read off their artists."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from korisk.report.figures.style import FINE, settings


def lines(figure: Figure, gid: str) -> list[Line2D]:
    return [each for axes in figure.axes for each in axes.lines if each.get_gid() == gid]


def line(figure: Figure, gid: str) -> Line2D:
    return lines(figure, gid)[0]


def data(found: Line2D) -> tuple[list[float], list[float]]:
    x, y = found.get_data()
    return np.asarray(x, float).tolist(), np.asarray(y, float).tolist()


def points(found: Line2D) -> list[tuple[float, float]]:
    return list(zip(*data(found), strict=True))


def texts(figure: Figure) -> list[Text]:
    return [text for text in figure.findobj(Text) if text.get_text().strip()]


def written(figure: Figure) -> str:
    return "\n".join(text.get_text() for text in texts(figure))


def check_page(figure: Figure, least: float = FINE) -> None:
    """No word leaves the page, or is too small to be read on it."""
    with settings():
        figure.draw_without_rendering()
    hidden = []  # labels of ticks that lie beyond their axis, which are not drawn
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
                if not axes.axison or not low <= tick.get_loc() <= high:
                    hidden += [tick.label1, tick.label2]
    for text in texts(figure):
        if text.get_visible() and text not in hidden:
            box = text.get_window_extent()
            assert box.x0 >= -1, text
            assert box.y0 >= -1, text
            assert box.x1 <= figure.bbox.x1 + 1, text
            assert box.y1 <= figure.bbox.y1 + 1, text
            assert float(text.get_fontsize()) >= least, text

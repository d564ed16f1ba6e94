"""The bound over N, read off the artists of its figure."""

import math
from pathlib import Path

import numpy as np
import pytest
from artists import check_page, data, line, lines, written
from commands import outputs
from matplotlib.figure import Figure

import korisk as kr
from korisk.report.figures.bound import bound_figure
from korisk.theory.budget import samples_needed

NET = kr.Network(
    [
        kr.Learned("W", parameters=7680, C=0.1, width=50),
        kr.Known("K", lipschitz=2.0),
        kr.Learned("B", parameters=50, lipschitz=1, C=1, width=9),
    ],
    name="a network",
)


def gids(figure: Figure) -> set[str]:
    return {str(artist.get_gid()) for artist in figure.findobj() if artist.get_gid()}


@pytest.mark.parametrize("form", kr.theory.BOUNDS)
def test_the_bound_the_floor_the_target_and_its_n_are_where_they_are(
    form: kr.theory.BoundForm,
) -> None:
    needed = samples_needed(NET, 0.6, bound=form)
    figure = bound_figure(NET, kr.barron_bound(NET, 500, bound=form), 0.6, needed)
    sizes, totals = data(line(figure, "bound"))
    expected = [kr.barron_bound(NET, n, bound=form) for n in sizes]
    assert totals == pytest.approx([bound.total for bound in expected])
    assert set(data(line(figure, "floor"))[1]) == {expected[0].floor}
    assert set(data(line(figure, "target"))[1]) == {0.6}
    assert data(line(figure, "at")) == ([500], [kr.barron_bound(NET, 500, bound=form).total])
    ((n,), (height,)) = data(line(figure, "answer"))
    assert n == needed
    assert height <= 0.6 <= totals[np.searchsorted(sizes, n) - 1]
    assert totals[-1] < 1.2 * expected[0].floor  # so far that the floor is seen to be one
    for words in (f"{n:,.0f}", "target", "floor", "0.6"):
        assert words in written(figure)
    check_page(figure)


def test_a_target_that_no_n_meets_is_drawn_without_a_mark() -> None:
    figure = bound_figure(NET, kr.barron_bound(NET, 1000), 1e-6, None)
    assert lines(figure, "target")
    assert "answer" not in gids(figure)
    assert "unreachable" in written(figure)
    check_page(figure)


@pytest.mark.parametrize("target", [1e-290, 1e3, None])
def test_extreme_targets_are_drawn_too(target: float | None) -> None:
    net = kr.Network([kr.Learned("W", parameters=3), kr.Known("K", lipschitz=1.0)])
    needed = None if target is None else samples_needed(net, target)
    figure = bound_figure(net, kr.barron_bound(net, needed or 1000), target, needed)
    low, high = figure.axes[0].get_ylim()
    assert 0 < low < high < math.inf
    assert "floor" not in gids(figure)
    check_page(figure)


def test_the_command_draws_the_bound(tmp_path: Path) -> None:
    path, plot = tmp_path / "net.yaml", tmp_path / "bound.svg"
    NET.write(path)
    assert str(plot) in outputs("bound", path, "--target", 0.6, "--plot", plot)[1]
    assert "a network" in plot.read_text()

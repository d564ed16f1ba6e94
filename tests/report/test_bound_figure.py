"""The bound over N, read off the artists of its figure."""

import math
from pathlib import Path

import numpy as np
import pytest
from artists import check_page, data, line, lines, written
from commands import outputs, refused
from matplotlib.figure import Figure

import korisk as kr
from korisk.report.figures.bound import overview_figure
from korisk.theory.overview import overview

NET = kr.Network(
    [
        *(kr.Learned("W", parameters=7680, effective=120.0, C=0.1, width=50),),
        *(kr.Known("K", lipschitz=2.0), kr.Learned("B", parameters=50, lipschitz=1, C=1, width=9)),
    ],
    name="a network",
)


def gids(figure: Figure) -> set[str]:
    return {str(each.get_gid()) for each in figure.findobj() if each.get_gid()}


@pytest.mark.parametrize("form", kr.theory.BOUNDS)
def test_the_bound_the_floor_the_target_and_its_n_are_where_they_are(
    form: kr.theory.BoundForm,
) -> None:
    figure = overview_figure(overview(NET, target=0.6, bound=form))
    name = f"{form} bound with p"
    sizes, totals = data(line(figure, f"bound-{name}"))
    expected = [kr.barron_bound(NET, n, bound=form) for n in sizes]
    assert totals == pytest.approx([bound.total for bound in expected])
    assert set(data(line(figure, f"floor-{name}"))[1]) == {expected[0].floor}
    assert set(data(line(figure, "target"))[1]) == {0.6}
    ((n,), (height,)) = data(line(figure, f"answer-{name}"))
    assert n == kr.sample_size(NET, 0.6, bound=form)
    assert height <= 0.6 <= totals[np.searchsorted(sizes, n) - 1]
    assert totals[-1] < 1.2 * expected[0].floor  # so far that the floor is seen to be one
    for words in (f"{n:,.0f}", "target", "floor", "0.6"):
        assert words in written(figure)
    check_page(figure)


def test_other_dimensions_and_a_replaced_layer_stand_beside_it() -> None:
    found = overview(NET, 500, 0.6, replace="B")
    figure = overview_figure(found)
    assert found.after is not None
    for name, total in (
        ("composed bound with p", found.chosen.total),
        ("composed bound, effective dimensions", found.other),
        ("composed bound with B known", found.after.chosen.total),
    ):
        assert data(line(figure, f"at-{name}")) == ([500], [total])
        assert name in written(figure)
    assert "at-composed bound with p" not in gids(overview_figure(overview(NET, target=0.6)))


def test_a_target_that_no_n_meets_is_drawn_without_a_mark() -> None:
    figure = overview_figure(overview(NET, target=1e-6))
    assert lines(figure, "target")
    assert not [gid for gid in gids(figure) if gid.startswith("answer")]
    assert "unreachable" in written(figure)
    check_page(figure)


@pytest.mark.parametrize("target", [1e-290, 1e3, None])
def test_extreme_targets_are_drawn_too(target: float | None) -> None:
    net = kr.Network([kr.Learned("W", parameters=3), kr.Known("K", lipschitz=1.0)])
    figure = overview_figure(overview(net, target=target))
    low, high = figure.axes[0].get_ylim()
    assert 0 < low < high < math.inf
    assert "floor-composed bound" not in gids(figure)
    check_page(figure)


def test_the_command_draws_the_bound_and_the_layers(tmp_path: Path) -> None:
    path, plot, diagram = (tmp_path / name for name in ("net.yaml", "bound.svg", "layers.svg"))
    NET.write(path)
    err = outputs("bound", path, "--target", 0.6, "--plot", plot, "--diagram", diagram)[1]
    assert str(plot) in err
    assert str(diagram) in err
    assert plot.read_text() != diagram.read_text()
    assert "suffix of a figure" in refused("bound", path, "--diagram", "x.gif")

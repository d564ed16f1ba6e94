"""One view of a network's bounds: its numbers, tables and sentences against the bounds alone."""

import math
from typing import Any

import pytest

import korisk as kr
from korisk.errors import UnreachableError
from korisk.texts import Table
from korisk.theory import BOUNDS, NormBracket, barron_bound
from korisk.theory.budget import samples_needed
from korisk.theory.overview import DEFAULT_N, Overview, overview

# Constants with short decimals, and a different one wherever two could be mistaken.
CALIBRATED = kr.Learned("W", parameters=100, C=1, width=50, kappa=0.5)
PLAIN = kr.Network(
    [
        CALIBRATED,
        kr.Known("K", lipschitz=2),
        kr.Learned("B", parameters=10, lipschitz=3),
        kr.Known("ReLU", lipschitz=1),
    ]
)
ESTIMATED = kr.Network(
    [
        kr.Learned("W", parameters=100, effective=20, C=1, width=50, kappa=0.5),
        kr.Known("K", lipschitz=2, mismatch=0.25),
        kr.Learned("B", parameters=10, lipschitz=3),
    ]
)
FACTS = ("total", "floor", "estimation")


def row_of(table: Table, name: str) -> list[str]:
    (cells,) = (row for row in table.rows if row[0] == name)
    return list(cells)


def sentence(text: str, start: str) -> str:
    (line,) = (line for line in text.splitlines() if line.startswith(start))
    return line


# --- The answer ----------------------------------------------------------------------------------


def test_without_a_target_nothing_is_asked() -> None:
    view = overview(PLAIN)
    assert (view.needed, view.reached, view.target) == (None, True, None)
    view.require()
    assert view.chosen.n == DEFAULT_N == 1000
    assert view.chosen.total == barron_bound(PLAIN, 1000).total
    assert "From N" not in view.explain()
    assert not {"target", "reachable", "samples", "samples_rest_on"} & view.to_dict().keys()


@pytest.mark.parametrize("form", BOUNDS)
def test_a_target_sets_n_by_the_requested_form(form: kr.theory.BoundForm) -> None:
    view = overview(PLAIN, target=6.0, bound=form)
    needed = samples_needed(PLAIN, 6.0, bound=form)
    assert view.needed == view.chosen.n == needed
    assert view.reached
    view.require()
    assert view.samples[False] == {
        other: samples_needed(PLAIN, 6.0, bound=other) for other in BOUNDS
    }
    assert view.samples[True] == {}
    content = view.to_dict()
    assert (content["bound"], content["n"], content["target"]) == (form, needed, 6.0)
    assert content["reachable"] is True
    assert content["samples"] == view.samples[False]


def test_a_target_below_the_floor_is_not_reached() -> None:
    # The composed floor is (2 * sqrt(1 / 50) * 3)^2 = 0.72; the paper's is 8 times as large.
    view = overview(PLAIN, target=0.7)
    assert (view.needed, view.reached) == (None, False)
    with pytest.raises(UnreachableError, match=r"the composed bound levels off at 0\.72"):
        view.require()
    assert view.chosen.n == DEFAULT_N
    assert view.to_dict()["reachable"] is False
    assert "From N" not in view.explain()
    between = overview(PLAIN, target=1.0)
    assert between.samples[False]["paper"] is None
    assert between.samples[False]["composed"] == samples_needed(PLAIN, 1.0)


def test_an_n_beyond_doubles_is_cut_where_the_rate_is_zero() -> None:
    net = kr.Network([kr.Learned("W", parameters=10**300, kappa=1e5)])
    view = overview(net, target=1e-5)
    assert view.needed is not None
    assert view.needed > 10**305
    assert view.chosen.n == 10**300
    # The answer to another question keeps its N.
    assert overview(net, 100, target=1e-5).chosen.n == 100


def test_an_unknown_form_and_a_missing_dimension_are_refused() -> None:
    with pytest.raises(kr.KoriskError, match="bound must be one of"):
        overview(PLAIN, bound="papper")
    with pytest.raises(kr.KoriskError, match="needs a learned layer that states its effective"):
        overview(PLAIN, effective=True)
    with pytest.raises(kr.KoriskError, match="target must be"):
        overview(PLAIN, target=-1)


def test_only_the_requested_form_may_lack_a_constant() -> None:
    layers = [kr.Learned("W", parameters=10), kr.Known("A"), kr.Known("B", lipschitz=1)]
    run = kr.theory.Composition("A", "B", lipschitz=2)
    net = kr.Network(layers, compositions=[run])
    view = overview(net, 100, target=3.0)
    assert view.bounds["paper"] is view.bounds["minkowski"] is None
    assert view.samples[False] == {
        "paper": None,
        "minkowski": None,
        "composed": samples_needed(net, 3.0),
    }
    assert "A dash: the file lacks a constant" in view.explain()
    content = view.to_dict()
    assert content["bounds"]["paper"] is content["bounds"]["minkowski"] is None
    assert content["bounds"]["composed"]["total"] == barron_bound(net, 100).total
    forms = [*view.tables()][-1]
    assert row_of(forms, "paper") == ["paper", "-", "-", "-", "-", "-"]
    assert row_of(forms, "composed")[4] == "1"  # the tightest of those that are there
    for target in (None, 3.0):
        with pytest.raises(kr.KoriskError, match="layer 'A': lipschitz has no upper end"):
            overview(net, 100, target=target, bound="paper")
    assert "A dash" not in overview(PLAIN).explain()


# --- Numbers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("effective", [False, True])
@pytest.mark.parametrize("form", BOUNDS)
def test_the_figures_are_those_of_the_bounds(form: kr.theory.BoundForm, effective: bool) -> None:
    content = overview(ESTIMATED, 200, 40.0, bound=form, effective=effective).to_dict()
    assert content["bound"] == form
    assert content["dimension"] == ("effective" if effective else "parameters")
    assert content["n"] == 200
    for prefix, estimate in (("", False), ("effective_", True)):
        for name in BOUNDS:
            bound = barron_bound(ESTIMATED, 200, bound=name, effective=estimate)
            for key in FACTS:
                expected = getattr(bound, key)
                assert content[f"{prefix}bounds"][name][key] == pytest.approx(expected, rel=1e-12)
            needed = samples_needed(ESTIMATED, 40.0, bound=name, effective=estimate)
            assert content[f"{prefix}samples"][name] == needed
        bound = barron_bound(ESTIMATED, 200, bound=form, effective=estimate)
        for index, row in enumerate(content["layers"]):
            assert row[f"{prefix}contribution"] == bound.contributions[index]
            assert row[f"{prefix}estimation"] == bound.estimations[index]
            assert row[f"{prefix}share"] == bound.whole.shares[index]
            assert row["approximation"] == bound.approximations[index]
            for name in BOUNDS:
                assert row["amplification"][name] == ESTIMATED.amplification(name)[index]


def test_a_layer_is_told_with_all_that_it_states() -> None:
    net = kr.Network(
        [
            kr.Learned("W", parameters=9, effective=4.5),
            kr.Learned("W (2)", parameters=9, shared=9, lipschitz=2, C=3),
            kr.Known("K", lipschitz=NormBracket(1, 2, how="Lanczos"), mismatch=0.5),
            kr.Known("ReLU", lipschitz=1),
        ],
        largest_slope=3.5,
    )
    content = overview(net).to_dict()
    keys = ("name", "kind", "takes", "parameters", "shared", "effective", "risk")
    assert [[row[key] for key in keys] for row in content["layers"]] == [
        ["W", "learned", ["input"], 9, 0, 4.5, "assumed"],
        ["W (2)", "learned", ["W"], 9, 9, None, "stated"],
        ["K", "known", ["W (2)"], 0, 0, None, "stated"],
        ["ReLU", "known", ["K"], 0, 0, None, "none"],
    ]
    bracket = content["layers"][2]["lipschitz"]
    assert bracket == {"lower": 1.0, "upper": 2.0, "how": "Lanczos", "whose": "stated"}
    assert content["lipschitz"] == {"upper": math.inf, "largest_slope": 3.5}
    assert content["network"] == net.to_dict()


@pytest.mark.parametrize(("n", "told", "kind"), [(1000.0, 1000, int), (2.5, 2.5, float)])
def test_a_whole_n_is_told_as_one(n: float, told: float, kind: type) -> None:
    value = overview(PLAIN, n).to_dict()["n"]
    assert value == told
    assert type(value) is kind


def test_the_dimension_that_was_not_requested_is_there_as_well() -> None:
    assert overview(PLAIN).other is None
    assert overview(PLAIN).kinds == {"": False}
    for effective in (False, True):
        view = overview(ESTIMATED, 200, effective=effective)
        assert view.kinds == {"": False, "effective_": True}
        assert view.other == barron_bound(ESTIMATED, 200, effective=not effective).total
    lacking = kr.Network([kr.Learned("W", effective=12.5)])
    view = overview(lacking, 200, effective=True)
    assert view.other is None
    content = view.to_dict()
    assert content["bounds"] == dict.fromkeys(BOUNDS)
    (row,) = content["layers"]
    assert row["estimation"] is row["contribution"] is row["share"] is None
    assert row["effective_contribution"] == view.chosen.total
    assert "A dash" in view.explain()


def shares(net: kr.Network, **options: Any) -> dict[str, Any]:
    return overview(net, 100, **options).assumed


def test_the_assumed_share_is_that_of_default_constants() -> None:
    total = barron_bound(PLAIN, 100)
    assumed = shares(PLAIN)
    assert assumed["layers"] == ["B"]
    assert assumed["share"] == pytest.approx(total.contributions[2] / total.total)
    # B errs in front of an activation with constant 1: its error reaches the output as it is.
    assert assumed["direct"] == ["B"]
    assert assumed["direct_share"] == assumed["share"]
    swapped = kr.Network([kr.Learned("B", parameters=10), kr.Known("K", lipschitz=2), CALIBRATED])
    assumed = shares(swapped.replace("W", kr.Learned("W", parameters=100, C=1, lipschitz=3)))
    assert (assumed["layers"], assumed["direct"]) == (["B"], ["W"])
    assert assumed["share"] + assumed["direct_share"] == pytest.approx(1)


@pytest.mark.parametrize(("constant", "direct"), [(1 + 1e-10, ["W"]), (1 + 1e-8, []), (0.5, [])])
def test_a_direct_error_is_amplified_by_one_up_to_rounding(
    constant: float, direct: list[str]
) -> None:
    net = kr.Network([CALIBRATED, kr.Known("K", lipschitz=constant)])
    assert shares(net)["direct"] == direct
    assert shares(net)["direct_share"] == (1 if direct else 0)


# --- A replaced layer ----------------------------------------------------------------------------


@pytest.mark.parametrize("form", BOUNDS)
def test_a_replacement_saves_the_difference_of_both_networks(form: kr.theory.BoundForm) -> None:
    view = overview(ESTIMATED, 200, 40.0, bound=form, replace="W")
    after = ESTIMATED.replace("W")
    content = view.to_dict()["replace"]
    assert content["layer"] == view.replaced == "W"
    assert view.after is not None
    assert view.after.net == after
    before, now = (barron_bound(net, 200, bound=form) for net in (ESTIMATED, after))
    assert content["saved_approximation"] == pytest.approx(before.floor - now.floor)
    assert content["saved_estimation"] == pytest.approx(before.estimation - now.estimation)
    estimate = barron_bound(ESTIMATED, 200, bound=form, effective=True)
    # Without W no layer states a dimension, and p stands for both.
    assert content["effective_saved_estimation"] == pytest.approx(
        estimate.estimation - now.estimation
    )
    assert content["bounds"][form]["total"] == now.total
    assert content["samples"][form] == samples_needed(after, 40.0, bound=form)


def test_both_networks_are_compared_at_the_n_of_the_first() -> None:
    after_net = ESTIMATED.replace("W")
    view = overview(ESTIMATED, target=40.0, replace="W")
    assert view.after is not None
    n, before, after = view.chosen.n, view.chosen, view.after.chosen
    assert after.n == n == samples_needed(ESTIMATED, 40.0)
    assert after.floor > 0
    text = view.explain()
    assert sentence(text, "With W known, the bound") == (
        f"With W known, the bound at N = {n:,} falls from {before.total:.4g} to "
        f"{after.total:.4g}: {before.floor - after.floor:.4g} less approximation, "
        f"{before.estimation - after.estimation:.4g} less estimation."
    )
    assert f"The target 40 then holds from N = {samples_needed(after_net, 40.0):,} on." in text
    assert "Then " not in text  # no parameters are shared
    assert "falls from" not in overview(ESTIMATED, target=40.0).explain()


def test_a_target_may_stay_out_of_reach() -> None:
    text = overview(ESTIMATED, target=0.9, replace="B").explain()
    assert "The target 0.9 is out of reach even then." in text


def test_a_layer_without_error_saves_nothing() -> None:
    text = overview(PLAIN, replace="ReLU").explain()
    assert text.endswith("Making ReLU known saves nothing: it adds no error to the bound as it is.")


@pytest.mark.parametrize(("effective", "word"), [(False, "effective dimensions"), (True, "p")])
def test_the_other_dimension_falls_as_well(effective: bool, word: str) -> None:
    view = overview(ESTIMATED, 200, effective=effective, replace="B")
    totals = [
        barron_bound(net, 200, effective=not effective).total
        for net in (ESTIMATED, ESTIMATED.replace("B"))
    ]
    text = f"With {word} it falls from {totals[0]:.4g} to {totals[1]:.4g}."
    assert text in view.explain()
    assert text not in overview(PLAIN, 200, replace="B").explain()


def test_shared_parameters_are_counted_once() -> None:
    shared = kr.Learned("W (2)", parameters=9, shared=9, lipschitz=2)
    net = kr.Network(
        [kr.Learned("W", parameters=9), shared, kr.Learned("V", parameters=7, lipschitz=1)]
    )
    text = overview(net, replace="V").explain()
    assert "share parameters err by all of them each; different parameters in all: 16." in text
    assert "Then 9 different parameters are learned, shared ones among them." in text
    assert "different parameters" not in overview(PLAIN, replace="W").explain()
    # Where a layer does not state its p, nothing is counted.
    unknown = kr.Network([kr.Learned("U", effective=3), shared])
    text = overview(unknown, effective=True, replace="U").explain()
    assert "Layers that share parameters err by all of them each.\n" in text
    assert "different parameters" not in text


def test_where_p_is_missing_before_only_the_estimate_falls() -> None:
    net = kr.Network([kr.Learned("U", effective=3), kr.Learned("V", parameters=5, lipschitz=1)])
    view = overview(net, 100, effective=True, replace="U")
    content = view.to_dict()["replace"]
    assert content["saved_estimation"] is None
    assert content["effective_saved_estimation"] > 0
    assert "With U known, the bound at N = 100 falls from" in view.explain()
    assert "With p it falls" not in view.explain()


# --- Tables --------------------------------------------------------------------------------------


def test_the_table_of_layers_has_a_row_for_each() -> None:
    view = overview(PLAIN, 1000)
    layers, forms = view.tables()
    assert layers.title == "network"
    assert layers.heads == [
        *("layer", "", "Lip-\nschitz", "whose", "A_l,\npaper", "A_l,\nminkowski", "A_l,\ncomposed"),
        *("param-\neters", "bound at\nN = 1,000", "share"),
    ]
    assert layers.align == "llr"
    bound = barron_bound(PLAIN, 1000)
    cells = [
        [f"{value:.4g}", f"{share:.0%}"]
        for value, share in zip(bound.contributions, bound.whole.shares, strict=True)
    ]
    # Four layers: 2^3 P_1^2, 2^3 P_2^2, 2^2 P_3^2 and 2 P_4^2 in the paper's form.
    assert layers.rows == [
        ["W", "learned", "-", "-", "288", "36", "36", "100", *cells[0]],
        ["K", "known", "2", "stated", "72", "9", "9", "-", *cells[1]],
        ["B", "learned", "3", "stated", "4", "1", "1", "10", *cells[2]],
        ["ReLU", "known", "1", "stated", "2", "1", "1", "-", *cells[3]],
    ]
    assert forms.title == ""
    assert forms.heads == ["bound", "total at\nN = 1,000", "floor", "estimation", "looser\nby"]
    for form in BOUNDS:
        bound = barron_bound(PLAIN, 1000, bound=form)
        looser = bound.total / barron_bound(PLAIN, 1000).total
        texts = [f"{getattr(bound, key):.4g}" for key in FACTS]
        assert row_of(forms, form) == [form, *texts, f"{looser:.3g}"]


@pytest.mark.parametrize(
    ("constant", "text", "whose"),
    [
        (NormBracket(1, 1.01), "1.01", "stated"),  # one percent apart reads as a number
        (NormBracket(1, 1.02), "1 to 1.02", "stated"),
        (NormBracket(1.5, math.inf, how="sampled", whose="present weights"), ">= 1.5", "present"),
        (NormBracket(0, math.inf), "-", "stated"),
        (NormBracket(2, 2, whose="operator"), "2", "map"),
        (None, "-", "-"),
    ],
)
def test_a_bracket_is_told_by_its_ends(constant: NormBracket, text: str, whose: str) -> None:
    net = kr.Network([kr.Known("K", lipschitz=constant), kr.Learned("W", parameters=1)])
    table = next(overview(net).tables())
    assert row_of(table, "K")[2:4] == [text, whose]


def test_the_table_of_a_graph_names_what_is_not_the_row_above() -> None:
    net = kr.Network(
        [
            kr.Learned("f", parameters=5, lipschitz=2),
            kr.Known("g", lipschitz=1),
            kr.Known("h", lipschitz=1, inputs=["f"]),
            kr.Known("add", inputs={"g": 1, "h": 1}),
        ],
        name="branches",
    )
    table = next(overview(net).tables())
    assert table.title == "branches"
    assert table.heads[:3] == ["layer", "takes", ""]
    assert table.align == "lllr"
    assert [row[1] for row in table.rows] == ["", "", "f", "g, h"]
    assert [row[2] for row in table.rows] == ["learned", "known", "known", "known"]


@pytest.mark.parametrize("effective", [False, True])
def test_p_stands_beside_the_effective_dimension(effective: bool) -> None:
    view = overview(ESTIMATED, 200, 40.0, effective=effective)
    layers, dimensions, forms = view.tables()
    head = "bound at\nN = 200" + ",\neffective" * effective
    assert layers.heads[-2] == head
    bound = barron_bound(ESTIMATED, 200, effective=effective)
    texts = [f"{bound.contributions[0]:.4g}", f"{bound.whole.shares[0]:.0%}"]
    assert row_of(layers, "W")[-2:] == texts
    assert dimensions.title == "p beside the effective dimension"
    names = ["layer", "parameters", "effective", "bound at\nN = 200", "the same,\neffective"]
    assert dimensions.heads == names
    pair = [barron_bound(ESTIMATED, 200, effective=kind).contributions for kind in (False, True)]
    assert dimensions.rows == [
        ["W", "100", "20", f"{pair[0][0]:.4g}", f"{pair[1][0]:.4g}"],
        ["B", "10", "-", f"{pair[0][2]:.4g}", f"{pair[1][2]:.4g}"],
    ]
    assert forms.heads[-1] == "N for\n40"
    assert [row[0] for row in forms.rows] == [
        name for form in BOUNDS for name in (form, f"{form}, effective")
    ]
    for form in BOUNDS:
        for kind, name in ((False, form), (True, f"{form}, effective")):
            bound = barron_bound(ESTIMATED, 200, bound=form, effective=kind)
            looser = bound.total / barron_bound(ESTIMATED, 200, effective=kind).total
            facts = [f"{getattr(bound, key):.4g}" for key in FACTS]
            needed = samples_needed(ESTIMATED, 40.0, bound=form, effective=kind)
            assert row_of(forms, name) == [name, *facts, f"{looser:.3g}", f"{needed:,}"]


@pytest.mark.parametrize(
    ("dimension", "text"),
    [(999.5, "999.5"), (1000.0, "1,000"), (1234.6, "1,235"), (2.5e7, "2.5e+07")],
)
def test_large_dimensions_are_counted(dimension: float, text: str) -> None:
    net = kr.Network([kr.Learned("W", parameters=10**9, effective=dimension)])
    _, dimensions, _ = overview(net).tables()
    assert dimensions.rows[0][2] == text


def test_what_no_form_reaches_is_said_in_the_table() -> None:
    forms = [*overview(PLAIN, target=1.0).tables()][-1]
    assert row_of(forms, "paper")[-1] == "unreachable"
    assert row_of(forms, "composed")[-1] == f"{samples_needed(PLAIN, 1.0):,}"


def test_a_bound_of_zero_has_no_ratio() -> None:
    net = kr.Network([kr.Learned("W", parameters=10), kr.Known("K", lipschitz=0)])
    forms = [*overview(net).tables()][-1]
    for form in BOUNDS:
        assert row_of(forms, form)[1:] == ["0", "0", "0", "-"]


# --- Sentences -----------------------------------------------------------------------------------


def test_the_meaning_names_n_the_form_and_the_floor() -> None:
    view = overview(PLAIN, 1000, bound="minkowski")
    assert sentence(view.explain(), "Meaning: ") == (
        "Meaning: if the constants hold, C = 0 and kappa = 1 of B among them, a network trained on "
        "N = 1,000 samples has an expected squared error of at most "
        f"{view.chosen.total:.4g} (minkowski bound), including a floor of 0.72 that more data "
        "cannot lower."
    )
    assert "effective" not in view.explain()
    stated = kr.Network([CALIBRATED])
    assert "if the constants hold, a network" in overview(stated).explain()
    assert "N = 2.5 samples" in overview(stated, 2.5).explain()


@pytest.mark.parametrize("effective", [False, True])
def test_an_estimate_is_told_apart_from_the_theorem(effective: bool) -> None:
    view = overview(ESTIMATED, 200, effective=effective)
    text = view.explain()
    alternative = f"{barron_bound(ESTIMATED, 200, effective=not effective).total:.4g}"
    condition = "and the effective dimension of W may stand for p, a network"
    assert (condition in text) is effective
    estimate = f"The theorem's statement is with p and gives {alternative}."
    assert (estimate in text) is effective
    theorem = f"With the effective dimension of W in place of p it is {alternative}: an estimate"
    assert (theorem in text) is not effective
    assert "No effective dimension is stated for B: p stays there." in text
    lacking = kr.Network([kr.Learned("W", effective=12.5)])
    text = overview(lacking, effective=True).explain()
    assert "The theorem's statement is with p, which is missing here." in text
    assert "No effective dimension" not in text


def test_constants_are_told_by_their_origin() -> None:
    operator = NormBracket(1, 2, how="by Lanczos, with probability 1 - 1e-6", whose="operator")
    plain = NormBracket(1, 2, how="exact", whose="operator")
    layers = [kr.Learned("W", parameters=4, lipschitz=3), kr.Known("K", lipschitz=operator)]
    text = overview(kr.Network(layers)).explain()
    line = sentence(text, "Lipschitz constants: ")
    assert line.startswith("Lipschitz constants: W as stated; K of the maps themselves.")
    assert "Lanczos fail with probability < 1e-6 each" in line
    assert "present weights" not in text
    exact = overview(kr.Network([kr.Known("K", lipschitz=plain)])).explain()
    assert "Lipschitz constants: K of the maps themselves." in exact
    assert "Lanczos" not in exact
    nothing = overview(kr.Network([kr.Learned("W", parameters=4)])).explain()
    assert "Lipschitz constants" not in nothing


def test_present_weights_are_only_an_instance() -> None:
    present = NormBracket(1, 2, whose="present weights")
    net = kr.Network([kr.Learned("W", parameters=4), kr.Learned("V", parameters=4, lipschitz=2)])
    assert overview(net).of_present_weights == []
    measured = net.replace("V", kr.Learned("V", parameters=4, lipschitz=present))
    view = overview(measured)
    assert view.of_present_weights == ["V"]
    text = view.explain()
    assert "if the constants hold (for V those of the present weights), C = 0" in text
    assert "The constants of V are those of the present weights." in text


@pytest.mark.parametrize(
    ("slope", "upper", "text"),
    [
        (2.0, 3, "is at most 3; the largest slope among the inputs that were tried is 2."),
        (3 * (1 + 1e-7), 3, "is at most 3; the largest slope among"),  # up to rounding
        (3.0003, 3, "would be at most 3 by these constants; the largest slope"),
        (3.0003, None, "has no upper end; the largest slope"),
    ],
)
def test_a_slope_is_held_against_the_constant(slope: float, upper: float | None, text: str) -> None:
    layer = kr.Learned("W", parameters=4, lipschitz=upper)
    told = overview(kr.Network([layer], largest_slope=slope)).explain()
    assert f"The network's own Lipschitz constant {text}" in told
    assert ("the module is steeper" in told) is text.startswith("would")
    assert "own Lipschitz" not in overview(kr.Network([layer])).explain()


def mixture(share: float, *, direct: bool) -> Overview:
    """A bound in the paper's form of which `share` comes from default constants."""
    # A = 2^2 for the learned layers in front of two others, and 2 for the last.
    tail = 1.0 if direct else 2.0
    assumed = kr.Learned("W", parameters=1, lipschitz=1)
    rate = math.log(100) / 100
    stated = share and (1 - share) / share * rate
    front = kr.Known("front", lipschitz=1)
    calibrated = kr.Learned("V", parameters=1, kappa=1e-30, C=math.sqrt(stated), lipschitz=1)
    layers = [front, calibrated, assumed, kr.Known("K", lipschitz=tail)]
    return overview(kr.Network(layers), 100, bound="paper")


@pytest.mark.parametrize("share", [0.02, 0.5, 0.88, 0.95, 1.0])
def test_the_assumed_part_is_weighed(share: float) -> None:
    # V errs in front of one more layer than W, and its amplification is twice as large.
    view = mixture(share, direct=False)
    weight = share / (share + 2 * (1 - share))
    assert view.assumed["share"] == pytest.approx(weight)
    text = view.explain()
    assert "reaches the output as it is" not in text
    few = f"{weight:.0%} of the bound comes from learned layers with C = 0 and kappa = 1, in units"
    assert (few in text) is (weight < 0.9)
    most = "which nobody calibrated: it is its own assumption"
    assert (most in text) is (weight >= 0.9)
    if weight >= 0.9:
        portion = "All" if weight > 0.9995 else f"{weight:.1%}"
        assert f"{portion} of the bound comes from learned layers" in text
    assert "run_pilot" in text


@pytest.mark.parametrize(("share", "told"), [(0.049, False), (0.051, True), (0.5, True)])
def test_an_error_that_nothing_changes_is_worth_a_word(share: float, told: bool) -> None:
    # In the paper's form V contributes 4 P^2 r and W 2 r, with the same risk r.
    net = kr.Network(
        [
            kr.Learned("V", parameters=1, kappa=2, lipschitz=1),
            kr.Known("K", lipschitz=math.sqrt((1 / share - 1) / 2)),
            kr.Learned("W", parameters=1, kappa=2, lipschitz=1),
        ]
    )
    view = overview(net, 100, bound="paper")
    assert view.assumed["direct_share"] == pytest.approx(share)
    text = view.explain()
    assert ("The error of W reaches the output as it is (A_l = 1), through no" in text) is told
    assert (f"its part, {share:.0%} of the bound" in text) is told
    assert "C = 0 and kappa = 1" not in text


def test_a_twentieth_of_the_bound_is_worth_a_word() -> None:
    # Roots of the floors: 2 * 9.5 of V and 1 of W, exactly; nothing is estimated.
    floor: Any = {"parameters": 1, "kappa": 5e-324}
    net = kr.Network(
        [
            kr.Learned("V", C=19, width=4, **floor),
            kr.Known("K", lipschitz=2),
            kr.Learned("W", C=1, lipschitz=1, **floor),
        ]
    )
    assert overview(net).assumed["direct_share"] == 0.05
    assert "its part, 5% of the bound" in overview(net).explain()


def test_views_are_values_by_identity() -> None:
    view = overview(PLAIN)
    assert len({view, view, overview(PLAIN)}) == 2


def test_a_sampled_constant_adds_a_remark() -> None:
    layers = [
        kr.Known("S", lipschitz=NormBracket(2, math.inf, how="sampled")),
        kr.Known("U"),
        kr.Learned("W", parameters=4, lipschitz=1),
    ]
    text = overview(kr.Network(layers)).explain()
    assert "The Lipschitz constant of S was only sampled" in text
    assert "only sampled" not in overview(PLAIN).explain()


def test_a_mismatch_of_any_size_is_korisk_s_extension() -> None:
    assert "The mismatch of K is korisk's extension" in overview(ESTIMATED).explain()
    assert "extension" not in overview(PLAIN).explain()


@pytest.mark.parametrize("effective", [False, True])
def test_the_n_of_both_dimensions_is_told(effective: bool) -> None:
    text = overview(ESTIMATED, target=40.0, effective=effective).explain()
    needed = samples_needed(ESTIMATED, 40.0, effective=effective)
    alternative = samples_needed(ESTIMATED, 40.0, effective=not effective)
    word = "p" if effective else "effective dimensions"
    assert (
        f"From N = {needed:,} on the bound stays at or below the target 40; with {word}, " in text
    )
    assert f"with {word}, from N = {alternative:,} on." in text
    alone = overview(PLAIN, target=1.5).explain()
    assert (
        f"From N = {samples_needed(PLAIN, 1.5):,} on the bound stays at or below the target 1.5."
        in alone
    )


@pytest.mark.parametrize(("count", "rest"), [(6, ""), (7, " and 1 more"), (9, " and 3 more")])
def test_many_names_are_cut(count: int, rest: str) -> None:
    net = kr.Network([kr.Learned(f"u{k}", parameters=1, lipschitz=1) for k in range(count)])
    names = ", ".join(f"u{k}" for k in range(6))
    text = overview(net).explain()
    assert f"Lipschitz constants: {names}{rest} as stated." in text
    assert f"kappa = 1 of {names}{rest} among them" in text

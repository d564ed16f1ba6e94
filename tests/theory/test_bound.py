"""The bounds against the paper's own formulas, and what they refuse."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import korisk as kr

K, AT = 0.026, 85.7


def ct_network(**learned: float) -> kr.Network:
    return kr.Network(
        [
            kr.Learned("W", parameters=7680, **learned),  # type: ignore[arg-type]
            kr.Known("K", lipschitz=K),
            kr.Known("A^T", lipschitz=AT),
            kr.Known("ReLU", lipschitz=1),
        ],
        compositions=[kr.theory.Composition("K", "A^T", lipschitz=0.317)],
    )


def test_ct_amplifications_of_appendix_c() -> None:
    expected = [8 * K**2 * AT**2, 8 * AT**2, 4, 2]
    assert ct_network().amplification("paper") == pytest.approx(expected, rel=1e-15)
    net = kr.Network([kr.Learned("M", parameters=1), kr.Known("ReLU", lipschitz=1)])
    assert net.amplification("paper").tolist() == [2, 2]
    assert kr.Network([kr.Learned("M")]).amplification("paper").tolist() == [1]


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=12))
def test_amplification_follows_the_recursion_of_the_proof(lipschitz: list[float]) -> None:
    # Eq. (eq:rec-sq): |d_l|^2 <= 2 l_l^2 |d_{l-1}|^2 + 2 |e_l|^2 with d_1 = e_1.
    weights = np.array([1.0])
    for constant in lipschitz[1:]:
        weights = np.append(2 * constant**2 * weights, 2.0)
    net = kr.Network([kr.Learned(f"u{i}", lipschitz=c) for i, c in enumerate(lipschitz)])
    assert net.amplification("paper") == pytest.approx(weights, rel=1e-12)


def test_minkowski_and_composed_gain_on_ct() -> None:
    net = ct_network()
    paper, minkowski, composed = (net.amplification(m)[0] for m in kr.theory.BOUNDS)
    assert paper / minkowski == pytest.approx(8)
    assert minkowski / composed == pytest.approx((K * AT / 0.317) ** 2)


def test_a_stated_composition_that_is_looser_is_not_used() -> None:
    looser = kr.theory.Composition("K", "A^T", lipschitz=100.0)
    net = kr.Network(ct_network().layers, compositions=[looser])
    assert net.amplification("composed") == pytest.approx(net.amplification("minkowski"))


def test_the_best_way_to_cut_a_tail_is_found() -> None:
    layers = [kr.Known(name, lipschitz=2) for name in "abcde"]
    net = kr.Network(
        layers,
        compositions=[
            kr.theory.Composition("b", "c", lipschitz=3),  # 3 * 2 * 2 = 12
            kr.theory.Composition("c", "d", lipschitz=0.5),  # 2 * 0.5 * 2 = 2, the best
            kr.theory.Composition("b", "d", lipschitz=1.5),  # 1.5 * 2 = 3
        ],
    )
    assert net.tails("composed").tolist() == [2, 1, 4, 2, 1]


def test_layer_risk_is_the_barron_form() -> None:
    layer = kr.Learned("W", parameters=100, C=0.3, width=9, kappa=0.5)
    assert kr.theory.layer_risk(layer, 50) == pytest.approx(0.01 + 0.5 * 100 * math.log(50) / 50)


def test_barron_bound_of_two_learned_layers() -> None:
    net = kr.Network(
        [
            kr.Learned("a", parameters=10, C=0.2, kappa=0.1),
            kr.Learned("b", parameters=5, lipschitz=3, C=0.1, width=4, kappa=0.2),
        ]
    )
    rate = math.log(100) / 100
    a, b = 0.04 + 1.0 * rate, 0.0025 + 1.0 * rate
    paper = kr.barron_bound(net, 100, bound="paper")
    assert paper.contributions == pytest.approx([18 * a, 2 * b])
    assert paper.approximations == pytest.approx([18 * 0.04, 2 * 0.0025])
    assert paper.estimations == pytest.approx([18 * rate, 2 * rate])
    assert float(paper) == paper.total == pytest.approx(18 * a + 2 * b)
    minkowski = kr.barron_bound(net, 100, bound="minkowski")
    assert "minkowski" in repr(minkowski)
    assert minkowski.total == pytest.approx((3 * math.sqrt(a) + math.sqrt(b)) ** 2)
    assert minkowski.floor == pytest.approx((3 * 0.2 + 0.05) ** 2)


def test_known_layers_contribute_nothing_and_mismatch_stays() -> None:
    exact = ct_network(C=0.1)
    bound = kr.barron_bound(exact, 10**9, bound="paper")
    assert bound.contributions[1:].tolist() == [0, 0, 0]
    wrong = exact.replace("A^T", kr.Known("A^T", lipschitz=AT, mismatch=0.25))
    for form in kr.theory.BOUNDS:
        floor = kr.barron_bound(wrong, 10**15, bound=form).floor
        assert floor > kr.barron_bound(exact, 10**15, bound=form).floor
    assert kr.barron_bound(wrong, 64, bound="paper").approximations[2] == pytest.approx(4 * 0.25)


def test_savings_are_the_layers_own_terms_in_the_papers_form() -> None:
    net = kr.Network(
        [kr.Learned("a", parameters=10, C=0.2), kr.Learned("b", parameters=5, lipschitz=3, C=0.1)]
    )
    saved = kr.theory.savings(net, "a", bound="paper")
    for form in kr.theory.BOUNDS:  # also where constants were calibrated through another form
        fitted = replace(net.replace("b"), calibrated="paper")
        parts = kr.theory.savings(fitted, "a", bound=form)
        assert parts.approximation + parts.estimation(50) == pytest.approx(parts.total(50))
    assert saved.approximation == pytest.approx(18 * 0.04)
    assert saved.estimation(64) == pytest.approx(18 * 10 * math.log(64) / 64)
    before, after = saved.samples(1.0)
    assert after < before


def test_deep_risk_takes_risks_by_position_or_name() -> None:
    net = ct_network()
    by_name = kr.theory.deep_risk(net, {"W": 0.5}, bound="paper")
    assert by_name.total == kr.theory.deep_risk(net, [0.5, 0, 0, 0], bound="paper").total
    assert by_name.layers == net.names
    assert float(by_name) == by_name.total == pytest.approx(8 * K**2 * AT**2 * 0.5)


@pytest.mark.parametrize(
    ("risks", "message"),
    [
        ([0.5], "one entry for each of the 4 layers, got 1"),
        ([0.5, 0.1, 0, 0], "must be 0, because the layer is known"),
        ([-1, 0, 0, 0], "layer_risks of 'W' must be a finite number >= 0"),
        ([math.nan, 0, 0, 0], "layer_risks of 'W' must be"),
        ({"V": 1.0}, "there is no layer 'V'"),
        ({}, "an entry for the learned layer 'W'"),
    ],
)
def test_wrong_risks_are_refused(risks: object, message: str) -> None:
    with pytest.raises(kr.KoriskError) as caught:
        kr.theory.deep_risk(ct_network(), risks)  # type: ignore[arg-type]
    assert message in str(caught.value)


@pytest.mark.parametrize("n", [1, 0, -5, math.nan, math.inf, "64", True])
def test_sample_counts_below_two_are_refused(n: object) -> None:
    with pytest.raises(kr.KoriskError, match="n must be a finite number >= 2"):
        kr.barron_bound(ct_network(), n)  # type: ignore[arg-type]


def test_a_learned_layer_needs_parameters_where_they_matter() -> None:
    net = kr.Network([kr.Learned("W")])
    assert kr.theory.deep_risk(net, [0.5]).total == pytest.approx(0.5)  # not here
    with pytest.raises(kr.KoriskError, match="layer 'W': parameters is missing"):
        kr.barron_bound(net, 64)


def test_a_lipschitz_constant_is_needed_only_behind_an_error() -> None:
    free = kr.Network([kr.Learned("W", parameters=3)])
    assert kr.barron_bound(free, 64).total > 0
    net = kr.Network([kr.Known("K", lipschitz=1), kr.Learned("W", parameters=3)])
    assert math.isinf(net.amplification("paper")[0])
    assert kr.barron_bound(net, 64, bound="paper").total > 0
    blocked = kr.Network([kr.Learned("V", parameters=3), kr.Learned("W", parameters=3)])
    with pytest.raises(kr.KoriskError, match="layer 'W': lipschitz has no upper end"):
        kr.barron_bound(blocked, 64)


def test_constants_that_overflow_are_named() -> None:
    layers = [kr.Known(f"u{i}", lipschitz=1e200) for i in range(3)]
    net = kr.Network([kr.Learned("W", parameters=1), *layers])
    with pytest.raises(kr.KoriskError, match="more than a double can hold"):
        kr.barron_bound(net, 64)


def test_a_constant_layer_forgets_what_came_before() -> None:
    net = kr.Network([kr.Learned("W"), kr.Known("zero", lipschitz=0), kr.Learned("V")])
    assert net.amplification("minkowski").tolist() == [0, math.inf, 1]
    assert kr.theory.deep_risk(net, {"W": 3.0, "V": 2.0}, bound="paper").total == pytest.approx(4)


def test_deep_chains_of_contractions_stay_in_range() -> None:
    net = kr.Network([kr.Learned(f"u{i}", lipschitz=0.72) for i in range(2000)])
    # 2^1999 alone leaves the doubles, 0.72^3998 too; their product does not.
    expected = math.exp(1999 * math.log(2 * 0.72**2))
    assert net.amplification("paper")[0] == pytest.approx(expected, rel=1e-9)


def test_tiny_constants_and_large_risks_keep_their_order() -> None:
    net = kr.Network([kr.Learned("a"), kr.Known("b", lipschitz=1e-170)])
    paper, minkowski, _ = (
        kr.theory.deep_risk(net, {"a": 1e300}, bound=m).total for m in kr.theory.BOUNDS
    )
    assert minkowski == pytest.approx(1e-40)
    assert paper == pytest.approx(2e-40)


@pytest.mark.parametrize(
    "net",
    [
        kr.Network([kr.Learned("W", parameters=1, C=1e200)]),
        kr.Network([kr.Learned("W", parameters=10**6, kappa=1e305), kr.Known("K", lipschitz=1)]),
        kr.Network([kr.Learned("W", parameters=1), kr.Known("K", lipschitz=1e200)]),
    ],
    ids=["C", "kappa", "lipschitz"],
)
@pytest.mark.parametrize("bound", kr.theory.BOUNDS)
def test_bounds_beyond_doubles_are_refused(net: kr.Network, bound: kr.theory.BoundForm) -> None:
    with pytest.raises(kr.KoriskError, match="larger than a double can hold"):
        kr.barron_bound(net, 64, bound=bound)
    with pytest.raises(kr.KoriskError, match="larger than a double can hold"):
        kr.sample_size(net, 1.0, bound=bound)

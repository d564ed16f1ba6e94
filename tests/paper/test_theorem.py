"""The check of the theorem on small networks with a known truth."""

import copy

import pytest
import torch

from benchmarks.paper import theorem
from benchmarks.paper.theorem import AMPLIFYING, GRAPHS, KNOWN, Kind, changed, graph_network
from korisk.networks.amplification import learned_parts
from korisk.theory import deep_risk


@pytest.mark.parametrize("name", [*GRAPHS, *KNOWN])
def test_a_part_that_is_wrong_errs_at_every_call_and_no_other_one(name: str) -> None:
    kind = Kind(name)
    truth, wrong = kind.truth(), kind.truth()
    _, inputs = kind.inputs(1, 0, 5)
    assert max(theorem.graph_errors(truth, wrong, inputs).values()) == 0
    path, part = list(learned_parts(wrong).items())[-1]
    calls = []
    part.register_forward_hook(lambda _, given, output: calls.append((*given, output)))
    changed(part.parameters(), torch.Generator().manual_seed(0), share=0.5)
    errors = theorem.graph_errors(truth, wrong, inputs)
    true = learned_parts(truth)[path]
    with torch.no_grad():
        missed = [float((true(x) - y).square().sum() / 5) for x, y in calls]
    assert len(missed) == (theorem.PASSES if name == "unrolled" else 1)
    assert sorted(filter(None, errors.values())) == pytest.approx(sorted(missed), rel=1e-5)


@pytest.mark.parametrize("name", AMPLIFYING)
def test_what_is_followed_is_the_composed_bound(name: str) -> None:
    kind = Kind(name)
    truth = kind.truth()
    _, inputs = kind.inputs(1, 0, 8)
    wrong = copy.deepcopy(truth)
    changed(wrong.parameters(), torch.Generator().manual_seed(0), share=0.3)
    described = graph_network(truth, inputs[:1])
    with torch.no_grad():
        errors = theorem.layer_errors(truth, wrong, inputs)
        followed = float(theorem.composed(described, errors))
    numbers = theorem.graph_errors(truth, wrong, inputs)
    bound = deep_risk(described, numbers, bound="composed").total
    assert followed == pytest.approx(bound, rel=1e-4)
    row = theorem.judged(truth, wrong, inputs, described)
    assert row["error"] == pytest.approx(float(errors["output"]), rel=1e-4)


def test_a_constant_that_is_too_small_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(theorem, "SEEDS", (1,))
    monkeypatch.setattr(theorem, "STEPS", 120)
    before, after = (
        row["bounds"]["composed"] / row["error"] for row in theorem.one_part(Kind("backprojection"))
    )
    # At first the bound has room for a constant of A^T three times too small, then for no half.
    assert after < 2 < 9 < before

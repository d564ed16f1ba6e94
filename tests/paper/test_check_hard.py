"""Networks whose weights seek to break the theorem."""

import copy

import pytest
import torch

from benchmarks.paper import check_hard
from korisk.networks.amplification import graph_network
from korisk.theory import deep_risk


@pytest.mark.parametrize("kind", check_hard.AMPLIFYING)
def test_what_is_followed_is_the_composed_bound(kind: str) -> None:
    truth, inputs = check_hard.problem(kind)
    changed = copy.deepcopy(truth)
    with torch.no_grad():
        for weights in changed.parameters():
            weights.mul_(1.3)
    described = graph_network(truth, inputs[:1])
    with torch.no_grad():
        errors = check_hard.layer_errors(truth, changed, inputs)
    plain = {name: float(error) for name, error in errors.items() if name != "output"}
    bound = deep_risk(described, plain, bound="composed").total
    assert float(check_hard.composed(described, errors)) == pytest.approx(bound, rel=1e-4)
    assert check_hard.judged(truth, changed, inputs, described)["error"] == pytest.approx(
        float(errors["output"]), rel=1e-4
    )


def test_a_constant_that_is_too_small_would_be_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_hard, "SEEDS", (1,))
    monkeypatch.setattr(check_hard, "STEPS", 120)
    (row,) = check_hard.sought("backprojection")
    ratio = row["bounds"]["composed"] / row["error"]
    assert row["holds"]
    # At first the bound has room for a constant of A^T three times too small, then for no half.
    assert ratio < 2 < 9 < row["before"]

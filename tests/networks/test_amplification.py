"""Gains along data and layers' parts of an error: closed forms, identities, what is refused."""

import copy
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import korisk as kr
from benchmarks.networks.amplification import near, tables
from korisk.networks.amplification import Mean


class Twice(nn.Module):
    """One learned map, used twice, and a skip."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.last = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        value = torch.tanh(self.inner(x))
        result: Tensor = self.last(x + torch.tanh(self.inner(value)))
        return result


def test_gains_of_linear_layers_are_frobenius_norms() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3, bias=False))
    found = kr.amplification(net, torch.randn(40, 5), probes=200)
    last = net[1].weight
    assert isinstance(last, Tensor)
    expected = float(last.detach().square().sum()) / 4
    first, second = found
    assert first.gain.low <= expected <= first.gain.high
    assert abs(first.gain.value / expected - 1) < 0.05
    assert abs(second.gain.value - 1) < 0.05  # the output itself


def test_intervals_of_gains_hold_the_mean_over_all_inputs() -> None:
    """90% intervals from 30 inputs, against the mean over 20,000."""
    torch.manual_seed(1)
    net, data = Twice(), torch.randn(20_000, 4)
    whole = kr.amplification(net, data, probes=1)[0].gain.value
    held = 0
    for start in range(40):
        part = data[30 * start : 30 * start + 30]
        gain = kr.amplification(net, part, probes=2, seed=start)[0].gain
        held += gain.low <= whole <= gain.high
    assert held >= 31  # of 40; fewer has a chance of 1% at 90%


def test_parts_add_up_to_the_error_against_the_reference() -> None:
    torch.manual_seed(2)
    net, truth, data = Twice(), Twice(), torch.randn(100, 4)
    found = kr.amplification(net, data, reference=truth)
    error = float((net(data) - truth(data)).detach().square().sum(1).mean())
    assert [layer.name for layer in found] == ["inner", "inner (2)", "last"]
    assert math.isclose(sum(layer.part or 0 for layer in found), error, rel_tol=1e-5)


def test_a_single_wrong_layer_has_all_of_the_error_and_replacing_it_saves_that() -> None:
    torch.manual_seed(3)
    truth, data = Twice(), torch.randn(50, 4)
    net = copy.deepcopy(truth)
    with torch.no_grad():
        net.last.weight += 0.1
    *others, last = kr.amplification(net, data, reference=truth)
    error = float((net(data) - truth(data)).detach().square().sum(1).mean())
    assert [layer.part for layer in others] == [0, 0]
    for value in (last.error, last.part, last.saved):  # nothing stands behind it
        assert math.isclose(value or 0, error, rel_tol=1e-4)


def test_the_module_is_left_as_it_was() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2)).train()
    before = copy.deepcopy(net.state_dict())
    kr.amplification(net, torch.randn(8, 4), reference=copy.deepcopy(net))
    assert net.training
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
    assert not any(part._forward_hooks for part in net.modules())


def test_what_does_not_fit_is_refused() -> None:
    data, net = torch.randn(4, 4), nn.Linear(4, 4)
    with pytest.raises(kr.KoriskError, match="nothing in the module is learned"):
        kr.amplification(nn.ReLU(), data)
    with pytest.raises(kr.KoriskError, match="same parts"):
        kr.amplification(net, data, reference=nn.Sequential(nn.Linear(4, 4)))
    with pytest.raises(kr.KoriskError, match="another shape"):
        kr.amplification(net, data, reference=nn.Linear(4, 1))
    with pytest.raises(kr.KoriskError, match="first axis"):
        kr.amplification(nn.Sequential(nn.Flatten(0, 0), nn.Linear(4, 4), nn.Flatten(0)), data)


def test_one_input_has_no_interval() -> None:
    assert math.isnan(Mean.of(np.array([1.0])).low)


def test_the_page_shows_the_kept_results() -> None:
    results = Path(__file__).parents[2] / "benchmarks" / "results"
    kept = json.loads((results / "amplification.json").read_text())
    lines = (results / "amplification.txt").read_text().splitlines()
    assert list(tables(kept)) == lines
    near_error = [near(case["seeds"], case["error"]) for case in kept["trained"]]
    assert sum(near_error) >= 0.8 * len(near_error)
    assert all(case["error"] <= (case["bound"] or math.inf) for case in kept["trained"])
    page = (results.parents[1] / "docs" / "how-to" / "find-the-layer-that-errs.md").read_text()
    assert "results/amplification.txt\n" in page
    assert f"near in {sum(near_error)} of {len(near_error)} networks" in page
    named = [int(count) for count in lines[-1].split("|")[2:5]]
    words = " ".join(page.split())
    assert f"named the layer that matters most in {named[1]} of {named[0]} networks" in words
    assert f"the direction of the error named it in all {named[2]}." in words

"""Gains along data: closed forms, intervals, what is refused."""

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


def test_every_call_of_a_layer_counts() -> None:
    torch.manual_seed(2)
    found = kr.amplification(Twice(), torch.randn(100, 4))
    assert [layer.name for layer in found] == ["inner", "inner (2)", "last"]


def test_the_module_is_left_as_it_was() -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.Linear(4, 2)).train()
    before = copy.deepcopy(net.state_dict())
    kr.amplification(net, torch.randn(8, 4))
    assert net.training
    assert all(torch.equal(before[key], value) for key, value in net.state_dict().items())
    assert not any(part._forward_hooks for part in net.modules())


def test_what_does_not_fit_is_refused() -> None:
    data = torch.randn(4, 4)
    with pytest.raises(kr.KoriskError, match="nothing in the module is learned"):
        kr.amplification(nn.ReLU(), data)
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

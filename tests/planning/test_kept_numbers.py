"""The planner answers a dozen pilots as it did when its answers were kept."""

import json

import numpy as np
import pytest
from scipy.stats import norm

import korisk as kr
from benchmarks.planner import odds
from benchmarks.planner.kept_numbers import KEPT, differences, numbers, pilot
from korisk.planning.futures.law import normals
from korisk.planning.futures.posterior import posterior

FEW = {"h8 KO", "h8 FC", "step", "score", "one related"}  # of each kind one


@pytest.mark.parametrize("names", [FEW, pytest.param(None, marks=pytest.mark.slow)])
def test_answers_are_those_that_were_kept(names: set[str] | None) -> None:
    kept = json.loads(KEPT.read_text())
    if names is not None:
        kept = {name: content for name, content in kept.items() if name in names | {"compare h8"}}
    assert differences(numbers(names), kept) == []


def test_differences_beyond_rounding_are_seen() -> None:
    kept = {"n": 100, "chance": [0.5, None]}
    assert differences({"n": 101, "chance": [0.500001, None]}, kept) == []
    for n, chance, last in ((102, 0.5, None), (100, 0.5001, None), (100, 0.5, 0.5)):
        assert len(differences({"n": n, "chance": [chance, last]}, kept)) == 1
    assert differences({"n": 100}, kept)


def test_the_benchmark_scores_a_normal_law_as_its_closed_form_does() -> None:
    truth, deviation = np.array([-0.3, 0.0, 0.9, 4.0]), 0.5
    law = normals(np.ones(1), np.zeros((1, 4)), np.full((1, 4), deviation))
    z = truth / deviation
    closed = deviation * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - np.pi**-0.5)
    assert odds.crps(law, truth) == pytest.approx(closed, abs=1e-3)


@pytest.mark.parametrize("share", [0.9, 0.7, 0.6])
def test_the_benchmark_asks_for_the_n_that_a_plan_gives(share: float) -> None:
    curve = pilot(1)
    last, target = int(curve.sizes[-1]), share * float(curve.means[-1])
    law = posterior(curve).law(last * odds.GRID)
    n = last * odds.first_sure(law.under(np.full(len(odds.GRID), np.log(target))))
    answer = kr.plan(curve, target).samples(0.9)
    if answer is None or answer > 16 * last:
        assert n == np.inf
    else:
        assert n / 2**0.125 <= answer <= 1.01 * n, "eight N for a doubling"

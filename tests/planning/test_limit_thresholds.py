"""What limits the error: every share and every standard error is met from both sides."""

import math

import numpy as np
import pytest

import korisk as kr
from korisk.planning import Evidence, Longer, limit

N = np.array([16, 64, 256, 1024])
FALLING = kr.Curve(N, 0.8 * N**-0.4)
FLAT = kr.Curve(N, [0.05, 0.05, 0.05, 0.05])
LAST = float(FALLING.means[-1])


@pytest.mark.parametrize(("share", "kind"), [(0.49, "data"), (0.51, "noise")])
def test_noise_limits_where_it_is_most_of_the_error(share: float, kind: str) -> None:
    found = limit(FALLING, Evidence(noise=share * LAST))
    assert found.kind == kind
    assert (f"noise alone leaves {share * LAST:.4g}" in found.sentence) == (kind == "noise")


@pytest.mark.parametrize(("share", "kind"), [(0.79, "training"), (0.81, "noise")])
def test_beside_four_fifths_of_noise_nothing_else_matters(share: float, kind: str) -> None:
    """Four times the training halves the error: training could remove all of it."""
    longer = Longer(n=1024, factor=4, errors=[0.5 * LAST], before=[LAST])
    assert limit(FALLING, Evidence(noise=share * LAST, longer=longer)).kind == kind


@pytest.mark.parametrize(("target", "kind"), [(0.29, "noise"), (0.31, "data")])
def test_a_target_below_the_noise_is_limited_by_it(target: float, kind: str) -> None:
    evidence = Evidence(noise=0.3 * LAST, training=kr.Curve(N, 0.01 * FALLING.means))
    assert limit(FALLING, evidence, target * LAST).kind == kind


@pytest.mark.parametrize(("share", "kind"), [(0.49, "data"), (0.51, "unknown")])
def test_a_gap_of_more_than_half_the_error_is_a_lack_of_data(share: float, kind: str) -> None:
    """The training error is the share of the test error that data cannot lower."""
    found = limit(FALLING, Evidence(training=kr.Curve(N, share * FALLING.means)))
    assert found.kind == kind
    assert f"is {share * LAST:.4g} on training samples and {LAST:.4g} on test" in found.sentence
    assert (found.next_run == "") == (kind == "data")
    # Where the target lies below four fifths of the training error, data cannot reach it.
    for factor, reached in ((0.79, False), (0.81, True)):
        goal = factor * 0.4 * LAST
        made = limit(FALLING, Evidence(training=kr.Curve(N, 0.4 * FALLING.means)), goal)
        assert (made.kind == "data") == reached


@pytest.mark.parametrize(("gain", "kind"), [(0.140, "network"), (0.143, "training")])
def test_a_gain_by_longer_training_exceeds_two_standard_errors(gain: float, kind: str) -> None:
    """Single seeds are taken to deviate by 5%: the difference of two by sqrt(2) times that."""
    longer = Longer(n=1024, factor=4, errors=[0.05 * math.exp(-gain)], before=[0.05])
    assert 2 * 0.05 * math.sqrt(2) == pytest.approx(0.1414, abs=1e-4)
    assert limit(FLAT, Evidence(longer=longer)).kind == kind
    # Three runs against one, which are no pairs, have a standard error of sqrt(1/3 + 1).
    error = 2 * 0.05 * math.sqrt(1 / 3 + 1)
    for factor, known in ((0.98, "network"), (1.02, "training")):
        after = [0.05 * math.exp(-factor * error)] * 3
        longer = Longer(n=1024, factor=9, errors=after, before=[0.05])
        assert limit(FLAT, Evidence(longer=longer)).kind == known


@pytest.mark.parametrize(("gain", "kind"), [(0.103, "network"), (0.108, "training")])
def test_a_gain_by_longer_training_is_at_least_a_tenth(gain: float, kind: str) -> None:
    """Twenty pairs leave an error of a few per cent: a fall below 10% counts as none."""
    before, after = [0.05] * 20, [0.05 * math.exp(-gain)] * 20
    longer = Longer(n=1024, factor=9, errors=after, before=before)
    assert limit(FLAT, Evidence(longer=longer)).kind == kind


@pytest.mark.parametrize(("after", "kind"), [(0.835, "unknown"), (0.83, "training")])
def test_of_a_falling_curve_training_needs_a_third(after: float, kind: str) -> None:
    """Four times the training removes at least half of what training can remove."""
    longer = Longer(n=1024, factor=4, errors=[after * LAST], before=[LAST])
    found = limit(FALLING, Evidence(longer=longer))
    share = (1 - after) / (1 - 4**-0.5)
    assert found.kind == kind == ("training" if share > 1 / 3 else "unknown")
    if kind == "unknown":
        assert found.next_run == "measure the training error at N = 1,024"
    assert f"4 times the training takes it from {LAST:.4g} to {after * LAST:.4g}" in found.sentence


@pytest.mark.parametrize(("excess", "kind"), [(0.99, "network"), (1.01, "unknown")])
def test_a_noisy_probe_may_hide_that_training_is_most(excess: float, kind: str) -> None:
    """Nothing is known where gain and two standard errors could be half of the error."""
    noise = 2 * 0.05 * math.sqrt(2)
    # Twice the training removes at least 1 - 1 / sqrt(2) of what training can remove.
    gain = -math.log1p(-0.5 * (1 - 2**-0.5)) * excess - noise
    longer = Longer(n=1024, factor=2, errors=[0.05 * math.exp(-gain)], before=[0.05])
    found = limit(FLAT, Evidence(longer=longer))
    assert found.kind == kind
    assert found.next_run.startswith("repeat N = 1,024 with 2") == (kind == "unknown")


@pytest.mark.parametrize(("excess", "kind"), [(0.98, "unknown"), (1.02, "data")])
def test_a_fall_over_the_last_decade_exceeds_three_standard_errors(
    excess: float, kind: str
) -> None:
    n = np.array([100, 200, 400, 1000])
    x = np.log(n / n[-1])
    error = 0.05 / math.sqrt(((x - x.mean()) ** 2).sum()) * (x[-1] - x[0])  # of the fall
    curve = kr.Curve(n, 0.1 * np.exp(-excess * 3 * error * (x - x[0]) / (x[-1] - x[0])))
    found = limit(curve)
    assert found.kind == kind
    ends = f"from 0.1 at N = 100 to {curve.means[-1]:.4g} at N = 1,000"
    assert ends in found.sentence
    if kind == "unknown":
        assert found.next_run == "train N = 1,000 once with 3 times the steps"
    # A size more than a decade before the last does not count, unless three would be left out.
    early = kr.Curve([99, 400, 700, 1000], [9.0, 0.1, 0.1, 0.1])
    assert limit(early).kind == "unknown"
    assert "from 0.1 at N = 400" in limit(early).sentence
    three = kr.Curve([4, 40, 1000], [9.0, 0.5, 0.1])
    assert "from 9 at N = 4 to 0.1 at N = 1,000" in limit(three).sentence


@pytest.mark.parametrize(("factor", "better"), [(0.98, False), (1.02, True)])
def test_training_must_beat_what_there_is_without_it(factor: float, better: bool) -> None:
    """By more than two standard errors of the last mean, of 5% with one seed."""
    baseline = factor * LAST * math.exp(2 * 0.05)
    said = limit(FALLING, Evidence(baseline=baseline)).sentence
    assert ("training has added nothing" in said) != better
    assert better or f"it is {LAST:.4g}, no better than {baseline:.4g} without training" in said


@pytest.mark.parametrize(
    ("gap", "after", "kind"),
    [(0.45, 0.97, "data"), (0.1, 0.6, "training"), (0.1, 0.97, "network")],
)
def test_of_known_shares_the_largest_is_the_limit(gap: float, after: float, kind: str) -> None:
    training = kr.Curve(N, (1 - gap) * FALLING.means)
    pairs = {"errors": [after * LAST] * 40, "before": [LAST] * 40}
    longer = Longer(n=1024, factor=9, **pairs)
    noise = 0.2 * LAST if kind == "data" else 0.01 * LAST
    assert limit(FALLING, Evidence(training=training, longer=longer, noise=noise)).kind == kind

"""What limits the error: shares at their exact thresholds, the sentences, and stored evidence."""

import math
from typing import Any

import numpy as np
import pytest

import korisk as kr
from korisk.curves.noise import relative_variance
from korisk.curves.stored import Chosen, MeasuredFit
from korisk.planning import Evidence, Limit, Longer, limit
from korisk.planning.limits import evidence_of

N = np.array([16, 64, 256, 1024])
# Errors and shares that are sums of powers of two, so that quotients are exact.
FALLING = kr.Curve(N, [4.0, 2.0, 1.0, 0.5])
FLAT = kr.Curve(N, [0.5, 0.5, 0.5, 0.5])
TRAIN = "train N = 1,024 once with 3 times the steps"


def training(share: float, curve: kr.Curve = FALLING) -> kr.Curve:
    return kr.Curve(N, share * curve.means)


def longer(share: float, factor: float = 4, pairs: int = 40) -> Longer:
    """Training whose fourfold length removes half of a share of the error, in many pairs."""
    after = 0.5 * (1 - share * (1 - factor**-0.5))
    return Longer(n=1024, factor=factor, errors=[after] * pairs, before=[0.5] * pairs)


@pytest.mark.parametrize(
    ("evidence", "target", "kind", "next_run"),
    [
        # Noise: all at four fifths; more than half; a target below it, not at it.
        ({"noise": 0.4}, None, "noise", ""),
        ({"noise": 0.25}, None, "data", ""),
        ({"noise": 0.251}, None, "noise", ""),
        ({"noise": 0.125, "training": training(0.25)}, 0.125, "data", ""),
        ({"noise": 0.125, "training": training(0.25)}, 0.1249, "noise", ""),
        # A gap: more than half of the error, unless four fifths of the rest miss the target.
        ({"training": training(0.5)}, None, "unknown", TRAIN),
        ({"training": training(0.499)}, None, "data", ""),
        ({"training": training(0.25)}, 0.1, "data", ""),
        ({"training": training(0.25)}, 0.0999, "unknown", TRAIN),
        # A network that fits the noise has no gap beyond it.
        ({"training": training(0.01), "noise": 0.3}, None, "noise", ""),
        ({"training": training(1.2)}, None, "unknown", TRAIN),
        # Longer training without a gain, and without a training error.
        ({"longer": longer(0.0)}, None, "data", ""),
        ({"longer": longer(0.3)}, None, "unknown", "measure the training error at N = 1,024"),
        ({"longer": longer(0.35)}, None, "training", ""),
        ({"longer": longer(0.3), "noise": 0.25}, None, "unknown",
         "measure the training error at N = 1,024"),
        ({"longer": longer(0.45), "noise": 0.24}, None, "unknown",
         "measure the training error at N = 1,024"),
        ({"longer": longer(0.45), "noise": 0.26}, None, "noise", ""),
        ({"longer": longer(0.55), "noise": 0.26}, None, "training", ""),
        # All shares known: 10% data, 20% noise, and the rest is training or the network.
        ({"longer": longer(0.34), "noise": 0.1, "training": training(0.9)}, None, "network", ""),
        ({"longer": longer(0.36), "noise": 0.1, "training": training(0.9)}, None, "training", ""),
        ({"longer": longer(0.0), "noise": 0.21, "training": training(0.75)}, None, "noise", ""),
        ({"longer": longer(0.0), "noise": 0.06, "training": training(0.55)}, None, "data", ""),
        ({"longer": longer(0.0), "noise": 0.01, "training": training(0.55)}, None, "network", ""),
    ],
)  # fmt: skip
def test_of_a_falling_error_every_share_has_its_threshold(
    evidence: dict[str, Any], target: float | None, kind: str, next_run: str
) -> None:
    result = limit(FALLING, Evidence(**evidence), target)
    assert (result.kind, result.next_run) == (kind, next_run)


@pytest.mark.parametrize(
    ("evidence", "kind", "next_run"),
    [
        ({}, "unknown", TRAIN),
        ({"training": training(0.1, FLAT)}, "unknown", TRAIN),
        ({"longer": longer(0.0)}, "network", ""),
        ({"longer": longer(0.25)}, "training", ""),
        ({"longer": longer(0.25), "noise": 0.13}, "unknown",
         "measure the training error at N = 1,024"),
        # A gap that neither data nor training closes.
        ({"longer": longer(0.0), "training": training(0.5, FLAT)}, "network", ""),
        ({"longer": longer(0.0), "training": training(0.49, FLAT)}, "unknown",
         "test N = 1,024 once on new samples that are drawn like the training samples"),
        ({"longer": longer(0.9), "training": training(0.2, FLAT)}, "training", ""),
    ],
)  # fmt: skip
def test_of_a_flat_error_no_part_is_a_lack_of_data(
    evidence: dict[str, Any], kind: str, next_run: str
) -> None:
    result = limit(FLAT, Evidence(**evidence))
    assert (result.kind, result.next_run) == (kind, next_run)


FALL = "the error still falls with N, from 2 at N = 64 to 0.5 at N = 1,024"
LEVEL = "the error does not fall with N beyond noise, from 0.5 at N = 64 to 0.5 at N = 1,024"
GAP = "at N = 1,024 the error is 0.125 on training samples and 0.5 on test samples"
NONE = (
    "at N = 1,024, 4 times the training changes it from 0.5 to 0.5, which is no gain beyond noise"
)
GAIN = "at N = 1,024, 4 times the training takes it from 0.5 to 0.25"
NOISE = "noise alone leaves 0.4375, and the error at N = 1,024 is 0.5"
UNLESS = " (unless it is noise in the references, whose floor is unknown)"


@pytest.mark.parametrize(
    ("curve", "evidence", "sentence"),
    [
        (FALLING, {}, f"The amount of data limits the error: {FALL}."),
        (FALLING, {"training": training(0.25)}, f"The amount of data limits the error: {GAP}."),
        (FALLING, {"longer": longer(0.0)}, f"The amount of data limits the error: {FALL}; {NONE}."),
        (FLAT, {"longer": longer(1.0)}, f"Training limits the error: {GAIN}."),
        (FLAT, {"longer": longer(0.0)}, f"The network limits the error: {LEVEL}; {NONE}{UNLESS}."),
        (FLAT, {"longer": longer(0.0), "noise": 0.05},
         f"The network limits the error: {LEVEL}; {NONE}."),
        (FALLING, {"noise": 0.4375, "longer": longer(0.0)}, f"Noise limits the error: {NOISE}."),
        (FLAT, {"training": training(0.25, FLAT), "noise": 0.1},
         f"What limits the error is not known: {LEVEL}; {GAP}; noise alone leaves 0.1, and the "
         "error at N = 1,024 is 0.5."),
        (FALLING, {"training": training(0.9), "longer": longer(0.0)},
         "The network limits the error: at N = 1,024 the error is 0.45 on training samples and 0.5 "
         f"on test samples; {NONE}{UNLESS}."),
    ],
)  # fmt: skip
def test_the_sentence_has_the_evidence(
    curve: kr.Curve, evidence: dict[str, Any], sentence: str
) -> None:
    assert limit(curve, Evidence(**evidence)).sentence == sentence


def test_scores_rise_and_metrics_have_their_name() -> None:
    score = kr.Curve(N, 1 - np.array([0.4, 0.2, 0.1, 0.05]), unit="accuracy", metric="dice")
    on_training = kr.Curve([16, 256], [0.9, 0.99], unit="accuracy")
    words = limit(score, Evidence(training=on_training)).sentence
    assert words == (
        "The amount of data limits the accuracy: at N = 256 the dice is 0.99 on training samples "
        "and 0.9 on test samples."
    )
    rising = limit(score).sentence
    assert "the accuracy still rises with N, from 0.8 at N = 64 to 0.95 at N = 1,024" in rising


def test_a_noisy_probe_is_told_as_one() -> None:
    noisy = Longer(n=1024, factor=2, errors=[0.48], before=[0.5])
    words = limit(FLAT, Evidence(longer=noisy))
    assert "2 times the training changes it from 0.5 to 0.48, with too much noise" in words.sentence
    assert words.next_run == "repeat N = 1,024 with 2 times the steps and with more seeds"
    assert str(words) == f"{words.sentence} To find out, {words.next_run}."
    assert str(Limit("data", "It is data.")) == "It is data."


def test_two_sizes_show_a_fall_and_one_does_not() -> None:
    assert limit(kr.Curve([16, 64], [0.8, 0.2])).kind == "data"
    assert limit(kr.Curve([64], [0.2])).kind == "unknown"


@pytest.mark.parametrize(("first", "kind"), [(0.111, "unknown"), (0.113, "data")])
def test_a_fall_of_less_than_a_tenth_is_none(first: float, kind: str) -> None:
    """Many equal seeds: a mean is known to 1%, and the fall to a few per cent."""
    n = np.array([100, 200, 400, 600, 800, 1000])
    x = np.log(n / 1000)
    means = 0.1 * np.exp(math.log(first / 0.1) * x / x[0])
    seeds = [str(seed) for seed in range(4)] * len(n)
    curve = kr.Curve(np.repeat(n, 4), np.repeat(means, 4), seeds)
    assert limit(curve).kind == kind


@pytest.mark.parametrize("excess", [0.98, 1.02])
def test_seeds_say_how_far_training_must_beat_its_baseline(excess: float) -> None:
    noise = np.tile([0.9, 1.0, 1.1], 4)
    curve = kr.Curve(np.repeat(N, 3), np.repeat(FALLING.means, 3) * noise, ["0", "1", "2"] * 4)
    variance = relative_variance(curve)
    assert variance is not None
    baseline = 0.5 * math.exp(2 * math.sqrt(variance[-1]) * excess)
    words = limit(curve, Evidence(baseline=baseline)).sentence
    assert ("training has added nothing" in words) == (excess < 1)
    if excess < 1:
        added = f" At N = 1,024 it is 0.5, no better than {baseline:.4g} without training: "
        assert words.endswith(f"{added}training has added nothing.")


@pytest.mark.parametrize("excess", [0.98, 1.02])
@pytest.mark.parametrize(("n", "index"), [(16, 0), (20, 1), (64, 1), (65, 2), (4096, 2)])
def test_the_noise_of_a_probe_is_that_of_its_size(n: int, index: int, excess: float) -> None:
    """Seeds scatter less with N; a probe between two sizes has the noise of the larger one."""
    scatter = np.array([0.5, 1.5, 0.7, 1.3, 0.9, 1.1])
    curve = kr.Curve(np.repeat([16, 64, 256], 2), 0.5 * scatter, ["0", "1"] * 3)
    variance = relative_variance(curve)
    assert variance is not None
    error = math.sqrt(2 * variance[index] * 2)  # of two runs, by the variance of a mean of two
    probe = Longer(n=n, factor=9, errors=[0.5 * math.exp(-2 * error * excess)], before=[0.5])
    assert (limit(curve, Evidence(longer=probe)).kind == "training") == (excess > 1)


@pytest.mark.parametrize(("spread", "kind"), [(0.105, "training"), (0.112, "unknown")])
def test_the_differences_of_pairs_have_their_own_noise(spread: float, kind: str) -> None:
    """Two gains of log 0.8 plus and minus a spread: their mean deviates by the spread."""
    after = 0.5 * 0.8 * np.exp([-spread, spread])
    probe = Longer(n=1024, factor=4, errors=after.tolist(), before=[0.5, 0.5])
    assert limit(FLAT, Evidence(longer=probe)).kind == kind
    # What seeds have in common cancels: the same gain for a good and a bad one.
    seeds = [0.4, 0.6]
    probe = Longer(n=1024, factor=4, errors=[0.8 * error for error in seeds], before=seeds)
    assert limit(FLAT, Evidence(longer=probe)).kind == "training"


def test_pairs_that_agree_have_a_quarter_of_the_unpaired_variance() -> None:
    """Two pairs of single seeds of 5%: 2 sqrt(0.25 * 2 * 0.05^2 / 2) is a gain of 5%."""
    n = np.repeat(np.arange(64, 74), 2)
    scatter = np.tile([0.8, 1.2], 10)
    curve = kr.Curve(n, 0.5 * scatter, ["0", "1"] * 10)
    variance = relative_variance(curve)
    assert variance is not None
    for excess, kind in ((0.97, False), (1.03, True)):
        gain = excess * 2 * math.sqrt(0.25 * 2 * variance[-1] * 2 / 2)
        probe = Longer(n=73, factor=4, errors=[0.5 * math.exp(-gain)] * 2, before=[0.5] * 2)
        assert (limit(curve, Evidence(longer=probe)).kind == "training") == kind
        # As many values of different number are no pairs.
        alone = Longer(n=73, factor=4, errors=[0.5 * math.exp(-gain)] * 2, before=[0.5] * 3)
        assert limit(curve, Evidence(longer=alone)).kind != "training"


def test_evidence_is_checked() -> None:
    assert Longer(n=2, factor=1.5, errors=[1], before=(2, 3)).before == (2.0, 3.0)
    wrong: dict[str, Any]
    right: dict[str, Any] = {"n": 2, "factor": 2, "errors": [0.1], "before": [0.1]}
    for wrong in ({"n": 1}, {"n": 2.5}, {"factor": 1}, {"errors": "12"}, {"before": []}):
        with pytest.raises(kr.KoriskError, match=f"{next(iter(wrong))} must be"):
            Longer(**right | wrong)
    assert isinstance(Evidence(noise=1, baseline=2).noise, float)
    for wrong in ({"noise": "much"}, {"baseline": [0.1]}, {"training": 0.1}):
        with pytest.raises(kr.KoriskError, match=f"{next(iter(wrong))} must be"):
            Evidence(**wrong)
    assert limit(FALLING, Evidence(noise=0)).kind == "data", "no noise is a value"
    with pytest.raises(kr.KoriskError, match="baseline must be a value in the unit"):
        limit(FALLING, Evidence(baseline=-0.1))


# --- Stored evidence -----------------------------------------------------------------------------

ERROR = Chosen("mse", kr.curves.UNITS["error"])


def fit(n: int, seed: int, value: float, longer: float | None = None, **training: float) -> Any:
    return MeasuredFit(n, seed, value, training, longer)


def test_training_errors_are_those_of_the_usual_fits() -> None:
    fits = [
        fit(16, 0, 0.4, train_mse=0.3),
        fit(16, 1, 0.5, train_mse=0.0),  # a perfect fit of the training samples
        fit(64, 0, 0.2, train_mse=-1.0),  # no error
        fit(64, 1, 0.2, loss=0.1),  # another metric
        fit(64, 2, math.nan, train_mse=0.1),
        fit(64, 3, 0.0, train_mse=0.0),
        fit(64, 4, 0.2, 3.0, train_mse=0.05),
    ]
    evidence = evidence_of(fits, ERROR, "KO")
    assert evidence.training is not None
    assert evidence.training.n.tolist() == [16, 16, 64]
    np.testing.assert_allclose(evidence.training.error, [0.3, 0.5e-6, 1e-100])
    assert evidence.training.model == "KO"
    assert evidence.longer is None, "no seed has both trainings"
    assert evidence_of([], ERROR, "KO") == Evidence()


def test_the_longest_training_of_the_largest_size_counts_in_pairs() -> None:
    fits = [
        *(fit(n, seed, 0.1 * n + seed) for n in (16, 64) for seed in (1, 2, 3)),
        fit(16, 1, 0.9, 9.0),
        fit(64, 1, 0.8, 2.0),
        fit(64, 1, 0.7, 3.0),
        fit(64, 2, 0.6, 3.0),
        fit(64, 4, 0.5, 3.0),  # without the usual training
        fit(64, 3, math.nan, 3.0),
    ]
    evidence = evidence_of(fits, ERROR, "KO")
    assert evidence.training is None
    assert evidence.longer == Longer(n=64, factor=3.0, errors=[0.7, 0.6], before=[7.4, 8.4])

"""What limits the error: shares at their thresholds, the sentences, and what stores hold."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import korisk as kr
from korisk.curves.noise import ONE_SEED, relative_variance
from korisk.curves.stored import Chosen, MeasuredFit
from korisk.planning import Limit, Longer, limit
from korisk.planning.pilot import read_training, training_of

N = np.array([16, 64, 256, 1024])
# Errors and shares that are sums of powers of two, so that quotients are exact.
FALLING = kr.Curve(N, [4.0, 2.0, 1.0, 0.5])
FLAT = kr.Curve(N, [0.5, 0.5, 0.5, 0.5])
LAST = 0.5
TRAIN = "train N = 1,024 once with 3 times the steps"
LARGER = "train a larger network at N = 1,024"
MEASURE = "measure the training error at N = 1,024"
OTHER = "test N = 1,024 on new samples that are drawn like the training samples"


def training(share: float, curve: kr.Curve = FALLING) -> kr.Curve:
    return kr.Curve(N, share * curve.means)


def longer(share: float, factor: float = 4, pairs: int = 40) -> Longer:
    """Training whose fourfold length removes half of a share of the error, in many pairs."""
    after = 0.5 * (1 - share * (1 - factor**-0.5))
    return Longer(n=1024, factor=factor, errors=[after] * pairs, before=[0.5] * pairs)


@pytest.mark.parametrize(
    ("curve", "known", "target", "kind", "next_run"),
    [
        # A gap: more than half of the error, unless four fifths of the rest miss the target.
        (FALLING, {"training": training(0.5)}, None, "unknown", TRAIN),
        (FALLING, {"training": training(0.499)}, None, "data", ""),
        (FALLING, {"training": training(0.25)}, 0.1, "data", ""),
        (FALLING, {"training": training(0.25)}, 0.0999, "unknown", TRAIN),
        (FALLING, {"training": training(1.2)}, None, "unknown", TRAIN),
        # Longer training without a gain, and without a training error.
        (FALLING, {"longer": longer(0.0)}, None, "data", ""),
        (FALLING, {"longer": longer(0.3)}, None, "unknown", MEASURE),
        (FALLING, {"longer": longer(0.35)}, None, "training", ""),
        # All shares known: 10%, 48% or 45% data, and the rest is training, or neither.
        (FALLING, {"longer": longer(0.44), "training": training(0.9)}, None, "unknown", LARGER),
        (FALLING, {"longer": longer(0.46), "training": training(0.9)}, None, "training", ""),
        (FALLING, {"longer": longer(0.24), "training": training(0.52)}, None, "data", ""),
        (FALLING, {"longer": longer(0.0), "training": training(0.55)}, None, "unknown", LARGER),
        (FALLING, {"longer": longer(0.0), "training": training(0.25)}, 0.1, "data", ""),
        (FALLING, {"longer": longer(0.0), "training": training(0.25)}, 0.05, "unknown", LARGER),
        # Of a flat error, no part is a lack of data.
        (FLAT, {}, None, "unknown", TRAIN),
        (FLAT, {"training": training(0.1, FLAT)}, None, "unknown", TRAIN),
        (FLAT, {"longer": longer(0.0)}, None, "unknown", LARGER),
        (FLAT, {"longer": longer(0.25)}, None, "training", ""),
        # A gap that neither data nor training closes.
        (FLAT, {"longer": longer(0.0), "training": training(0.5, FLAT)}, None, "unknown", LARGER),
        (FLAT, {"longer": longer(0.0), "training": training(0.49, FLAT)}, None, "unknown", OTHER),
        (FLAT, {"longer": longer(0.9), "training": training(0.2, FLAT)}, None, "training", ""),
    ],
)
def test_every_share_has_its_threshold(
    curve: kr.Curve, known: dict[str, Any], target: float | None, kind: str, next_run: str
) -> None:
    result = limit(curve, target, **known)
    assert (result.kind, result.next_run) == (kind, next_run)


FALL = "the error still falls with N, from 2 at N = 64 to 0.5 at N = 1,024"
LEVEL = "the error does not fall with N beyond noise, from 0.5 at N = 64 to 0.5 at N = 1,024"
GAP = "at N = 1,024 the error is 0.125 on training samples and 0.5 on test samples"
NONE = (
    "at N = 1,024, 4 times the training changes it from 0.5 to 0.5, which is no gain beyond noise"
)
GAIN = "at N = 1,024, 4 times the training takes it from 0.5 to 0.25"


@pytest.mark.parametrize(
    ("curve", "known", "sentence"),
    [
        (FALLING, {}, f"The amount of data limits the error: {FALL}."),
        (FALLING, {"training": training(0.25)}, f"The amount of data limits the error: {GAP}."),
        (FALLING, {"longer": longer(0.0)}, f"The amount of data limits the error: {FALL}; {NONE}."),
        (FLAT, {"longer": longer(1.0)}, f"Training limits the error: {GAIN}."),
        (FLAT, {"longer": longer(0.0)}, f"What limits the error is not known: {LEVEL}; {NONE}."),
        (
            FLAT,
            {"training": training(0.25, FLAT)},
            f"What limits the error is not known: {LEVEL}; {GAP}.",
        ),
    ],
)
def test_the_sentence_has_what_was_measured(
    curve: kr.Curve, known: dict[str, Any], sentence: str
) -> None:
    assert limit(curve, **known).sentence == sentence


def test_scores_rise_and_metrics_have_their_name() -> None:
    score = kr.Curve(N, 1 - np.array([0.4, 0.2, 0.1, 0.05]), unit="accuracy", metric="dice")
    on_training = kr.Curve([16, 256], [0.9, 0.99], unit="accuracy")
    words = limit(score, training=on_training).sentence
    assert words == (
        "The amount of data limits the accuracy: at N = 256 the dice is 0.99 on training samples "
        "and 0.9 on test samples."
    )
    rising = limit(score).sentence
    assert "the accuracy still rises with N, from 0.8 at N = 64 to 0.95 at N = 1,024" in rising


def test_noise_in_a_longer_run_is_named() -> None:
    noisy = Longer(n=1024, factor=2, errors=[0.47], before=[0.5])
    words = limit(FLAT, longer=noisy)
    assert "2 times the training changes it from 0.5 to 0.47, with too much noise" in words.sentence
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
@pytest.mark.parametrize(("n", "index"), [(16, 0), (20, 1), (64, 1), (65, 2), (4096, 2)])
def test_the_noise_of_a_probe_is_that_of_its_size(n: int, index: int, excess: float) -> None:
    """Seeds scatter less with N; a probe between two sizes has the noise of the larger one."""
    scatter = np.array([0.5, 1.5, 0.7, 1.3, 0.9, 1.1])
    curve = kr.Curve(np.repeat([16, 64, 256], 2), 0.5 * scatter, ["0", "1"] * 3)
    variance = relative_variance(curve)
    assert variance is not None
    error = math.sqrt(2 * variance[index] * 2)  # of two runs, by the variance of a mean of two
    probe = Longer(n=n, factor=9, errors=[0.5 * math.exp(-2 * error * excess)], before=[0.5])
    assert (limit(curve, longer=probe).kind == "training") == (excess > 1)


@pytest.mark.parametrize(("spread", "kind"), [(0.105, "training"), (0.112, "unknown")])
def test_the_differences_of_pairs_have_their_own_noise(spread: float, kind: str) -> None:
    """Two gains of log 0.8 plus and minus a spread: their mean deviates by the spread."""
    after = 0.5 * 0.8 * np.exp([-spread, spread])
    probe = Longer(n=1024, factor=4, errors=after.tolist(), before=[0.5, 0.5])
    assert limit(FLAT, longer=probe).kind == kind
    # What seeds have in common cancels: the same gain for a good and a bad one.
    seeds = [0.4, 0.6]
    probe = Longer(n=1024, factor=4, errors=[0.8 * error for error in seeds], before=seeds)
    assert limit(FLAT, longer=probe).kind == "training"


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
        assert (limit(curve, longer=probe).kind == "training") == kind
        # As many values of different number are no pairs.
        alone = Longer(n=73, factor=4, errors=[0.5 * math.exp(-gain)] * 2, before=[0.5] * 3)
        assert limit(curve, longer=alone).kind != "training"


@pytest.mark.parametrize(("gain", "kind"), [(0.112, "unknown"), (0.114, "training")])
def test_a_gain_by_longer_training_exceeds_two_standard_errors(gain: float, kind: str) -> None:
    """Single seeds are taken to deviate by 4%: the difference of two by sqrt(2) times that."""
    run = Longer(n=1024, factor=4, errors=[0.05 * math.exp(-gain)], before=[0.05])
    assert 2 * ONE_SEED * math.sqrt(2) == pytest.approx(0.1131, abs=1e-4)
    assert limit(FLAT, longer=run).kind == kind
    # Three runs against one, which are no pairs, have a standard error of sqrt(1/3 + 1).
    # A gain of less than a tenth never counts.
    error = max(2 * ONE_SEED * math.sqrt(1 / 3 + 1), -math.log1p(-0.1))
    for factor, known in ((0.98, "unknown"), (1.02, "training")):
        after = [0.05 * math.exp(-factor * error)] * 3
        run = Longer(n=1024, factor=9, errors=after, before=[0.05])
        assert limit(FLAT, longer=run).kind == known


@pytest.mark.parametrize(("gain", "kind"), [(0.103, "unknown"), (0.108, "training")])
def test_a_gain_by_longer_training_is_at_least_a_tenth(gain: float, kind: str) -> None:
    """Twenty pairs leave an error of a few per cent: a fall below 10% counts as none."""
    before, after = [0.05] * 20, [0.05 * math.exp(-gain)] * 20
    run = Longer(n=1024, factor=9, errors=after, before=before)
    assert limit(FLAT, longer=run).kind == kind


@pytest.mark.parametrize(("after", "kind"), [(0.835, "unknown"), (0.83, "training")])
def test_of_a_falling_curve_training_needs_a_third(after: float, kind: str) -> None:
    """Four times the training removes at least half of what training can remove."""
    run = Longer(n=1024, factor=4, errors=[after * LAST], before=[LAST])
    result = limit(FALLING, longer=run)
    share = (1 - after) / (1 - 4**-0.5)
    assert result.kind == kind == ("training" if share > 1 / 3 else "unknown")
    if kind == "unknown":
        assert result.next_run == "measure the training error at N = 1,024"
    assert f"4 times the training takes it from {LAST:.4g} to {after * LAST:.4g}" in result.sentence


@pytest.mark.parametrize(
    ("excess", "next_run"),
    [(0.99, LARGER), (1.01, "repeat N = 1,024 with 2 times the steps and with more seeds")],
)
def test_a_noisy_run_may_hide_that_training_is_most(excess: float, next_run: str) -> None:
    """Nothing is known where gain and two standard errors could be half of the error."""
    noise = 2 * ONE_SEED * math.sqrt(2)
    # Twice the training removes at least 1 - 1 / sqrt(2) of what training can remove.
    gain = -math.log1p(-0.5 * (1 - 2**-0.5)) * excess - noise
    run = Longer(n=1024, factor=2, errors=[0.05 * math.exp(-gain)], before=[0.05])
    result = limit(FLAT, longer=run)
    assert (result.kind, result.next_run) == ("unknown", next_run)


@pytest.mark.parametrize(("excess", "kind"), [(0.98, "unknown"), (1.02, "data")])
def test_a_fall_over_the_last_decade_exceeds_three_standard_errors(
    excess: float, kind: str
) -> None:
    n = np.array([100, 200, 400, 1000])
    x = np.log(n / n[-1])
    error = ONE_SEED / math.sqrt(((x - x.mean()) ** 2).sum()) * (x[-1] - x[0])  # of the fall
    curve = kr.Curve(n, 0.1 * np.exp(-excess * 3 * error * (x - x[0]) / (x[-1] - x[0])))
    result = limit(curve)
    assert result.kind == kind
    ends = f"from 0.1 at N = 100 to {curve.means[-1]:.4g} at N = 1,000"
    assert ends in result.sentence
    if kind == "unknown":
        assert result.next_run == "train N = 1,000 once with 3 times the steps"
    # A size more than a decade before the last does not count, unless three would be left out.
    early = kr.Curve([99, 400, 700, 1000], [9.0, 0.1, 0.1, 0.1])
    assert limit(early).kind == "unknown"
    assert "from 0.1 at N = 400" in limit(early).sentence
    three = kr.Curve([4, 40, 1000], [9.0, 0.5, 0.1])
    assert "from 9 at N = 4 to 0.1 at N = 1,000" in limit(three).sentence


def test_a_longer_run_is_checked() -> None:
    assert Longer(n=2, factor=1.5, errors=[1], before=(2, 3)).before == (2.0, 3.0)
    right: dict[str, Any] = {"n": 2, "factor": 2, "errors": [0.1], "before": [0.1]}
    wrong: list[dict[str, Any]] = [{"n": 1}, {"n": 2.5}, {"factor": 1}, {"errors": "12"}]
    for fields in [*wrong, {"before": []}, {"errors": ["much"]}]:
        with pytest.raises(kr.KoriskError, match=f"{next(iter(fields))} must be"):
            Longer(**right | fields)


# --- What a store holds --------------------------------------------------------------------------

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
    on_training, run = training_of(fits, ERROR, "KO")
    assert on_training is not None
    assert on_training.n.tolist() == [16, 16, 64]
    np.testing.assert_allclose(on_training.error, [0.3, 0.5e-6, 1e-100])
    assert on_training.model == "KO"
    assert run is None, "no seed has both trainings"
    assert training_of([], ERROR, "KO") == (None, None)


def test_a_table_holds_neither_training_errors_nor_a_longer_run(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("n,error\n4,0.5\n8,0.3\n")
    assert read_training(table, kr.Curve.read(table)) == (None, None)


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
    run = Longer(n=64, factor=3.0, errors=[0.7, 0.6], before=[7.4, 8.4])
    assert training_of(fits, ERROR, "KO") == (None, run)

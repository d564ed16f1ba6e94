"""Linear networks in a rehearsal: fitted exactly, at every N from one matrix."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import korisk as kr
from korisk.fitting import DenseRidge, DiagonalRidge, Scorer, tail_gram
from korisk.networks import DenseNet, KnownOperatorNet
from korisk.operators import Diagonal, LinearOperator, Matrix, ParallelBeam, Projector, fbp
from korisk.prediction import Training
from korisk.problems import CtProblem, CtScanner, Gaussian

FEW: dict[str, Any] = {"sizes": (4, 8, 16, 32), "seeds": 2}
SCAN = ParallelBeam(8, views=6, bins=12)
PROBLEM = CtProblem(
    scanner=CtScanner(side=8, views=6, bins=12, beam="parallel"), noise=Gaussian(0.05)
)


def dense() -> DenseNet:
    empty = torch.zeros(64, 0, dtype=torch.float64), torch.zeros(0, 72, dtype=torch.float64)
    return DenseNet.factored(*empty, (6, 12), (8, 8), relu=False)


def known() -> KnownOperatorNet:
    weights, tail = PROBLEM.reconstruction("cpu")
    return KnownOperatorNet(weights, tail, relu=True)


@pytest.mark.parametrize("build", [dense, known])
def test_errors_are_those_of_a_fit_to_the_pairs_of_each_seed(build: Any) -> None:
    few = FEW | {"sizes": (4, 8, 32, 128)}  # below and above the number of inputs, 72
    made = kr.rehearse(build, PROBLEM, model="net", **few)
    assert "fitted exactly" in made.simulated
    for seed in (0, 1):
        pools = PROBLEM.pools(seed=seed, train=128, validation=64, test=256)
        network = build()
        if build is dense:
            ridge: Any = DenseRidge(*pools.train, relu=False)
        else:
            tail, toward = network.linear_tail, network.weights
            gram = tail_gram(tail)
            ridge = DiagonalRidge(tail, *pools.train, toward=toward, relu=True, gram=gram)
        for n in few["sizes"]:
            fit = ridge.training(n).fit(scorer=Scorer(*pools.validation))
            off = fit.predict(pools.test.inputs) - pools.test.targets
            (error,) = made.curve.error[
                (made.curve.n == n) & (np.array(made.curve.seed) == str(seed))
            ]
            assert error == pytest.approx(float(off.square().mean()), rel=1e-4)


def test_a_matrix_in_memory_and_one_in_empty_factors_are_one_layer() -> None:
    whole = kr.rehearse(lambda: DenseNet((6, 12), (8, 8), relu=False), PROBLEM, **FEW)
    empty = kr.rehearse(dense, PROBLEM, **FEW)
    assert whole.parameters == empty.parameters == 72 * 64
    np.testing.assert_allclose(whole.curve.error, empty.curve.error, rtol=1e-3)  # float32


def test_it_is_what_long_training_comes_near() -> None:
    """Of weights in front of known operators, from the same pairs."""
    exact = kr.rehearse(known, PROBLEM, **FEW)
    training = Training(steps=500, rate=0.01, exact=False)
    trained = kr.rehearse(known, PROBLEM, training=training, **FEW)
    assert "500 steps" in trained.simulated
    np.testing.assert_allclose(exact.curve.means, trained.curve.means, rtol=0.1)


def test_eight_weights_need_fewer_samples_than_a_matrix_by_as_much_as_is_known() -> None:
    """White inputs and noise: errors are floor + s^2 p / N with p = 8 and 1 weights an output."""
    rng = np.random.default_rng(0)
    gains = torch.from_numpy(rng.uniform(0.5, 2.0, 8))
    operator, images = Diagonal(gains).double(), rng.standard_normal((600, 8))

    def weights() -> KnownOperatorNet:
        return KnownOperatorNet(torch.ones(8), Matrix(torch.eye(8).double()), relu=False)

    def matrix() -> DenseNet:
        return DenseNet(8, 8, matrix=torch.zeros(8, 8).double(), relu=False)

    how: dict[str, Any] = {"sizes": (16, 32, 64, 128, 256), "augment": lambda same, _: same}
    few, many = (
        kr.rehearse(build, operator, images, 0.3, seeds=3, **how) for build in (weights, matrix)
    )
    assert (few.parameters, many.parameters) == (8, 64)
    floors = [float(made.curve.means[-1]) for made in (few, many)]
    excess = [float(many.curve.means[k]) - floors[0] for k in range(3)]
    assert excess[0] > 1.5 * excess[1] > 2.2 * excess[2] > 0
    assert abs(few.curve.means[0] / floors[0] - 1) < 0.1
    target = float(many.curve.means[1])
    ratio = kr.Comparison(*(made.forecast().plan(target) for made in (few, many))).ratio_range
    assert ratio is not None
    assert ratio[0] <= 8 <= ratio[1] or ratio[0] > 1


def test_finished_fits_are_kept_and_a_fit_of_ones_own_replaces_them(tmp_path: Any) -> None:
    first = kr.rehearse(known, PROBLEM, folder=tmp_path, **FEW)
    files = set(tmp_path.iterdir())
    assert len(files) == 8
    again = kr.rehearse(known, PROBLEM, folder=tmp_path, **FEW)
    assert set(tmp_path.iterdir()) == files
    assert again.curve.error.tolist() == first.curve.error.tolist()
    trained = Training(steps=10, exact=False)
    kr.rehearse(known, PROBLEM, folder=tmp_path, training=trained, **FEW)
    assert len(set(tmp_path.iterdir())) == 17  # one of them for twice the steps

    def nothing(network: nn.Module, *pairs: Tensor) -> None:
        pass

    untrained = kr.rehearse(known, PROBLEM, training=Training(fit=nothing), **FEW)
    assert "your own function" in untrained.simulated
    assert np.ptp(untrained.curve.means) < 1e-6


def test_networks_of_other_shapes_are_refused_and_other_networks_are_trained() -> None:
    with pytest.raises(kr.KoriskError, match=r"net must map inputs to images, .* got"):
        kr.rehearse(lambda: DenseNet((6, 11), (8, 8)), PROBLEM, model="net", **FEW)
    scan: LinearOperator = Projector(SCAN)
    quick = Training(steps=10)
    made = kr.rehearse(lambda: fbp(SCAN, trainable=True), scan, training=quick, **FEW)
    assert "10 steps" in made.simulated


def test_the_level_and_the_copies_of_examples_are_those_of_any_network() -> None:
    draws = torch.Generator().manual_seed(0)
    images = torch.rand(30, 8, 8, generator=draws, dtype=torch.float64)
    made = kr.rehearse(dense, Projector(SCAN, dtype=torch.float64), images, 0.1, **FEW)
    assert made.unaltered < 32
    assert made.distinct is not None
    assert made.distinct.sizes.tolist() == [5, 9, 17]
    assert made.level > 0

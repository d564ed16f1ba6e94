"""The algebra of operators, and their norms."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from korisk import operators as ops
from korisk.errors import KoriskError
from korisk.operators import norms
from korisk.operators.linear import LinearOperator


def matrix(rows: int, columns: int, seed: int = 0) -> ops.Matrix:
    generator = torch.Generator().manual_seed(seed)
    return ops.Matrix(torch.randn(rows, columns, dtype=torch.float64, generator=generator))


def dense(operator: LinearOperator) -> Tensor:
    return operator.as_matrix()


def test_algebra_is_that_of_matrices() -> None:
    a, b, c = matrix(4, 5), matrix(5, 3, 1), matrix(4, 5, 2)
    torch.testing.assert_close(dense(a @ b), dense(a) @ dense(b))
    torch.testing.assert_close(dense((a @ b).T), dense(b).t() @ dense(a).t())
    torch.testing.assert_close(dense(2 * a - c / 4), 2 * dense(a) - dense(c) / 4)
    torch.testing.assert_close(dense(-a), -dense(a))
    torch.testing.assert_close(dense(sum([a, c])), dense(a) + dense(c))  # type: ignore[arg-type]
    torch.testing.assert_close(dense(ops.stack(a, c)), torch.cat([dense(a), dense(c)]))
    assert a.T.T is a
    x = torch.randn(2, 5, dtype=torch.float64)
    torch.testing.assert_close(a @ x, a(x))
    a.name, c.name = "A", "C"
    names = [(a.T @ c).name, (a - c).name, ops.stack(a, c).name, (2 * a).name]
    assert names == ["A^T C", "(A + -C)", "[A; C]", "A"]


def test_moving_a_part_moves_what_was_made_of_it_unless_it_moves_parts_apart() -> None:
    a = ops.Matrix(torch.randn(3, 3))
    combined = [a.T, 2 * a, a + ops.Identity(3), ops.stack(a, a), a @ a]
    a.to(torch.float64)
    x = torch.randn(3, dtype=torch.float64)
    for operator in (combined[0], combined[1], combined[3], combined[4]):
        assert operator.dtype == torch.float64
        operator(x)
    a, w = ops.Matrix(torch.randn(3, 3)), ops.Diagonal(torch.ones(3))
    operators = [w @ a, w + a, ops.stack(a, w), 2 * (w @ a), (w @ a).T]
    a.to(torch.float64)
    for operator in operators:
        with pytest.raises(KoriskError, match=r"bring them together with \.to"):
            operator(torch.zeros(3, dtype=operator.dtype))


def test_autocast_does_not_round_and_weights_follow_the_precision_from_scratch() -> None:
    a, x = ops.Matrix(torch.randn(30, 30)), torch.randn(30)
    exact = a.matrix @ x
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (a.matrix @ x).dtype == torch.bfloat16  # what would happen without care
        torch.testing.assert_close(a(x), exact)
    # Converted from float32, the weights of a projector would be wrong in the eighth digit.
    geometry = ops.ParallelBeam(8, views=5, bins=9, pixel_spacing=1.1)
    converted = ops.Projector(geometry).to(torch.float64)
    made = ops.Projector(geometry, dtype=torch.float64)
    assert torch.equal(converted.as_matrix(), made.as_matrix())


def iterated(operator: LinearOperator, seed: int = 0) -> tuple[float, float]:
    """The bracket that an operator without special knowledge of itself gets."""
    bracket = LinearOperator._norm(operator.in_double(), 0.01, seed)
    return bracket.lower, bracket.upper


def test_norms_of_the_papers_scanner() -> None:
    f = ops.fbp(ops.ParallelBeam(128, views=60, bins=128), backprojection="adjoint")
    known = {"K": (f["K"], 0.0260), "A^T": (f["A^T"], 85.72), "A^T K": (f["A^T"] @ f["K"], 0.3169)}
    for name, (operator, truth) in known.items():
        bracket = operator.norm()
        assert bracket.lower * (1 - 2e-3) <= truth <= bracket.upper, name
        assert bracket.upper <= 1.01 * truth * (1 + 1e-3), name
    assert "probability < 1e-06" in bracket.how


@given(
    rows=st.integers(1, 30),
    columns=st.integers(1, 30),
    seed=st.integers(0, 10**6),
    exponent=st.sampled_from([-170, -3, 0, 5, 140]),
    decay=st.floats(0, 3),
)
def test_iterated_brackets_hold_the_largest_singular_value(
    rows: int, columns: int, seed: int, exponent: int, decay: float
) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.standard_normal((rows, columns)) * np.exp(-decay * np.arange(columns))
    truth = float(np.linalg.norm(matrix, 2))
    lower, upper = iterated(ops.Matrix(torch.from_numpy(matrix * 10.0**exponent)), seed=seed)
    assert lower / 10.0**exponent <= truth * (1 + 1e-9)
    assert truth <= upper / 10.0**exponent * (1 + 1e-9)
    assert upper <= lower * 1.011


@pytest.mark.parametrize("seed", range(8))
def test_brackets_hold_where_many_singular_values_crowd_the_top(seed: int) -> None:
    # Large enough that Lanczos stops before its end, and slow to converge: the top is a crowd.
    n, width = 400, 0.03
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    singular = 1 - 0.2 * (np.arange(n) / n) ** 2
    operator = ops.Matrix(torch.from_numpy((left * singular) @ right.T))
    bracket = LinearOperator._norm(operator, width, seed)
    assert bracket == LinearOperator._norm(operator, width, seed)  # by the seed
    assert bracket.lower <= 1 + 1e-9
    assert bracket.upper >= 1 - 1e-9
    assert bracket.upper / bracket.lower == pytest.approx(1 + width, rel=1e-3)


class Complement(LinearOperator):
    """x - v (v.x), the projection onto the complement of a unit vector v: norm 1."""

    def __init__(self, vector: Tensor) -> None:
        shape = tuple(vector.shape)
        super().__init__(shape, shape, name="P", device="cpu", dtype=torch.float64)
        self.vector = vector / vector.norm()

    def _map(self, x: Tensor) -> Tensor:
        along: Tensor = (x @ self.vector)[..., None] * self.vector
        return x - along

    def _map_adjoint(self, y: Tensor) -> Tensor:
        return self._map(y)


@pytest.mark.parametrize("seed", range(3))
def test_a_projection_that_removes_what_a_user_draws_has_norm_one(seed: int) -> None:
    torch.manual_seed(seed)
    bracket = Complement(torch.randn(50, dtype=torch.float64)).norm(seed=seed)
    assert bracket.lower <= 1 + 1e-9 <= bracket.upper + 1e-8
    assert bracket.lower > 0.98


def test_another_start_is_taken_where_the_first_is_removed() -> None:
    removed = norms.start((50,), 0)
    bracket = Complement(removed).norm()
    assert bracket.lower == pytest.approx(1, rel=0.02)
    # A weaker part that the first start does see, and a stronger one that it does not.
    strong = norms.drawn((50,), 0, "a direction of this test")
    strong = strong - (strong @ removed) / (removed @ removed) * removed
    strong = strong / strong.norm()
    spread = Complement(removed).as_matrix() * 0.25 + torch.outer(strong, strong)
    whole = spread + 0.25 * torch.outer(removed, removed) / (removed @ removed)
    found = LinearOperator._norm(ops.Matrix(whole), 0.01, 0)
    assert found.upper >= float(torch.linalg.matrix_norm(whole, 2)) * (1 - 1e-9)


def test_lanczos_takes_the_steps_that_the_theorem_asks_for() -> None:
    n, width = 20_000, 0.01
    operator = ops.RampFilter((1, n), dtype=torch.float64)
    bracket = LinearOperator._norm(operator, width, 0)
    (steps,) = (int(word) for word in bracket.how.split() if word.isdigit())
    eps = 1 - (bracket.lower / bracket.upper) ** 2
    chance = 1.648 * math.sqrt(n) * math.exp(-math.sqrt(eps) * (2 * steps - 1))
    assert 1e-7 < chance < 1e-6 * (1 + 1e-4)


@given(
    rows=st.integers(1, 25),
    columns=st.integers(1, 25),
    seed=st.integers(0, 10**6),
    empty=st.floats(0, 0.95),
)
def test_brackets_of_nonnegative_matrices_are_certain(
    rows: int, columns: int, seed: int, empty: float
) -> None:
    rng = np.random.default_rng(seed)
    matrix = rng.uniform(size=(rows, columns)) * (rng.uniform(size=(rows, columns)) > empty)
    truth = float(np.linalg.norm(matrix, 2))
    operator = ops.Matrix(torch.from_numpy(matrix))
    assert operator.nonnegative
    lower, upper = iterated(operator)
    assert lower <= truth * (1 + 1e-9)
    assert truth <= upper * (1 + 1e-9)
    schur = np.sqrt(matrix.sum(1).max() * matrix.sum(0).max())
    assert upper <= schur * (1 + 1e-9)


def test_zero_has_norm_zero_and_nan_has_none() -> None:
    assert iterated(ops.Matrix(torch.zeros(3, 4))) == (0.0, 0.0)
    assert (0 * ops.Matrix(torch.randn(3, 4))).norm().upper == 0.0
    operator = ops.Matrix(torch.eye(3))
    operator.matrix[0, 0] = float("nan")
    with pytest.raises(KoriskError, match="gives NaN or infinity"):
        iterated(operator)


@pytest.mark.parametrize("scale", [1e-200, 1.0, 1e200])
@pytest.mark.parametrize("shape", [(5, 3), (3, 5), (4, 4)])
def test_spectral_norms_survive_a_failed_decomposition(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int], scale: float
) -> None:
    rng = np.random.default_rng(3)
    matrices = scale * rng.standard_normal((3, *shape))
    matrices[1] = np.outer(matrices[1, :, 0], np.ones(shape[1]))  # rank one
    matrices[2] = 0
    exact = np.linalg.norm(matrices, 2, (-2, -1))
    values: Any = torch.linalg.matrix_norm

    def fails(given: Tensor, kind: int) -> Any:
        return values(given.nan_to_num(), kind) * torch.tensor([1.0, torch.nan, torch.nan])

    monkeypatch.setattr(torch.linalg, "matrix_norm", fails)
    largest = norms.largest_singular_value(torch.from_numpy(matrices))
    np.testing.assert_allclose(largest.numpy(), exact, rtol=1e-12)
    matrices[0, 0, 0] = np.inf  # what is not known stays unknown
    assert norms.largest_singular_value(torch.from_numpy(matrices))[1].isnan()

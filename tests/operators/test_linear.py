"""The algebra of operators, and what every operator promises about itself."""

import pytest
import torch
from torch import Tensor

from korisk.errors import KoriskError
from korisk.operators import Diagonal, Identity, Matrix, ParallelBeam, Projector, stack
from korisk.operators.linear import LinearOperator


def matrix(rows: int, columns: int, seed: int = 0) -> Matrix:
    generator = torch.Generator().manual_seed(seed)
    return Matrix(torch.randn(rows, columns, dtype=torch.float64, generator=generator))


def dense(operator: LinearOperator) -> Tensor:
    return operator.as_matrix()


def test_algebra_is_that_of_matrices() -> None:
    a, b, c = matrix(4, 5), matrix(5, 3, 1), matrix(4, 5, 2)
    torch.testing.assert_close(dense(a @ b), dense(a) @ dense(b))
    torch.testing.assert_close(dense((a @ b).T), dense(b).t() @ dense(a).t())
    torch.testing.assert_close(dense(2 * a - c / 4), 2 * dense(a) - dense(c) / 4)
    torch.testing.assert_close(dense(-a), -dense(a))
    torch.testing.assert_close(dense(sum([a, c])), dense(a) + dense(c))  # type: ignore[arg-type]
    torch.testing.assert_close(dense(stack(a, c)), torch.cat([dense(a), dense(c)]))
    assert a.T.T is a
    x = torch.randn(2, 5, dtype=torch.float64)
    torch.testing.assert_close(a @ x, a(x))


def test_names_say_what_was_combined() -> None:
    a, b = matrix(4, 5), matrix(4, 5)
    a.name, b.name = "A", "B"
    assert (a.T @ b).name == "A^T B"
    assert (a - b).name == "(A + -B)"
    assert stack(a, b).name == "[A; B]"
    assert (2 * a).name == "A"


def test_moving_a_part_moves_what_was_made_of_it() -> None:
    a = Matrix(torch.randn(3, 3))
    combined = [a.T, 2 * a, a + Identity(3), stack(a, a), a @ a]
    a.to(torch.float64)
    x = torch.randn(3, dtype=torch.float64)
    for operator in (combined[0], combined[1], combined[3], combined[4]):
        assert operator.dtype == torch.float64
        operator(x)


def test_parts_that_were_moved_apart_are_said() -> None:
    a, w = Matrix(torch.randn(3, 3)), Diagonal(torch.ones(3))
    operators = [w @ a, w + a, stack(a, w), 2 * (w @ a), (w @ a).T]
    a.to(torch.float64)
    for operator in operators:
        with pytest.raises(KoriskError, match=r"bring them together with \.to"):
            operator(torch.zeros(3, dtype=operator.dtype))


def test_autocast_does_not_round() -> None:
    a, x = Matrix(torch.randn(30, 30)), torch.randn(30)
    exact = a.matrix @ x
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (a.matrix @ x).dtype == torch.bfloat16  # what would happen without care
        torch.testing.assert_close(a(x), exact)


def test_weights_follow_the_precision_from_scratch() -> None:
    # Converted from float32, the weights of a projector would be wrong in the eighth digit.
    geometry = ParallelBeam(8, views=5, bins=9, pixel_spacing=1.1)
    converted = Projector(geometry).to(torch.float64)
    made = Projector(geometry, dtype=torch.float64)
    assert torch.equal(converted.as_matrix(), made.as_matrix())


def test_second_derivatives_pass() -> None:
    geometry = ParallelBeam(5, views=4, bins=6)
    operator = Projector(geometry, dtype=torch.float64)
    x = torch.randn(5, 5, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(operator(x).square().sum() / 2, x, create_graph=True)
    rows = [
        torch.autograd.grad(entry, x, retain_graph=True)[0].flatten()
        for entry in gradient.flatten()
    ]
    truth = operator.as_matrix().t() @ operator.as_matrix()
    torch.testing.assert_close(torch.stack(rows), truth)

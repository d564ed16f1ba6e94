"""One Krylov space for many lambdas, against direct solves."""

import numpy as np
import pytest
import torch

from korisk.fitting.ridge.krylov import Krylov

SHIFTS = [1e-3, 1e-1, 1.0, 1e2]


def system(size: int, rank: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    factor = torch.randn(size, rank, dtype=torch.float64, generator=generator)
    right = torch.randn(size, dtype=torch.float64, generator=generator)
    return factor @ factor.T / rank, right


@pytest.mark.parametrize(("size", "rank"), [(60, 90), (60, 7), (1, 1)])
def test_every_lambda_is_solved(size: int, rank: int) -> None:
    matrix, right = system(size, rank)
    space = Krylov(lambda x: matrix @ x, right)
    assert space.converge(SHIFTS, tolerance=1e-12, most=200)
    for shift, found in zip(SHIFTS, space.solve(SHIFTS), strict=True):
        exact = torch.linalg.solve(matrix + shift * torch.eye(size, dtype=torch.float64), right)
        assert torch.linalg.vector_norm(found - exact) <= 1e-9 * torch.linalg.vector_norm(exact)


def test_directions_that_hardly_show_are_found_too() -> None:
    values = torch.logspace(-8, 0, 30, dtype=torch.float64)
    right = torch.ones(30, dtype=torch.float64)
    space = Krylov(lambda x: values * x, right)
    space.converge([1e-9], tolerance=1e-13, most=60)
    exact = right / (values + 1e-9)
    (found,) = space.solve([1e-9])
    assert torch.linalg.vector_norm(found - exact) <= 1e-5 * torch.linalg.vector_norm(exact)


def test_residuals_are_true_before_convergence() -> None:
    matrix, right = system(80, 120)
    space = Krylov(lambda x: matrix @ x, right)
    space.extend(9)
    assert space.steps == 9
    for shift, residual, found in zip(
        SHIFTS, space.residuals(SHIFTS), space.solve(SHIFTS), strict=True
    ):
        off = torch.linalg.vector_norm(right - matrix @ found - shift * found)
        assert residual == pytest.approx(float(off / torch.linalg.vector_norm(right)), rel=1e-6)
    assert space.residuals([1e2])[0] < space.residuals([1e-3])[0]


def test_it_goes_on_where_it_stopped() -> None:
    matrix, right = system(50, 80)
    products = []

    def product(x: torch.Tensor) -> torch.Tensor:
        products.append(1)
        return matrix @ x

    space = Krylov(product, right)
    space.converge([1e2], tolerance=1e-10, most=200)
    few = len(products)
    assert not space.converge([1e-9], tolerance=1e-30, most=few)
    assert len(products) == few  # `most` counts the steps of all calls
    space.converge([1e-3], tolerance=1e-10, most=200)
    assert len(products) == space.steps > few


def test_a_right_side_of_zero_is_solved_by_zero() -> None:
    matrix, right = system(5, 9)
    space = Krylov(lambda x: matrix @ x, torch.zeros_like(right))
    assert space.converge(SHIFTS, tolerance=1e-12, most=10)
    assert not space.solve(SHIFTS).any()
    assert np.array_equal(space.residuals(SHIFTS), np.zeros(4))


def test_a_space_that_is_exhausted_ends() -> None:
    matrix, right = system(40, 3)
    space = Krylov(lambda x: matrix @ x, right)
    space.extend(40)
    assert space.exhausted
    assert space.steps <= 6

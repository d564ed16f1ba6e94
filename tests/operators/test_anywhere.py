"""Every operator works where networks are compiled, exported, traced, distributed and loaded."""

from typing import Any

import pytest
import torch
from torch import Tensor

from benchmarks.operators import anywhere
from korisk.operators import (
    Convolution,
    LinearOperator,
    Matrix,
    ParallelBeam,
    Projector,
    Tikhonov,
    fbp,
)

SCAN = ParallelBeam(8, views=6, bins=12)


# A graph without breaks compiles with them too, so that "compile" is left to the benchmark.
SLOW = {"DDP", "export", "forked", "fullgraph"}


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(column, marks=pytest.mark.slow if column in SLOW else ())
        for column in sorted({*anywhere.COLUMNS} - {"CUDA graph", "compile"})
    ],
)
def test_every_row_works(column: str) -> None:
    cells = anywhere.COLUMNS[column](list(anywhere.ROWS), "cpu", "aot_eager")
    assert cells == dict.fromkeys(anywhere.ROWS, "yes")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")
def test_every_row_is_captured() -> None:
    cells = anywhere.COLUMNS["CUDA graph"](list(anywhere.ROWS), "cuda", "inductor")
    assert cells == dict.fromkeys(anywhere.ROWS, "yes")


@pytest.mark.parametrize(
    "make", [lambda: Projector(SCAN), lambda: fbp(SCAN), lambda: Tikhonov(Projector(SCAN), 0.1)]
)
def test_shapes_are_found_without_numbers(make: Any) -> None:
    operator = make()
    away = make().to("meta")
    assert away(torch.empty(2, *operator.domain, device="meta")).shape == (2, *operator.range)
    here = away.to_empty(device="cpu")
    here.load_state_dict(operator.state_dict())  # all that it has; the rest is made again
    x = torch.rand(2, *operator.domain)
    assert torch.equal(here(x), operator(x))


def test_an_exported_inverse_follows_the_weights_or_is_refused() -> None:
    weights = torch.eye(4)
    inverse = Tikhonov(Matrix(weights), 1.0)
    x = torch.ones(4)
    inverse(x)
    inverse.of.matrix.mul_(2)  # type: ignore[operator]
    program = torch.export.export(inverse, (x,), strict=True)
    assert torch.allclose(program.module()(x), torch.full((4,), 0.4))
    with pytest.raises(Exception, match="strict=True"):
        torch.export.export(inverse, (x,), strict=False)


@pytest.mark.skipif(torch.__version__ < "2.13", reason="a limit of older PyTorch, on the page")
def test_a_compiled_inverse_follows_the_weights() -> None:
    inverse = Tikhonov(Matrix(torch.eye(4)), 1.0)
    fast = torch.compile(inverse, backend="aot_eager", fullgraph=True)
    assert torch.allclose(fast(torch.ones(4)), torch.full((4,), 0.5))
    inverse.of.matrix.mul_(2)  # type: ignore[operator]
    assert torch.allclose(fast(torch.ones(4)), torch.full((4,), 0.4))


@pytest.mark.parametrize("compiled", [False, True])
def test_what_is_made_of_weights_follows_them(compiled: bool) -> None:
    first, second = (Convolution((6, 6), kernel) for kernel in torch.rand(2, 3, 3))
    x = torch.rand(6, 6)
    fast: Any = torch.compile(first, backend="aot_eager", fullgraph=True) if compiled else first
    fast(x)
    first.load_state_dict(second.state_dict())
    assert torch.allclose(fast(x), second(x), atol=1e-6)
    other = {"kernel": torch.ones(3, 3)}
    swapped = torch.func.functional_call(first, other, x)
    assert torch.allclose(swapped, Convolution((6, 6), torch.ones(3, 3))(x), atol=1e-5)


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace:DeprecationWarning")
def test_a_program_leaves_the_operator_as_it_is() -> None:
    operator, x = Projector(SCAN), torch.rand(2, 8, 8)
    program = torch.export.export(operator, (x,)).module()
    wanted = operator(x)
    operator.double()
    assert torch.allclose(program(x), wanted)
    assert operator.dtype == torch.float64
    with pytest.raises(ValueError, match="float64"):
        torch.jit.trace(operator, x)  # type: ignore[no-untyped-call]


def test_equal_operators_of_many_blocks_compile_without_a_break() -> None:
    class Step(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.operator = Projector(SCAN)

        def forward(self, x: Tensor) -> Tensor:
            return x - 1e-3 * self.operator.T(self.operator(x))  # type: ignore[no-any-return]

    # Older versions of torch.export leave a hook on buffers behind, which no compiler takes.
    torch.nn.modules.module._global_buffer_registration_hooks.clear()
    steps = torch.nn.Sequential(*(Step() for _ in range(10)))
    for step in steps:
        step.compile(backend="aot_eager", fullgraph=True)
    x = torch.rand(2, 8, 8)
    wanted = x
    for step in steps:
        wanted = step.forward(wanted)
    assert torch.allclose(steps(x), wanted, atol=1e-6)


class Turned(LinearOperator):
    """A phase for every wave of a line, by a view that PyTorch conjugates later."""

    def _map(self, x: Tensor) -> Tensor:
        return torch.fft.irfft(torch.fft.rfft(x) * self.phase(), n=6)  # type: ignore[no-any-return]

    def _map_adjoint(self, y: Tensor) -> Tensor:
        turned = torch.fft.rfft(y) * self.phase().conj()
        return torch.fft.irfft(turned, n=6)  # type: ignore[no-any-return]

    @staticmethod
    def phase() -> Tensor:
        return torch.exp(1j * torch.tensor([0.0, 1.0, 2.0, 0.0]))


def test_lazy_views_of_an_operator_hold_inside_a_compiled_inverse() -> None:
    inverse = Tikhonov(Turned((6,), (6,)), 0.5, solver="cg")
    x = torch.arange(6.0)
    fast = torch.compile(inverse, backend="aot_eager", fullgraph=True)
    assert torch.allclose(fast(x), inverse(x), rtol=1e-5)


def second_derivative(function: Any, x: Tensor) -> Tensor:
    (gradient,) = torch.autograd.grad((function(x) ** 3).sum(), x, create_graph=True)
    return torch.autograd.grad(gradient.square().sum(), x)[0]


def test_a_compiled_operator_is_differentiated_twice_by_vmap_and_after_a_move() -> None:
    operator = Projector(SCAN)
    x = torch.rand(8, 8, requires_grad=True)
    program: Any = torch.export.export(operator, (x,)).module()
    found, wanted = (second_derivative(each, x) for each in (program, operator))
    assert torch.allclose(found, wanted, rtol=1e-4)
    several = torch.rand(8, 3, 8)
    each = torch.vmap(program, in_dims=1)
    assert torch.allclose(each(several), operator(several.movedim(1, 0)), atol=1e-5)
    fast = torch.compile(operator, backend="aot_eager", fullgraph=True)
    fast(x.detach())
    operator.double()
    assert fast(x.detach().double()).dtype == torch.float64


def test_inputs_of_low_precision_are_refused_outside_of_autocast() -> None:
    with pytest.raises(ValueError, match=r"float32.*bfloat16.*autocast"):
        Projector(SCAN)(torch.rand(8, 8, dtype=torch.bfloat16))

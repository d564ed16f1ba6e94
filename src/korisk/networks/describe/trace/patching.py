"""Calls of modules and of operators' adjoints, led through the recorder while a run lasts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from torch import Tensor, nn

from korisk.operators.linear import LinearOperator

if TYPE_CHECKING:
    from korisk.networks.describe.trace.recording import Recorder


@contextmanager
def patched(recorder: Recorder) -> Iterator[None]:
    """Have calls of modules, and of operators' adjoints, go through the recorder.

    As torch.fx does, the class's method is exchanged while the run lasts; other threads pass.
    """
    call, adjoint = nn.Module.__call__, LinearOperator.adjoint
    here = threading.get_ident()

    def recorded_call(self: nn.Module, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != here:
            return call(self, *args, **kwargs)
        return recorder.call(call, self, args, kwargs)

    def recorded_adjoint(self: LinearOperator, y: Tensor) -> Tensor:
        if threading.get_ident() != here or recorder.suspended:
            return adjoint(self, y)
        return cast(Tensor, self.T(y))

    nn.Module.__call__ = recorded_call  # type: ignore[method-assign]
    LinearOperator.adjoint = recorded_adjoint  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Module.__call__ = call  # type: ignore[method-assign]
        LinearOperator.adjoint = adjoint  # type: ignore[method-assign]

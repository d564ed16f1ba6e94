"""Operators as SciPy takes them, and libraries that take those of SciPy."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from korisk.operators.caching import Cached
from korisk.operators.inputs import Array, Shape

if TYPE_CHECKING:
    from scipy.sparse.linalg import LinearOperator as ScipyOperator


class Exported(Cached, ABC):
    """The part of `LinearOperator` that other libraries use."""

    name: str
    domain: Shape
    range: Shape

    @abstractmethod
    def adjoint(self, y: Tensor) -> Tensor:
        """A^T y."""

    def _ends(self, adjoint: bool = False) -> tuple[Shape, Shape]:
        """The shapes of input and output, of A or of A^T."""
        return (self.range, self.domain) if adjoint else (self.domain, self.range)

    def _times_array(self, x: ArrayLike, *, adjoint: bool) -> Array:
        """A x or A^T x of one flat array (n,), or of columns (n, k), as NumPy's arrays."""
        columns = np.asarray(x)
        source, target = self._ends(adjoint)
        if np.iscomplexobj(columns):
            times = partial(self._times_array, adjoint=adjoint)
            return times(columns.real) + 1j * times(columns.imag)
        # NumPy's other types, such as integers, are computed in double precision.
        wide = columns.dtype if columns.dtype == np.float32 else np.float64
        # Columns (n, k) as a batch (k, *source).
        rows = np.ascontiguousarray(columns.T, wide).reshape(*columns.shape[1:2] or (1,), *source)
        items = torch.as_tensor(rows).to(self.device, self.dtype)
        with torch.no_grad():
            images: Tensor = self.adjoint(items) if adjoint else self(items)
        flat = images.reshape(len(items), math.prod(target)).cpu().numpy()
        return np.ascontiguousarray(flat.T).reshape(math.prod(target), *columns.shape[1:])

    def as_scipy(self) -> ScipyOperator:
        """This operator for SciPy's solvers, such as lsqr, lsmr, cg and svds."""
        from scipy.sparse.linalg import LinearOperator

        forward, adjoint = (partial(self._times_array, adjoint=back) for back in (False, True))
        maps = {"matvec": forward, "matmat": forward, "rmatvec": adjoint, "rmatmat": adjoint}
        real = np.float32 if self.dtype == torch.float32 else np.float64
        return LinearOperator((math.prod(self.range), math.prod(self.domain)), dtype=real, **maps)

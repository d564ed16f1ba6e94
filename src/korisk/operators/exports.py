"""Operators as SciPy, PyLops and deepinv take them; `A.as_scipy()` and the like call these."""

from __future__ import annotations

import math
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse.linalg
import torch
from numpy.typing import NDArray

from korisk.errors import KoriskError, MissingExtraError


def times(operator: Any, x: Any, *, adjoint: bool) -> NDArray[Any]:
    """A x or A^T x of one flat array (n,), or of columns (n, k), as NumPy's arrays."""
    if isinstance(x, torch.Tensor) and x.requires_grad:
        raise KoriskError(
            f"{operator.name}: the array must not require gradients, got a tensor that does, and "
            "they would be lost; pass the tensor to the operator itself, or detach it"
        )
    columns = np.asarray(x.cpu() if isinstance(x, torch.Tensor) else x)
    ends = operator.domain, operator.range
    source, target = reversed(ends) if adjoint else ends
    if columns.ndim not in (1, 2) or len(columns) != math.prod(source):
        raise KoriskError(
            f"{operator.name}: the array must have {math.prod(source):,} rows, got shape "
            f"{columns.shape}; flatten the input, or pass a tensor to the operator itself"
        )
    if columns.dtype.kind not in "biufc":
        raise KoriskError(
            f"{operator.name}: the array must have numbers, got {columns.dtype}; convert it"
        )
    if np.iscomplexobj(columns):
        parts = (times(operator, part, adjoint=adjoint) for part in (columns.real, columns.imag))
        return next(parts) + 1j * next(parts)
    wide = columns.dtype if columns.dtype == np.float32 else np.float64
    rows = np.ascontiguousarray(columns.T, wide).reshape(*columns.shape[1:2] or (1,), *source)
    items = torch.as_tensor(rows).to(operator.device, operator.dtype)
    with torch.no_grad():
        images = operator.adjoint(items) if adjoint else operator(items)
    flat = images.reshape(len(items), math.prod(target)).cpu().numpy()
    return np.ascontiguousarray(flat.T).reshape(math.prod(target), *columns.shape[1:])


def to_scipy(operator: Any) -> scipy.sparse.linalg.LinearOperator:
    """The operator on flat arrays."""
    forward, adjoint = (partial(times, operator, adjoint=each) for each in (False, True))
    return scipy.sparse.linalg.LinearOperator(
        (math.prod(operator.range), math.prod(operator.domain)),
        matvec=forward,
        matmat=forward,
        rmatvec=adjoint,
        rmatmat=adjoint,
        dtype=np.float32 if operator.dtype == torch.float32 else np.float64,
    )


def to_pylops(operator: Any) -> Any:
    """The operator on arrays of its own shapes and on flat ones."""
    pylops = _peer("pylops", "PyLops", "as_pylops")
    return pylops.LinearOperator(
        to_scipy(operator), dims=operator.domain, dimsd=operator.range, name=operator.name
    )


def to_deepinv(operator: Any, **options: Any) -> Any:
    """The operator as deepinv's LinearPhysics, of which it becomes a part."""
    physics = _peer("deepinv.physics", "deepinv", "as_deepinv")
    ends = {"A": operator, "A_adjoint": operator.adjoint, "img_size": operator.domain}
    return physics.LinearPhysics(**ends, device=operator.device, **options)


def _peer(module: str, name: str, method: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        package = module.partition(".")[0]
        raise MissingExtraError(
            f"{method}() needs {name}, and {missing.name} is not installed; pip install {package}"
        ) from missing

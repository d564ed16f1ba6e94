"""Calls of torch's functions: their plain names, and their arguments in one order."""

from __future__ import annotations

from typing import Any

from torch.overrides import resolve_name

# What hands values to Python, where they cannot be followed; and what only asks about them.
LEAVING = {
    *("item", "tolist", "numpy", "__array__", "__float__", "__int__", "__complex__"),
    *("__dlpack__", "data_ptr", "storage", "untyped_storage", "__index__"),
}
# What takes the shape of a tensor, and nothing of its values.
SHAPED = {
    *("new_zeros", "new_ones", "new_full", "new_empty", "new_tensor", "zeros_like", "ones_like"),
    *("full_like", "empty_like", "rand_like", "randn_like", "randint_like"),
}
ASKING = {"__bool__", "is_nonzero", "equal", "allclose", "__contains__"}

RANDOM = "it is random, or changes with every call"

_INPUT_IS_NOT_FIRST = {"where", "searchsorted", "polygamma"}
_OF_TWO = {
    *("add", "sub", "subtract", "rsub", "mul", "multiply", "div", "divide", "true_divide"),
    *("maximum", "minimum", "max", "min", "fmax", "fmin", "matmul"),
}


def plain_name(function: Any) -> str:
    """The plain name of a torch function: `relu` for relu_, `T` for the property."""
    full = str(resolve_name(function) or getattr(function, "__name__", "function"))
    parts = full.split(".")
    name = parts[-2] if parts[-1] == "__get__" else parts[-1]
    if name.startswith("__"):
        return name
    return name.rstrip("_") or name


def in_order(name: str, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with `input=` and `other=` in their places, however they were given."""
    args, kwargs = tuple(args), dict(kwargs or {})
    if not args and "input" in kwargs and name not in _INPUT_IS_NOT_FIRST:
        args = (kwargs.pop("input"),)
    if len(args) == 1 and "other" in kwargs and name in _OF_TWO:
        args = (*args, kwargs.pop("other"))
    return args, kwargs

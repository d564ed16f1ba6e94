"""Matrices, spectra and kernels that an operator computes once and caches, also for compilers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Any, Self, cast
from uuid import uuid4
from weakref import WeakValueDictionary

import torch
from torch import Tensor, nn

from korisk.operators.inputs import PLAIN, checked_dtype

live: WeakValueDictionary[str, Cached] = WeakValueDictionary()  # by key
_process, _numbers = uuid4().hex, count()


def constant(key: str, method: str) -> Any:
    """The cached result of an operator's method, which compilers take as a constant."""
    return live[key]._make(method)


# What torch.compiler.assume_constant_result does. That decorator imports the compiler and sympy,
# which double the time of `import korisk.operators`, for a mark that only the compiler reads.
vars(constant).update(_dynamo_marked_constant=True)


def version(tensor: Tensor) -> tuple[int, int]:
    """Address of a tensor's data, and the number of in-place changes."""
    return tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version


class _Cache(dict[object, Any]):
    """Cached results of an operator's methods; not part of its state."""


class Cached(nn.Module):
    """A module on one device in one precision that caches tensors there; caches are not pickled."""

    _anchor: Tensor
    _key: str

    @property
    def dtype(self) -> torch.dtype:
        """The precision that inputs must have; `.to(torch.float64)` changes it."""
        return self._location().dtype

    @property
    def device(self) -> torch.device:
        """The device that inputs must be on; `.to("cuda")` changes it."""
        return self._location().device

    def _location(self) -> Tensor:
        """A tensor with the operator's precision and device."""
        return self._anchor

    def _once(self, method: str) -> Any:
        """The result of a method, cached until the operator moves or its weights change."""
        if not torch.compiler.is_compiling():
            return self._make(method)
        # Weights are inputs of a program, and what is made of them is part of it.
        return getattr(self, method)() if self._weights() else constant(self._key, method)

    def _make(self, method: str) -> Any:
        try:
            versions = self._versions()
        except RuntimeError:  # inside torch.func, of weights that are differentiated
            return getattr(self, method)()
        # Weights may have been trained or written to since.
        if self._cache.get("versions") != versions:
            self._cache.clear()
            self._cache["versions"] = versions
        if method not in self._cache:
            # A new thread is in none of the modes that record programs without numbers, nor in
            # inference mode, in which nothing could be made that a later backward pass can save.
            with ThreadPoolExecutor(1) as thread:
                self._cache[method] = thread.submit(self._computed_apart, method).result()
        return self._cache[method]

    def _computed_apart(self, method: str) -> object:
        with torch.no_grad():
            result: object = getattr(self, method)()
        if self.device.type == "cuda":  # the caller's stream does not wait for this thread's
            torch.cuda.synchronize(self.device)
        return result

    def _weights(self) -> list[Tensor]:
        """The parameters and buffers that are the operator's own."""
        tensors = *self._parameters.items(), *self._buffers.items()
        return [tensor for name, tensor in tensors if name != "_anchor" and tensor is not None]

    def _versions(self) -> tuple[object, ...]:
        """Precision, device and versions of the weights, with which caches become invalid."""
        place = self._location()
        return place.dtype, place.device, *(version(tensor) for tensor in self._weights())

    def _recipe(self) -> str:
        """Text from which another process can build the operator; empty if that is impossible."""
        return ""

    def _register(self) -> None:
        self._cache: dict[object, Any] = {}
        self._key = ""
        if not torch.compiler.is_dynamo_compiling():  # what is made in a trace has no key
            self._cache = _Cache()
            self._key = self._recipe() or f"{_process}{next(_numbers)}"
            # Programs refer to operators by key; weakly, so that they can be freed.
            live[self._key] = self

    def __getstate__(self) -> dict[str, object]:
        # Also for copies: what was made is made again.
        state: dict[str, object] = {**self.__dict__, "_cache": None}
        if type(anchor := self._anchor) not in PLAIN:  # without numbers, while it is exported
            real = torch.empty(0, dtype=anchor.dtype, device=anchor.device)
            state["_buffers"] = {**self._buffers, "_anchor": real}
        return state

    def __setstate__(self, state: dict[str, object]) -> None:
        super().__setstate__(state)  # type: ignore[no-untyped-call]
        self._register()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        # nn.Module moves and converts everything through this method; a precision in which the
        # adjoint would not be one is refused here, once for .half(), .bfloat16() and .to().
        checked_dtype(fn(self._anchor).dtype)
        module = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._cache.clear()
        return cast(Self, module)

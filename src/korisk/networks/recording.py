"""One run of a module, written down: every operation between its input and its output.

The run is a real one, in evaluation mode, so loops are unrolled and shapes are those of the
example. What the module does in Python is not seen; only torch's functions on tensors are, and
calls of modules, of which some are taken whole.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, resolve_name

from korisk.networks.steps import Frame, Ref, Step, mapped, once, tensors_in
from korisk.operators.linear import LinearOperator

# What hands values to Python, where they cannot be followed; and what only asks about them.
_LEAVING = {
    *("item", "tolist", "numpy", "__array__", "__float__", "__int__", "__complex__"),
    *("__dlpack__", "data_ptr", "storage", "untyped_storage", "__index__"),
}
# What takes the shape of a tensor, and nothing of its values.
_SHAPED = {
    *("new_zeros", "new_ones", "new_full", "new_empty", "new_tensor", "zeros_like", "ones_like"),
    *("full_like", "empty_like", "rand_like", "randn_like", "randint_like"),
}
_ASKING = {"__bool__", "is_nonzero", "equal", "allclose", "__contains__"}


class CannotFollow(BaseException):
    """Raised through the user's code, past its `except Exception`, to leave a run."""

    def __init__(self, frame: Frame, why: str) -> None:
        super().__init__(why)
        self.frame = frame
        self.why = why


class Recorder(TorchFunctionMode):
    """Writes down what torch is asked to do while it is active."""

    def __init__(self, root: nn.Module, whole: Callable[[nn.Module], bool]) -> None:
        super().__init__()
        self.whole = whole
        self.steps: list[Step] = []
        self.frames: list[Frame] = []
        self.branches: list[str] = []
        self._paths = {id(module): path for path, module in root.named_modules()}
        self._tracked: dict[int, tuple[Tensor, int, int]] = {}  # id: tensor, version, step
        self._suspended = False
        self._writers: dict[int, Frame] = {}  # by the memory that they wrote into
        self._calls = 0
        self.root = Frame(root, "", 0)
        self._origin: Any = None

    def begin(self, example: Tensor) -> Tensor:
        """The input as the run shall take it."""
        leaf = example.detach().clone().requires_grad_()
        given = leaf.clone()  # no leaf, so that the module may write into it
        assert given.grad_fn is not None
        self._origin = given.grad_fn
        self._add("input", lambda x: x, (), {}, (), given, part=None, in_place=False)
        return given

    def step_of(self, value: Tensor) -> int | None:
        """The step that made a tensor; None if it came from elsewhere."""
        found = self._tracked.get(id(value))
        if found is None:
            self._trained_in(value)
            return None
        if value._version != found[1]:
            frame = self._writers.get(_place(value))
            self._give_up("a tensor is changed in place through another name of it", frame)
        return found[2]

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Called by torch for every function of tensors."""
        kwargs = kwargs or {}
        if self._suspended:
            return func(*args, **kwargs)
        name = _name(func)
        parents = self._parents((args, kwargs))
        if parents and name in _LEAVING:
            self._give_up(f"{name} takes values out of torch")
        if parents and name in _ASKING:
            self.branches.append(self.frames[-1].path if self.frames else "")
        if not parents or name in _SHAPED:
            return func(*args, **kwargs)
        given = (args, kwargs)
        stored, trained = self._stored(given), self._trained_among(given)
        result = func(*args, **kwargs)
        self._notice_writing(given)
        self._note(name, func, stored, parents, result, given, trained)
        return result

    def call(self, original: Callable[..., Any], module: nn.Module, args: Any, kwargs: Any) -> Any:
        """A call of a module during the run: entered, or taken whole."""
        if self._suspended:
            return original(module, *args, **kwargs)
        module = uncompiled(module)
        self._calls += 1
        path = self._paths.get(id(module), type(module).__name__)
        self.frames.append(Frame(module, path, self._calls))
        try:
            if not self.whole(module):
                result = original(module, *args, **kwargs)
                with self._pause():
                    for tensor in tensors_in(result):  # lost here, not where it is used next
                        self.step_of(tensor)
                return result
            given = (args, kwargs)
            with self._pause():
                parents, stored = self._parents(given), self._stored(given)
                trained: list[Tensor] = [p for p in module.parameters() if p.requires_grad]
                trained += self._trained_among(given)
                result = original(module, *args, **kwargs)
                if parents:
                    self._note("module", module, stored, parents, result, given, trained)
            return result
        finally:
            self.frames.pop()

    def _notice_writing(self, given: Any) -> None:
        for tensor in tensors_in(given):
            tracked = self._tracked.get(id(tensor))
            if tracked is not None and tracked[1] != tensor._version and self.frames:
                self._writers[_place(tensor)] = self.frames[-1]

    @contextmanager
    def _pause(self) -> Iterator[None]:
        before, self._suspended = self._suspended, True
        try:
            yield
        finally:
            self._suspended = before

    def _parents(self, given: Any) -> tuple[int, ...]:
        found = (
            self.step_of(tensor) for tensor in tensors_in(given) if id(tensor) in self._tracked
        )
        return tuple(step for step in found if step is not None)

    def _stored(self, given: Any) -> Any:
        def stored(leaf: Any) -> Any:
            if isinstance(leaf, Tensor) and id(leaf) in self._tracked:
                return Ref(self._tracked[id(leaf)][2])
            return leaf

        return mapped(given, stored)

    def _note(
        self,
        name: str,
        function: Callable[..., Any],
        stored: Any,
        parents: tuple[int, ...],
        result: Any,
        given: Any,
        trained: list[Tensor],
    ) -> None:
        results = tensors_in(result)
        before = {id(tensor) for tensor in tensors_in(given)}
        module = function if isinstance(function, nn.Module) else None
        for place, tensor in enumerate(results):
            self._add(
                name,
                function,
                stored[0],
                stored[1],
                parents,
                tensor,
                part=None if isinstance(result, Tensor) else place,
                in_place=id(tensor) in before,
                trained=once(trained),
                module=module,
            )

    def _add(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        parents: tuple[int, ...],
        tensor: Tensor,
        *,
        part: int | None,
        in_place: bool,
        trained: tuple[Tensor, ...] = (),
        module: nn.Module | None = None,
    ) -> None:
        index = len(self.steps)
        value, frames = tensor.detach().clone(), tuple(self.frames)
        self.steps.append(
            Step(
                *(index, name, function, args, kwargs, parents, value),
                *(part, in_place, frames, trained, module),
            )
        )
        self._tracked[id(tensor)] = (tensor, tensor._version, index)

    def _trained_among(self, given: Any) -> list[Tensor]:
        others = (tensor for tensor in tensors_in(given) if id(tensor) not in self._tracked)
        return [leaf for tensor in others for leaf in self._trained_in(tensor)]

    def _trained_in(self, tensor: Tensor) -> list[Tensor]:
        """The trained leaves behind a tensor that no recorded step made."""
        if not tensor.requires_grad:
            return []
        if tensor.grad_fn is None:
            return [tensor]
        found: list[Tensor] = []
        ahead: list[Any] = [tensor.grad_fn]
        seen: set[Any] = set()
        while ahead:
            node = ahead.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            if node is self._origin:
                self._give_up("a function that torch does not report has made a tensor")
            leaf = getattr(node, "variable", None)
            if leaf is not None:
                found.append(leaf)
            ahead.extend(node for node, _ in node.next_functions)
        return found

    def _give_up(self, why: str, frame: Frame | None = None) -> None:
        here = self.frames[-1] if self.frames else self.root
        raise CannotFollow(here if frame is None else frame, why)


def record(
    module: nn.Module, example: Tensor, whole: Callable[[nn.Module], bool]
) -> tuple[Recorder, Any]:
    """Run the module on the example; `whole` says which modules inside are taken whole."""
    recorder = Recorder(module, whole)
    with torch.enable_grad(), _patched(recorder):
        given = recorder.begin(example)
        with recorder:
            return recorder, module(given)


def uncompiled(module: nn.Module) -> nn.Module:
    """The module itself, where torch.compile has wrapped it."""
    wrapped = type(module).__name__ == "OptimizedModule"  # by name: its import loads the compiler
    return cast(nn.Module, module._orig_mod) if wrapped else module


@contextmanager
def _patched(recorder: Recorder) -> Iterator[None]:
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
        if threading.get_ident() != here or recorder._suspended:
            return adjoint(self, y)
        return cast(Tensor, self.T(y))

    nn.Module.__call__ = recorded_call  # type: ignore[method-assign]
    LinearOperator.adjoint = recorded_adjoint  # type: ignore[method-assign]
    try:
        yield
    finally:
        nn.Module.__call__ = call  # type: ignore[method-assign]
        LinearOperator.adjoint = adjoint  # type: ignore[method-assign]


def _place(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _name(function: Any) -> str:
    """The plain name of a torch function: `relu` for relu_, `T` for the property."""
    full = str(resolve_name(function) or getattr(function, "__name__", "function"))
    parts = full.split(".")
    name = parts[-2] if parts[-1] == "__get__" else parts[-1]
    if name.startswith("__"):
        return name
    return name.rstrip("_") or name

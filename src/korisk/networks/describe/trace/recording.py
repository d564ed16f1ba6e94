"""One run of a module, written down: every operation between its input and its output.

The run is a real one, in evaluation mode, so loops are unrolled and shapes are those of the
example. What the module does in Python is not seen; only torch's functions on tensors are, and
calls of modules, of which some are taken whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from korisk.networks.describe.trace.calls import (
    ASKING,
    LEAVING,
    RANDOM,
    SHAPED,
    in_order,
    plain_name,
)
from korisk.networks.describe.trace.patching import patched
from korisk.networks.describe.trace.steps import Frame, Ref, Step, mapped, once, tensors_in


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
        self._copies: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}  # of constants
        self._unseen: dict[int, tuple[Tensor, list[Tensor]]] = {}  # trained, without autograd
        self.suspended = False
        self._writers: dict[int, Frame] = {}  # by the memory that they wrote into
        self._calls = 0
        self.root = Frame(root, "", 0)
        self._origin: Any = None
        self._device = torch.device("cpu")

    def begin(self, example: Tensor) -> Tensor:
        """The input as the run shall take it."""
        self._device = example.device
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
        if self.suspended:
            return func(*args, **(kwargs or {}))
        name = plain_name(func)
        args, kwargs = in_order(name, args, kwargs)
        parents = self._parents((args, kwargs))
        if parents and name in LEAVING:
            self._give_up(f"{name} takes values out of torch")
        if parents and name in ASKING:
            self.branches.append(self.frames[-1].path if self.frames else "")
        given = (args, kwargs)
        if name in SHAPED and self._parents((args[1:], kwargs)):
            self._give_up(f"{name} takes values out of torch")
        if not parents or name in SHAPED:
            result = self._called(func, given)
            self._remember_trained(given, result)
            return result
        if torch.is_inference_mode_enabled():
            self._give_up("it runs in inference mode", self._enterer())
        stored, trained = self._stored(given), self._trained_among(given)
        result = self._called(func, given)
        self._notice_writing(given)
        self._note(name, func, stored, parents, result, given, trained)
        return result

    def _called(self, function: Callable[..., Any], given: Any) -> Any:
        """The result, unless random numbers were drawn for it: two runs may agree by chance."""
        args, kwargs = given
        before = self._random_state()
        result = function(*args, **kwargs)
        if not torch.equal(before, self._random_state()):
            self._give_up(RANDOM)
        return result

    def _random_state(self) -> Tensor:
        device = self._device
        return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()

    def call(self, original: Callable[..., Any], module: nn.Module, args: Any, kwargs: Any) -> Any:
        """A call of a module during the run: entered, or taken whole."""
        if self.suspended:
            return original(module, *args, **kwargs)
        module = uncompiled(module)
        self._calls += 1
        path = self._paths.get(id(module), type(module).__name__)
        inference = torch.is_inference_mode_enabled()
        self.frames.append(Frame(module, path, self._calls, inference))
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
                result = mapped(original(module, *args, **kwargs), _usual)
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
        before, self.suspended = self.suspended, True
        try:
            yield
        finally:
            self.suspended = before

    def _parents(self, given: Any) -> tuple[int, ...]:
        found = (
            self.step_of(tensor) for tensor in tensors_in(given) if id(tensor) in self._tracked
        )
        return tuple(step for step in found if step is not None)

    def _stored(self, given: Any) -> Any:
        def stored(leaf: Any) -> Any:
            if not isinstance(leaf, Tensor):
                return leaf
            tracked = self._tracked.get(id(leaf))
            return self._copy(leaf) if tracked is None else Ref(tracked[2])

        return mapped(given, stored)

    def _copy(self, constant: Tensor) -> Tensor:
        """The constant as it is now: the module may write into it later."""
        key = id(constant), -1 if constant.is_inference() else constant._version
        if key not in self._copies:
            with self._pause():
                copy = constant.detach().clone()
            self._copies[key] = constant, copy  # the first keeps its id from being given again
        return self._copies[key][1]

    def _remember_trained(self, given: Any, result: Any) -> None:
        """Weights that are computed from trained ones where autograd is off, as in checkpoints."""
        if torch.is_grad_enabled() and not torch.is_inference_mode_enabled():
            return
        leaves = self._trained_among(given)
        if leaves:
            for tensor in tensors_in(result):
                self._unseen[id(tensor)] = tensor, leaves

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
            return self._unseen.get(id(tensor), (tensor, []))[1]
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

    def _enterer(self) -> Frame:
        """The module that has turned on inference mode."""
        outside = (frame for frame in reversed(self.frames) if not frame.inference)
        return next(outside, self.root)

    def _give_up(self, why: str, frame: Frame | None = None) -> None:
        here = self.frames[-1] if self.frames else self.root
        raise CannotFollow(here if frame is None else frame, why)


def record(
    module: nn.Module, example: Tensor, whole: Callable[[nn.Module], bool]
) -> tuple[Recorder, Any]:
    """Run the module on the example; `whole` says which modules inside are taken whole."""
    recorder = Recorder(module, whole)
    with torch.enable_grad(), patched(recorder):
        given = recorder.begin(example)
        with recorder:
            return recorder, module(given)


def uncompiled(module: nn.Module) -> nn.Module:
    """The module itself, where torch.compile has wrapped it."""
    wrapped = type(module).__name__ == "OptimizedModule"  # by name: its import loads the compiler
    return cast(nn.Module, module._orig_mod) if wrapped else module


def _usual(value: Any) -> Any:
    """A tensor that can be followed further, where inference mode has made one that cannot."""
    return value.clone() if isinstance(value, Tensor) and value.is_inference() else value


def _place(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()

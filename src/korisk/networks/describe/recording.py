"""One run of a module, recorded: every operation between its input and its output.

The run is a real one, in evaluation mode, so loops are unrolled and shapes are those of the
example. What the module does in Python is not seen; only torch's functions on tensors are, and
calls of modules, of which some are taken whole. Afterwards the module is as it was, and the
recorded steps are checked against it by running both.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, resolve_name

from korisk.networks.describe.linear import words
from korisk.operators import norms
from korisk.operators.consistency import DataConsistency
from korisk.operators.linear import LinearOperator

RANDOM = "it is random, or changes with every call"

# What hands values to Python, where they cannot be followed.
_LEAVING = words(
    "item tolist numpy __array__ __float__ __int__ __complex__ __dlpack__ data_ptr storage "
    "untyped_storage __index__"
)
# What gives a tensor whose size is decided by values, and so hands them to Python as a shape.
_COUNTING = words(
    "nonzero argwhere unique unique_consecutive masked_select bincount one_hot to_sparse arange "
    "range linspace logspace eye zeros ones full empty rand randn"
)
# The same where a value is one of the arguments behind the first, which say sizes.
_SIZES = words(
    "expand broadcast_to repeat tile repeat_interleave view reshape pad unflatten unfold narrow "
    "chunk split split_with_sizes tensor_split interpolate upsample as_strided resize"
)
# What takes the shape of a tensor, and nothing of its values.
_SHAPED = words(
    "new_zeros new_ones new_full new_empty new_tensor zeros_like ones_like full_like empty_like "
    "rand_like randn_like randint_like"
)
# What asks a question about values, whose answer may decide what runs next.
_ASKING = words("__bool__ is_nonzero equal allclose __contains__")
_INPUT_IS_NOT_FIRST = words("where searchsorted polygamma")
_CASTS = words("to type float double half bfloat16 type_as")
# Of whose arguments the first has values, and others a type, a device or a shape alone.
_FIRST_ALONE = _CASTS | words("expand_as view_as reshape_as")
_OF_TWO = words(
    "add sub subtract rsub mul multiply div divide true_divide maximum minimum max min fmax fmin "
    "matmul"
)
_COARSE = (torch.float16, torch.bfloat16)
# A module's dictionaries, and what else it may keep of a run.
_TABLES = words(
    "_parameters _buffers _modules _forward_hooks _forward_pre_hooks _backward_hooks "
    "_backward_pre_hooks _state_dict_hooks _load_state_dict_pre_hooks"
)
_FAR = (0.01, 1.0, 10.0, 100.0, 1e4)  # times the example's size
_PLAIN = (Tensor, int, float, str, bool, type(None))

Function = Callable[..., Any]  # of torch, or a module: any arguments, any result
Arguments = tuple[tuple[object, ...], dict[str, object]]  # by place and by name


@dataclass(frozen=True)
class Ref:
    """The place of an earlier step's value among a call's arguments."""

    step: int


@dataclass(frozen=True)
class Frame:
    """One call of a module that is under way: which module, its path, and which call."""

    module: nn.Module
    path: str
    call: int
    inference: bool = False  # whether inference mode was on before it


@dataclass(frozen=True, eq=False)
class Step:
    """One operation of the run: `function(*args, **kwargs)`, its result, and where it happened."""

    index: int
    name: str
    function: Function
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    parents: tuple[int, ...]  # in the order of the arguments, repeated where used twice
    value: Tensor
    frames: tuple[Frame, ...]
    position: int | None = None  # of a result that is a tuple
    in_place: bool = False
    trained: tuple[Tensor, ...] = ()

    @property
    def module(self) -> nn.Module | None:
        """The module that is taken whole, where the step is a call of one."""
        return self.function if isinstance(self.function, nn.Module) else None

    @property
    def inputs(self) -> tuple[int, ...]:
        """The steps that it takes: of a module each once, which makes a chain of f(x, x) too."""
        return self.parents if self.module is None else tuple(dict.fromkeys(self.parents))

    def replay(self, values: dict[int, Tensor], *, double: bool = False) -> Tensor:
        """The result for other values of earlier steps, in double precision if asked."""
        if double and self.name in _CASTS:
            return values[self.parents[0]].to(_finer(self.value.dtype))

        # References become values; what is written into must not be the recorded tensor.
        def filled(leaf: object) -> object:
            value = values[leaf.step] if isinstance(leaf, Ref) else leaf
            return value.clone() if self.in_place and isinstance(value, Tensor) else value

        function, args, kwargs = self._in_double if double else self._as_recorded
        result = function(*mapped(args, filled), **mapped(kwargs, filled))
        return cast(Tensor, result if self.position is None else tensors_in(result)[self.position])

    @cached_property
    def _as_recorded(self) -> tuple[Function, Any, Any]:
        return self.function, *mapped((self.args, self.kwargs), _detached)

    @cached_property
    def _in_double(self) -> tuple[Function, Any, Any]:
        function, args, kwargs = self._as_recorded
        if isinstance(function, LinearOperator):
            function = function.in_double()
        elif isinstance(function, DataConsistency):
            # Converting the module of the user would change it.
            function = copy.deepcopy(function).to(torch.float64)

        def finer(leaf: object) -> object:
            return leaf.to(_finer(leaf.dtype)) if isinstance(leaf, Tensor) else leaf

        return function, *mapped((args, kwargs), finer)


@dataclass
class Recording:
    """The steps of a run, the input first, and what was noticed on the way."""

    steps: list[Step]
    output: int
    branches: list[str]  # modules that chose their way by values of tensors
    root: Frame

    @cached_property
    def live(self) -> list[int]:
        """The input and the steps that the output depends on, by index."""
        return [0, *(step.index for step in self.leading_to(self.output))]

    def leading_to(self, last: int, *, after: int = 0) -> list[Step]:
        """The steps behind `after` that step `last` depends on, and itself, in order."""
        needed, steps = {last}, []
        # Backwards, so that a step is known to be needed when it is reached.
        for step in reversed(self.steps[after + 1 : last + 1]):
            if step.index in needed:
                needed.update(step.parents)
                steps.append(step)
        return steps[::-1]


def replayed(steps: Sequence[Step], values: dict[int, Tensor], *, double: bool = False) -> Tensor:
    """The value of the last of some steps for other values of earlier ones."""
    values = {index: value.clone() for index, value in values.items()}  # a module may write into it
    for step in steps:
        values[step.index] = step.replay(values, double=double)
    return values[steps[-1].index]


def _finer(kind: torch.dtype) -> torch.dtype:
    """Double precision for a type of real or complex numbers; whatever else as it is."""
    inexact = kind.is_floating_point or kind.is_complex
    return torch.promote_types(kind, torch.float64) if inexact else kind


def leaves_in(structure: object) -> list[object]:
    """Everything in lists, tuples, slices and dictionaries, in order."""
    leaves: list[object] = []
    mapped(structure, leaves.append)
    return leaves


def tensors_in(structure: object) -> list[Tensor]:
    """Every tensor in lists, tuples and dictionaries, in order."""
    return [leaf for leaf in leaves_in(structure) if isinstance(leaf, Tensor)]


def mapped(structure: object, change: Callable[[object], object]) -> Any:
    """The same lists, tuples and dictionaries with every leaf changed."""
    if isinstance(structure, dict):
        return {key: mapped(value, change) for key, value in structure.items()}
    if isinstance(structure, list | tuple):
        several = [mapped(value, change) for value in structure]
        return several if isinstance(structure, list) else tuple(several)
    if isinstance(structure, slice):
        ends = (structure.start, structure.stop, structure.step)
        return slice(*(mapped(end, change) for end in ends))
    return change(structure)


class CannotFollow(BaseException):
    """Raised through the user's code, past its `except Exception`, to leave a run."""

    def __init__(self, frame: Frame, why: str) -> None:
        super().__init__(why)
        self.frame, self.why = frame, why


class Recorder(TorchFunctionMode):
    """Records what torch is asked to do while it is active."""

    def __init__(self, root: nn.Module, is_opaque: Callable[[nn.Module], bool]) -> None:
        super().__init__()
        self.is_opaque = is_opaque
        self.steps: list[Step] = []
        self.frames: list[Frame] = []
        self.branches: list[str] = []
        self.root = Frame(root, "", 0)
        self.suspended = False
        self._paths = {id(module): path for path, module in root.named_modules()}
        self._tracked: dict[int, tuple[Tensor, int, int]] = {}  # id: tensor, version, step
        self._copies: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}  # of constants
        self._unseen: dict[int, tuple[Tensor, list[Tensor]]] = {}  # trained, without autograd
        self._writers: dict[int, Frame] = {}  # by the memory that they wrote into
        self._calls = 0
        self._origin: object = None
        self._device = torch.device("cpu")

    def begin(self, example: Tensor) -> Tensor:
        """The input as the run takes it."""
        self._device = example.device
        # With a gradient, so that a tensor that depends on the input is recognised by its graph.
        leaf = example.detach().clone().requires_grad_()
        start = leaf.clone()  # no leaf, so that the module may write into it
        self._origin = start.grad_fn
        self.steps.append(Step(0, "input", lambda x: x, (), {}, (), start.detach().clone(), ()))
        self._tracked[id(start)] = (start, start._version, 0)
        return start

    def step_of(self, value: Tensor) -> int | None:
        """The step that made a tensor; None if it came from elsewhere."""
        if (tracked := self._tracked.get(id(value))) is None:
            self._trained_in(value)
            return None
        if value._version != tracked[1]:
            # The module that wrote into it is the one that cannot be followed.
            frame = self._writers.get(value.untyped_storage().data_ptr())
            self._give_up("a tensor is changed in place through another reference", frame)
        return tracked[2]

    def __torch_function__(
        self, func: Function, types: object, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Called by torch for every function of tensors."""
        if self.suspended:
            return func(*args, **(kwargs or {}))
        name = _plain_name(func)
        args, kwargs = tuple(args), dict(kwargs or {})
        # `input=` and `other=` in their places, however they were passed.
        if not args and "input" in kwargs and name not in _INPUT_IS_NOT_FIRST:
            args = (kwargs.pop("input"),)
        if len(args) == 1 and "other" in kwargs and name in _OF_TWO:
            args = (*args, kwargs.pop("other"))
        if name in _FIRST_ALONE:
            with self._pause():
                detached = mapped((args[1:], kwargs), _detached)
            args, kwargs = (*args[:1], *detached[0]), detached[1]
        parents = self._parents((args, kwargs))
        # new_full(shape, value) takes a value, not a shape alone.
        filling = name in _SHAPED and self._parents((args[1:], kwargs))
        if filling or (parents and name in _LEAVING):
            self._give_up(f"{name} takes values out of torch")
        if parents and self._counts(name, args, kwargs):  # modules outside may ask for the shape
            self._give_up(f"{name} returns a size that depends on values", self.root)
        if parents and name in _ASKING:
            self.branches.append(self.frames[-1].path if self.frames else "")
        followed = bool(parents) and name not in _SHAPED
        if followed and torch.is_inference_mode_enabled():
            # The module that has turned on inference mode is the one that cannot be followed.
            outside = (frame for frame in reversed(self.frames) if not frame.inference)
            self._give_up("it runs in inference mode", next(outside, self.root))
        # Before the call, which may write into its arguments.
        step = self._template(name, func, (args, kwargs), []) if followed else None
        if step is not None and name == "__setitem__":
            step = replace(step, function=_written)
        # Functions that draw random numbers have no slope.
        before = self._random_state()
        result = func(*args, **kwargs)
        if not torch.equal(before, self._random_state()):  # two runs may agree by chance
            self._give_up(RANDOM)
        if step is not None and name == "__setitem__":
            self._note(step, args[0], ())
        elif step is not None:
            for tensor in tensors_in((args, kwargs)):
                tracked = self._tracked.get(id(tensor))
                if tracked is not None and tracked[1] != tensor._version and self.frames:
                    # By memory: a view of it has another id, and the same storage.
                    self._writers[tensor.untyped_storage().data_ptr()] = self.frames[-1]
            self._note(step, result, (args, kwargs))
        elif not torch.is_grad_enabled() or torch.is_inference_mode_enabled():
            # Weights that are computed from trained ones without autograd, as in checkpoints.
            leaves = self._trained_among((args, kwargs))
            for tensor in tensors_in(result) if leaves else []:
                self._unseen[id(tensor)] = tensor, leaves
        return result

    def call(self, original: Function, module: nn.Module, arguments: Arguments) -> Any:
        """A call of a module during the run: entered, or taken whole."""
        args, kwargs = arguments
        if self.suspended:
            return original(module, *args, **kwargs)
        module = uncompiled(module)
        self._calls += 1
        path = self._paths.get(id(module), type(module).__name__)
        self.frames.append(Frame(module, path, self._calls, torch.is_inference_mode_enabled()))
        try:
            if not self.is_opaque(module):
                result = original(module, *args, **kwargs)
                with self._pause():
                    for tensor in tensors_in(result):  # lost here, not where it is used next
                        self.step_of(tensor)
                return result
            with self._pause():
                # A module that is taken whole is one step, with all its parameters.
                trained: list[Tensor] = [p for p in module.parameters() if p.requires_grad]
                step = self._template("module", module, arguments, trained)
                result = mapped(original(module, *args, **kwargs), _usable)
                if step.parents:
                    self._note(step, result, arguments)
                    outside = self.frames[-2] if len(self.frames) > 1 else self.root
                    if not all(isinstance(leaf, Tensor | str | None) for leaf in leaves_in(result)):
                        self._give_up(f"{path} returns more than tensors", outside)
            return result
        finally:
            self.frames.pop()

    @contextmanager
    def _pause(self) -> Iterator[None]:
        before, self.suspended = self.suspended, True
        try:
            yield
        finally:
            self.suspended = before

    def _random_state(self) -> Tensor:
        device = self._device
        return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()

    def _parents(self, arguments: object) -> tuple[int, ...]:
        tracked = (tensor for tensor in tensors_in(arguments) if id(tensor) in self._tracked)
        return tuple(step for step in map(self.step_of, tracked) if step is not None)

    def _counts(self, name: str, args: tuple[object, ...], kwargs: dict[str, object]) -> bool:
        """Whether the size of the result is decided by values of tensors that are followed."""
        if name == "__getitem__":
            # Masks and slices by values decide how many entries there are; indices do not.
            places = args[1] if isinstance(args[1], tuple) else (args[1],)
            decided = [place for place in places if self._parents(place)]
            kinds = {tensor.dtype for tensor in tensors_in(decided)}
            sliced = any(isinstance(place, slice) for place in decided)
            return sliced or not kinds.isdisjoint((torch.bool, torch.uint8))
        if name in _SIZES:
            return bool(self._parents((args[1:], kwargs)))
        return name in _COUNTING or (name == "where" and len(args) + len(kwargs) == 1)

    def _stored(self, arguments: object) -> Any:
        """The arguments with references to steps, and copies of constants as they are now."""

        def stored(leaf: object) -> object:
            if not isinstance(leaf, Tensor):
                return leaf
            if (tracked := self._tracked.get(id(leaf))) is not None:
                return Ref(tracked[2])
            key = id(leaf), -1 if leaf.is_inference() else leaf._version
            if key not in self._copies:  # the module may write into it later
                with self._pause():
                    copy = leaf.detach().clone()
                self._copies[key] = leaf, copy  # the first keeps its id from being used again
            return self._copies[key][1]

        return mapped(arguments, stored)

    def _template(
        self, name: str, function: Function, arguments: Arguments, trained: list[Tensor]
    ) -> Step:
        """The step of a call, before its result is known."""
        args, kwargs = self._stored(arguments)
        once = {id(tensor): tensor for tensor in (*trained, *self._trained_among(arguments))}
        parents, weights, nothing = self._parents(arguments), tuple(once.values()), torch.empty(0)
        frames = tuple(self.frames)
        return Step(-1, name, function, args, kwargs, parents, nothing, frames, trained=weights)

    def _note(self, step: Step, result: object, arguments: object) -> None:
        """Add a step for every tensor of a result."""
        before = {id(tensor) for tensor in tensors_in(arguments)}
        for place, tensor in enumerate(tensors_in(result)):
            index, value, in_place = len(self.steps), tensor.detach().clone(), id(tensor) in before
            position = None if isinstance(result, Tensor) else place
            tensor_step = replace(step, index=index, value=value, position=position)
            self.steps.append(replace(tensor_step, in_place=in_place))
            self._tracked[id(tensor)] = (tensor, tensor._version, index)

    def _trained_among(self, arguments: object) -> list[Tensor]:
        others = (tensor for tensor in tensors_in(arguments) if id(tensor) not in self._tracked)
        return [leaf for tensor in others for leaf in self._trained_in(tensor)]

    def _trained_in(self, tensor: Tensor) -> list[Tensor]:
        """The trained leaves behind a tensor that no recorded step made."""
        if not tensor.requires_grad:
            return self._unseen.get(id(tensor), (tensor, []))[1]
        if tensor.grad_fn is None:
            return [tensor]
        leaves: list[Tensor] = []
        # The leaves of autograd's graph are the parameters that the tensor was computed from.
        ahead: list[Any] = [tensor.grad_fn]
        visited: set[object] = set()
        while ahead:
            if (node := ahead.pop()) is None or node in visited:
                continue
            visited.add(node)
            if node is self._origin:
                self._give_up("a tensor comes from a function that torch does not report")
            if (leaf := getattr(node, "variable", None)) is not None:
                leaves.append(leaf)
            ahead.extend(node for node, _ in node.next_functions)
        return leaves

    def _give_up(self, why: str, frame: Frame | None = None) -> None:
        here = self.frames[-1] if self.frames else self.root
        raise CannotFollow(here if frame is None else frame, why)


def record(
    module: nn.Module, example: Tensor, is_opaque: Callable[[nn.Module], bool]
) -> tuple[Recorder, object]:
    """Run the module on the example; `is_opaque` decides which modules inside are taken whole.

    As torch.fx does, the methods that call modules, and operators' adjoints, are exchanged while
    the run lasts; other threads pass.
    """
    recorder = Recorder(module, is_opaque)
    call, adjoint = nn.Module.__call__, LinearOperator.adjoint
    # Other threads may call modules during the run, and are left alone.
    here = threading.get_ident()

    def recorded_call(self: nn.Module, *args: object, **kwargs: object) -> Any:
        if threading.get_ident() != here:
            return call(self, *args, **kwargs)
        return recorder.call(call, self, (args, kwargs))

    def recorded_adjoint(self: LinearOperator, y: Tensor) -> Tensor:
        if threading.get_ident() != here or recorder.suspended:
            return adjoint(self, y)
        return cast(Tensor, self.T(y))

    # Every module is called through this method; forward hooks run as usual.
    nn.Module.__call__ = recorded_call  # type: ignore[method-assign]
    LinearOperator.adjoint = recorded_adjoint  # type: ignore[method-assign]
    try:
        with torch.enable_grad():
            start = recorder.begin(example)
            with recorder:
                return recorder, module(start)
    finally:
        nn.Module.__call__ = call  # type: ignore[method-assign]
        LinearOperator.adjoint = adjoint  # type: ignore[method-assign]


def uncompiled(module: nn.Module) -> nn.Module:
    """The module itself, where torch.compile has wrapped it."""
    wrapped = type(module).__name__ == "OptimizedModule"  # by name: its import loads the compiler
    return cast(nn.Module, module._orig_mod) if wrapped else module


def _written(tensor: Tensor, index: Any, value: Tensor | float) -> Tensor:
    """A tensor with other numbers at some places, as a function."""
    tensor = tensor.clone()
    tensor[index] = value
    return tensor


def _detached(leaf: object) -> object:
    """A tensor of the same type and shape that is not followed."""
    return leaf.detach() if isinstance(leaf, Tensor) else leaf


def _plain_name(function: Function) -> str:
    """The plain name of a torch function: `relu` for relu_, `T` for the property."""
    full = str(resolve_name(function) or getattr(function, "__name__", "function"))
    parts = full.split(".")
    name = parts[-2] if parts[-1] == "__get__" else parts[-1]
    return name if name.startswith("__") else name.rstrip("_") or name


def _usable(value: object) -> object:
    """A tensor that can be followed further, where inference mode has made one that cannot."""
    return value.clone() if isinstance(value, Tensor) and value.is_inference() else value


@contextmanager
def untouched(module: nn.Module, example: Tensor) -> Iterator[None]:
    """Evaluation mode, with the module and torch's random state put back afterwards."""
    # A frozen module of torch.jit has no mode.
    parts = [(p, dict(p.__dict__), getattr(p, "training", None)) for p in module.modules()]
    tables = [{key: dict(was[key]) for key in _TABLES if key in was} for _, was, _ in parts]
    # Random numbers that the run draws are not missing afterwards.
    devices = [example.device] if example.device.type == "cuda" else []
    with torch.inference_mode(False), torch.random.fork_rng(devices=devices):
        tensors = (*module.parameters(), *module.buffers())
        values = [(state, state.detach().clone(), state.requires_grad) for state in tensors]
        try:
            for submodule, _, training in parts:
                if training:
                    submodule.training = False
            yield
        finally:
            for (submodule, before, training), copies in zip(parts, tables, strict=True):
                now = submodule.__dict__
                if training:
                    submodule.training = True
                for key, table in copies.items():
                    if dict(now[key]) != table:
                        now[key].clear()
                        now[key].update(table)
                # What an operator caches about itself stays true.
                for key in [] if isinstance(submodule, LinearOperator) else list(now):
                    plain = isinstance(now[key], _PLAIN) and isinstance(before.get(key), _PLAIN)
                    if plain and key not in before:
                        del now[key]
                    elif plain and now[key] is not before[key]:
                        now[key] = before[key]
            for tensor, numbers, trained in values:
                with torch.no_grad():
                    if tensor.layout != torch.strided or not torch.equal(tensor, numbers):
                        tensor.copy_(numbers)
                if tensor.is_leaf:
                    tensor.requires_grad_(trained)


# --- Whether the recorded steps are the module ---------------------------------------------------


def check_recording(
    module: nn.Module,
    recording: Recording,
    example: Tensor,
    recorded: Callable[[Tensor], Recording],
) -> None:
    """Give up on what two runs do differently, and where the steps are not the module.

    That is tried at an input near the example and at some far away; where values decide the way, at
    a nearer one. Modules that are taken whole may differ from call to call: their constant is
    stated or sampled.
    """
    steps, again = recording.steps, recorded(example).steps
    if _names(recording) != [step.name for step in again]:
        raise CannotFollow(recording.root, RANDOM)
    values = {step.index: step.value for step in steps}
    # The same constants, and the same result when it is run again.
    for step, second in zip(steps, again, strict=True):
        if step.module is not None:
            continue
        ours, theirs = (leaves_in((call.args, call.kwargs)) for call in (step, second))
        same = len(ours) == len(theirs) and all(map(_same, ours, theirs))
        if not (same and _repeats(step, values)):
            raise CannotFollow(step.frames[-1] if step.frames else recording.root, RANDOM)

    def random_inside(tries: int) -> bool:
        opaque = [step for step in steps if step.module is not None]
        return not all(_repeats(step, values) for step in opaque for _ in range(tries))

    if random_inside(tries=1):
        return
    value, needed = values[recording.output], recording.leading_to(recording.output)
    with torch.no_grad():
        output = replayed(needed, {0: example})
    # Dropout of a few values often drops the same twice, so a difference is looked at harder.
    close = _close(output, value, slack=_slack(value - value.mean(), value))
    if not (close or random_inside(tries=16)):
        raise CannotFollow(recording.root, "replaying its steps does not reproduce its output")
    # Close by, other branches are rarely taken.
    near = recording.branches and example.dtype not in _COARSE
    size = (1e-3 if near else 0.1) * float(example.abs().max() or 1)
    nearby = example + size * norms.drawn(example.shape, 2, "recording").to(example)
    for trial in (nearby, *far_inputs(example)):
        try:
            if recording.branches and _names(recorded(trial)) != _names(recording):
                continue
            with torch.no_grad():
                expected = module(trial.clone())
                followed = replayed(needed, {0: trial})
        except Exception:  # it does not take such inputs, so they prove nothing
            continue
        finite = bool(torch.isfinite(expected).all())
        if expected.shape != value.shape or (trial is not nearby and not finite):
            continue
        # What changes with the input, so that a large offset hides nothing.
        moved, ours_moved = expected - value, followed - value
        close = _close(ours_moved, moved, slack=_slack(moved, expected))
        if not (close or random_inside(tries=16)):
            raise CannotFollow(recording.root, "its steps do not reproduce other outputs of it")


def far_inputs(example: Tensor) -> Iterator[Tensor]:
    """Inputs that have little to do with the example: small, large, of one sign, and turned.

    What a module does with them may not show at the example, such as a gain that is clamped there.
    """
    # Root mean square of the entries.
    typical = float(example.norm()) / example.numel() ** 0.5 or 1.0
    # Squares of larger numbers would overflow.
    largest = 1e-3 * torch.finfo(example.dtype).max ** 0.5
    for place, factor in enumerate(_FAR):
        if factor * typical > largest:
            continue
        drawn = factor * typical * norms.drawn(example.shape, place, "far input").to(example)
        yield from (drawn, drawn.abs(), -drawn.abs(), -factor * example)


def _names(recording: Recording) -> list[str]:
    return [step.name for step in recording.steps]


def _same(first: object, second: object) -> bool:
    """Whether two arguments are the same constants."""
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        if first.layout != torch.strided:  # torch compares no sparse ones; the next check does
            return first.layout == second.layout
        return first.shape == second.shape and _close(first, second, slack=0.0)
    if isinstance(first, int | float | str) and isinstance(second, int | float | str):
        return first == second
    return True


def _repeats(step: Step, values: dict[int, Tensor]) -> bool:
    """Whether the step alone gives the same twice: bernoulli or dropout that stays on do not."""
    if not step.parents:
        return True
    with torch.no_grad():
        return _close(step.replay(values), step.replay(values), slack=0.0)


def _slack(moved: Tensor, output: Tensor) -> float:
    """What rounding may change: a part of the movement, and the last digits of the whole."""
    share = 0.05 if output.dtype in _COARSE else 1e-3
    digits = 4 * torch.finfo(output.dtype).eps
    return share * float(moved.abs().max()) + digits * float(output.abs().max())


def _close(first: Tensor, second: Tensor, *, slack: float) -> bool:
    return torch.allclose(first, second, rtol=1e-6, atol=slack, equal_nan=True)

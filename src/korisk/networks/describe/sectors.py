"""An upper Lipschitz constant of a whole network, from the slopes of what is bent in it.

A bent step (a ReLU, a maximum) with slopes between a and b is c = (a + b) / 2 times its input, and
an error e that enters the network, |e| <= r |input| with r = (b - a) / 2. If for scales d_i > 0 and
l > 0 the linear map M: (s, d_i e_i) -> (d_i r p_i, output / l) has norm <= 1, the errors cancel and
|output| <= l |s|: docs/explanation/theory.md, Eq. (eq:sectors). Skips, joins and linear parts are
in M as they are. Any scales are valid; good ones are searched for, then the norm is bracketed.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from korisk.networks.describe import patterns, rules
from korisk.networks.describe.linear import LinearPart
from korisk.networks.describe.recording import Step
from korisk.theory.amplification import FloatArray

_LARGEST = 1_000_000  # numbers that enter M: beyond, Lanczos would keep gigabytes of vectors
_LARGE = 20_000  # from which on scales are searched for in float32
_DENSE = 800  # numbers up to which M is kept as a matrix, faster than running its steps
_ROUNDS = 120  # at most; deep networks need most of them
_WORK = 8_000_000  # numbers times rounds, so that a million take minutes
_FEWEST_ROUNDS = 20
_PATIENCE, _FIRST_PATIENCE = 12, 6  # rounds without a gain of 1%; before channels are told apart
_POWER = 6  # steps of power iteration for each of the first scales
_KRYLOV = 10  # steps of Lanczos in each round
# Of the smoothed maximum over trial vectors. What smoothing adds to a log norm, log(trials) over
# this, counts as often as the network is deep. In large networks a lower one saves time.
_SHARP, _SHARP_IF_LARGE = 1000.0, 200.0
_ROUNDING = 1e-9
_LARGEST_POWER = 300.0  # of e: squares of such numbers are doubles still
_JOINT = ("softmax", "div", "divide", "true_divide", "__truediv__")  # bounded as vectors alone
_MOST_PARTS = 64  # channels with scales of their own

Values = dict[int, Tensor]


class _Link(Protocol):
    """The interface of `graph.Link` that is used here, with one input."""

    @property
    def start(self) -> Step: ...
    @property
    def steps(self) -> tuple[Step, ...]: ...
    @property
    def all_steps(self) -> Sequence[Step]: ...
    def is_linear(self, step: Step) -> bool: ...
    def gain(self, step: Step) -> rules.Gain | None: ...
    def rounds(self, step: Step) -> bool: ...


@dataclass(frozen=True)
class _Bend:
    """A nonlinear step: its linear part, and a bound on the rest."""

    step: Step
    level: int  # the most bent steps on a way to it, itself too
    centre: Callable[[Values], Tensor | float]
    moved: Callable[[Values], Tensor]  # |rest| <= |moved|
    parts: int = 1  # along the second axis, for each of which |rest| <= |moved| by itself


def sector_upper(link: _Link) -> float:
    """An upper constant of a map of one value, Eq. (eq:sectors); infinite where none is found."""
    bends, levels = _bends(link)
    if bends is None or not bends or not link.start.value.is_floating_point():
        return math.inf
    shapes = [link.start.value.shape, *(bend.step.value.shape for bend in bends)]
    sizes = [math.prod(shape) for shape in shapes]
    if sum(sizes) > _LARGEST:
        return math.inf
    rows: list[int] = []
    asked_for = patterns.needed(link.steps[-1], link.all_steps)
    bent = {bend.step.index: bend for bend in bends}

    def replayed(vector: Tensor) -> Tensor:
        double = vector.dtype == torch.float64
        split = zip(torch.split(vector, sizes), shapes, strict=True)
        # The vector is (s, e_1, e_2, ...) of eq:sectors: the start's difference and the rests.
        parts = [piece.reshape(shape) for piece, shape in split]
        values, rests, outputs = {link.start.index: parts[0]}, iter(parts[1:]), []
        for step in link.steps:
            if step.index not in asked_for:
                continue  # of use to a bent step alone, which is known as a whole
            if (bend := bent.get(step.index)) is not None:
                # r_i p_i goes out, and e_i comes in behind the bent step.
                outputs.append(_flat(bend.moved(values)))
                values[step.index] = next(rests) + bend.centre(values)
            else:
                values[step.index] = step.replay(values, double=double)
        outputs.append(_flat(values[link.steps[-1].index]))
        rows[:] = [len(output) for output in outputs]
        return torch.cat(outputs).to(vector.dtype)

    zero = torch.zeros(sum(sizes), dtype=torch.float64, device=link.start.value.device)
    try:
        run: Callable[[Tensor], Tensor] = replayed
        linear_map = LinearPart(run, zero)
        if not linear_map.is_linear():
            return math.inf
        if len(zero) <= _DENSE:
            with torch.no_grad():
                # Column by column: few numbers, and thousands of products to come.
                units = torch.eye(len(zero), dtype=torch.float64, device=zero.device)
                matrix = torch.stack([linear_map._map(unit) for unit in units], 1)
            run = partial(torch.mv, matrix)
            linear_map = LinearPart(run, zero)
    except RuntimeError:
        return math.inf
    # D of eq:sectors: one more than the bent steps on the longest path.
    depth = levels[link.steps[-1].index] + 1
    levels_of_bends = np.array([bend.level for bend in bends])
    ends = zip(bends, sizes[1:], rows[:-1], strict=True)
    # Channels need rests and outputs of the same shape.
    parts = [bend.parts if size == row else 1 for bend, size, row in ends]
    counts = list(zip(sizes[1:], rows, parts, strict=False))

    def searched(linear_map: LinearPart) -> tuple[_Search, FloatArray, float]:
        search = _Search(
            linear_map,
            [sizes[0], *(n // k for n, _, k in counts for _ in range(k))],
            [*(n // k for _, n, k in counts for _ in range(k)), rows[-1]],
            levels_of_bends.repeat(parts),
            depth,
        )
        # First a scale for each bent step, then one for each channel of it.
        scales, size = search.scales(np.array(parts))
        if max(parts) > 1:
            scales, size = search.scales(np.ones(sum(parts), dtype=np.int64), (scales, size))
        return search, scales, size

    large = len(zero) > _LARGE
    try:
        # Any scales are valid, so they need not be found in double precision.
        single = large and link.start.value.dtype == torch.float32
        search, scales, size = searched(
            LinearPart(run, zero, single=True) if single else linear_map
        )
        if not (np.isfinite(scales).all() and math.isfinite(size)):
            raise OverflowError
    except (RuntimeError, ValueError, OverflowError):  # beyond float32, or of mixed precisions
        search, scales, size = searched(linear_map)
    # The bound itself is computed in double precision, whatever the search used.
    inner, outer = search.spread(scales, size, torch.float64)
    scaled = LinearPart(lambda vector: outer * run(vector / inner), zero)
    norm = scaled.bracket(narrow=(0.04 if large else 0.02) / depth).upper * (1 + _ROUNDING)
    # Scales that fall by the norm with every level bring it down to 1, by the lemma of Schwarz.
    return size * float(norm**depth if norm > 1 else norm)


def _flat(value: Tensor) -> Tensor:
    return (torch.view_as_real(value) if value.is_complex() else value).reshape(-1)


def _bends(link: _Link) -> tuple[list[_Bend] | None, dict[int, int]]:
    """The bent steps; None where one has no constant."""
    levels = {link.start.index: 0}
    bends = []
    asked_for = patterns.needed(link.steps[-1], link.all_steps)
    for step in link.steps:
        # k_i of eq:sectors.
        level = max(levels[parent] for parent in step.parents)
        if step.index not in asked_for:
            levels[step.index] = level
            continue
        if (line := patterns.pieces(step, link.all_steps)) is not None and line[0] in levels:
            level += 1
            bends.append(_between(step, level, line[0], *line[1:]))
        elif not (step.value.is_floating_point() or step.value.is_complex()):
            return None, levels
        elif not link.is_linear(step):
            level += 1
            if (bend := _bend(link, step, level)) is None:
                return None, levels
            bends.append(bend)
        levels[step.index] = level
    return bends, levels


def _bend(link: _Link, step: Step, level: int) -> _Bend | None:
    if not step.value.is_floating_point() or link.rounds(step):
        return None
    if len(step.inputs) == 2 and step.module is None:
        if not rules.is_maximum(step):
            return None
        first, second = step.inputs  # max(a, b) = (a + b) / 2 + |a - b| / 2

        def joined(sign: int) -> Callable[[Values], Tensor]:
            return lambda values: (values[first] + sign * values[second]) / 2

        return _Bend(step, level, joined(1), joined(-1))
    if (gain := link.gain(step)) is None or not math.isfinite(gain.bracket.upper):
        return None
    # Without bounds on slopes the centre is 0: |q| <= upper |p|.
    upper, parents = gain.bracket.upper, step.parents
    slopes = rules.slopes(step, upper) if step.module is None else None
    if slopes is not None:
        return _between(step, level, parents[0], *slopes)

    def moved(values: Values) -> Tensor:
        return upper * torch.cat([_flat(values[parent]) for parent in parents])

    return _Bend(step, level, lambda values: 0.0, moved)


def _between(step: Step, level: int, parent: int, first: float, second: float) -> _Bend:
    """A step whose slopes lie between two numbers."""

    def times(factor: float) -> Callable[[Values], Tensor]:
        return lambda values: factor * values[parent]

    parts = 1 if step.name in _JOINT else _channels(step.value)
    return _Bend(step, level, times((first + second) / 2), times(abs(first - second) / 2), parts)


def _channels(value: Tensor) -> int:
    """How many channels have scales of their own."""
    # (1, channels, ...): a batch of one.
    apart = value.ndim > 1 and len(value) == 1 and value.shape[1] <= _MOST_PARTS
    return value.shape[1] if apart else 1


@dataclass
class _Search:
    """Scales for which the norm is at most about 1, and the constant l small.

    Minimised is log l + depth max(0, log norm), by a bundle method: every trial vector bounds the
    norm from below as a function of all scales, through the energies of its parts. A round adds
    the Ritz vectors of a short Lanczos run, then minimises over all vectors so far, near the best
    scales.
    """

    linear_map: LinearPart
    sizes: list[int]
    rows: list[int]
    levels: NDArray[np.int64]  # of the bent steps
    depth: int
    _draws: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(0))
    _trials: list[tuple[FloatArray, FloatArray]] = field(default_factory=list)

    def spread(
        self, scales: FloatArray, size: float, dtype: torch.dtype | None = None
    ) -> tuple[Tensor, Tensor]:
        """The scale of each input and of each output of the map."""
        device, dtype = self.linear_map.device, dtype or self.linear_map.dtype
        # M takes d_i e_i and gives d_i r_i p_i and y / l.
        inner = torch.tensor([1.0, *scales], dtype=dtype, device=device)
        outer = torch.tensor([*scales, 1 / size], dtype=dtype, device=device)
        sizes, rows = (torch.tensor(counts, device=device) for counts in (self.sizes, self.rows))
        return inner.repeat_interleave(sizes), outer.repeat_interleave(rows)

    def scales(
        self, tied: NDArray[np.int64], first: tuple[FloatArray, float] | None = None
    ) -> tuple[FloatArray, float]:
        """The best scales, and l, where so many parts in a row have one and the same scale."""
        scales, size = first or self._first(tied)
        best, incumbent, near = math.inf, (scales, size), 0.3
        start, history = self._draw(), [math.inf]
        rounds = _WORK // sum(self.sizes)
        patience = _PATIENCE if first or max(tied) == 1 else _FIRST_PATIENCE
        for _ in range(min(max(rounds, _FEWEST_ROUNDS), _ROUNDS)):
            if len(history) > patience and history[-patience] - best < 0.01:
                break
            norm, start = self._try(scales, size, start)
            # Vectors found later may show that the incumbent is worse than it seemed.
            best = max(best, self._value(*incumbent)) if best < math.inf else best
            value = max(self._value(scales, size), self._valued(size, norm))
            if value < best - 1e-3:
                falling = max(norm, 1.0)  # so that the next norm is about 1
                incumbent = scales * falling**-self.levels, size * falling**self.depth
                best, near = value, min(2 * near, 10.0)
            else:
                near = max(0.6 * near, 1e-3)
            history.append(best)
            scales, size = self._minimised(*incumbent, near, tied)
        norm, _ = self._try(*incumbent, start)
        # With a margin, since the norm is from below.
        falling = max(norm * (1 + 0.005 / self.depth), 1.0)
        return incumbent[0] * falling**-self.levels, incumbent[1] * falling**self.depth

    def _valued(self, size: float, norm: float) -> float:
        return math.log(size) + (self.depth if norm > 1 else 1) * math.log(norm)

    def _value(self, scales: FloatArray, size: float) -> float:
        """Lower bound on the objective, from the norm that the trial vectors show."""
        # Energies of the trials in each part: a quotient for each, linear in the squared scales.
        behind, before = (np.array(several) for several in zip(*self._trials, strict=True))
        squares = np.append(scales, 1 / size) ** 2, np.append(scales, 1.0) ** 2
        largest = float(np.max((behind @ squares[0]) / (before @ squares[1])))
        return self._valued(size, math.sqrt(max(largest, 1e-300)))

    def _draw(self) -> Tensor:
        drawn = torch.randn(sum(self.sizes), generator=self._draws, dtype=torch.float64)
        return drawn.to(self.linear_map.device, self.linear_map.dtype)

    @torch.no_grad()
    def _first(self, tied: NDArray[np.int64]) -> tuple[FloatArray, float]:
        """First scales, set one after the other so that each row has a norm of about 1/2."""
        scales = np.ones(len(tied) + 1)
        starts = np.append(np.cumsum(tied) - tied, sum(tied))
        # Ends of the inputs and outputs that belong to each bent step.
        into = np.cumsum([0, self.sizes[0], *np.add.reduceat(self.sizes[1:], starts[:-1])])
        out = np.cumsum([0, *np.add.reduceat(self.rows, starts)])
        for place in range(len(scales)):
            inner, outer = self.spread(scales[:-1].repeat(tied), 1.0)
            vector = self._draw()
            norm = 0.0
            for _ in range(_POWER):
                # From the input on: only steps before this one, whose scales are set.
                vector[into[place + 1] :] = 0
                vector = vector / vector.norm()
                image = outer * self.linear_map._map(vector / inner)
                image[: out[place]] = image[out[place + 1] :] = 0
                norm = float(image.norm())
                if norm == 0:
                    break
                vector = self.linear_map._map_adjoint(outer * image) / inner
            scales[place] = 0.5 / norm if norm > 0 else 1.0
        return scales[:-1].repeat(tied), 1 / float(scales[-1])

    @torch.no_grad()
    def _try(self, scales: FloatArray, size: float, start: Tensor) -> tuple[float, Tensor]:
        """A norm from below, and where to start next; the trial vectors are kept."""
        inner, outer = self.spread(scales, size)
        basis = torch.empty(_KRYLOV, sum(self.sizes)).to(start)
        images = torch.empty(_KRYLOV, sum(self.rows)).to(start)
        basis[0] = start / start.norm()
        for count in range(1, _KRYLOV + 1):
            images[count - 1] = outer * self.linear_map._map(basis[count - 1] / inner)
            if count == _KRYLOV:
                break
            back = self.linear_map._map_adjoint(outer * images[count - 1]) / inner
            for _ in range(2):
                back = back - (basis[:count] @ back) @ basis[:count]
            # Relative length below which a vector counts as zero in the map's precision.
            rounding = math.pow(torch.finfo(self.linear_map.dtype).eps, 0.6)
            if float(back.norm()) <= rounding * float(images[count - 1].norm()):
                break
            basis[count] = back / back.norm()
        image = images[:count]
        # Ritz values and vectors of M^T M on the Krylov space.
        squares, turn = torch.linalg.eigh((image @ image.T).double())
        turn = turn.T.to(image.dtype)
        vectors, image = turn @ basis[:count], turn @ image
        out, into = _energies(image, self.rows), _energies(vectors, self.sizes)
        for place in range(len(squares)):
            # Directions that are stretched nearly as much matter to the next scales too.
            if squares[place] > 0.2 * squares[-1]:
                behind = np.append(out[place, :-1] / scales**2, out[place, -1] * size**2)
                before = np.append(into[place, 1:] / scales**2, into[place, 0])
                self._trials.append((behind, before))
        noise = self._draw()
        # Some noise, so that directions which the start lacks can enter.
        next_start = vectors[-1] + 0.1 * noise / noise.norm()
        if len(squares) > 1:
            next_start = next_start + 0.5 * vectors[-2]
        return max(float(squares[-1]), 1e-300) ** 0.5, next_start

    def _minimised(
        self, scales: FloatArray, size: float, near: float, tied: NDArray[np.int64]
    ) -> tuple[FloatArray, float]:
        # Energies of parts relative to the present scales, summed where parts move together.
        starts = np.append(np.cumsum(tied) - tied, len(scales))
        behind, before = (
            np.add.reduceat(np.array(several) * np.append(scales**2, 1.0), starts, axis=1)
            for several in zip(*self._trials, strict=True)
        )
        origin = np.append(np.zeros(len(tied)), math.log(size))
        signs = np.append(np.ones(len(tied)), -1.0)

        # Of the smoothed maximum; float32 is for large networks.
        sharp = _SHARP_IF_LARGE if self.linear_map.dtype == torch.float32 else _SHARP
        soft = 2 / sharp

        def model(point: FloatArray) -> tuple[float, FloatArray]:
            # A line search may try scales beyond all numbers.
            powers = np.clip(2 * point, -_LARGEST_POWER, _LARGEST_POWER)
            above = behind * np.exp(signs * powers)
            below = before * np.exp(np.append(powers[:-1], 0.0))
            total, base = above.sum(1), below.sum(1)
            # Log norm of each trial, and their smoothed maximum.
            logs = np.log(total / base) / 2
            weights = np.exp(sharp * (logs - logs.max()))
            smooth = logs.max() + math.log(weights.sum()) / sharp
            weights /= weights.sum()
            # Penalty: depth times log norm where it is above 0, smoothed (softplus).
            slope = 1 / (1 + math.exp(-min(max(smooth / soft, -500), 500)))
            penalty = soft * float(np.logaddexp(0, smooth / soft))
            below[:, -1] = 0
            turn = weights @ (signs * above / total[:, None] - below / base[:, None])
            # Steps are kept short: the trials are of the present scales.
            moved = (point - origin)[:-1]
            gradient = self.depth * slope * turn + np.append(moved / near, 1.0)
            return point[-1] + self.depth * penalty + moved @ moved / (2 * near), gradient

        minimiser = minimize(model, origin, jac=True, method="L-BFGS-B", options={"maxiter": 200}).x
        minimiser = np.clip(minimiser, origin - 20, origin + 20)
        return scales * np.exp(minimiser[:-1]).repeat(tied), math.exp(minimiser[-1])


def _energies(vectors: Tensor, sizes: list[int]) -> FloatArray:
    """Sums of squares over the parts of each vector: (vectors, parts)."""
    squares = [block.square().sum(1) for block in torch.split(vectors.double(), sizes, 1)]
    return np.asarray(torch.stack(squares, 1).cpu())

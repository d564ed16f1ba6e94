"""What `korisk bound` finds out of a network, before anything is shown."""

from dataclasses import dataclass

from korisk._checks import target_error
from korisk.errors import KoriskError, UnreachableError
from korisk.theory import BOUNDS, BarronBound, Bound, BoundForm, Network, barron_bound, sample_size
from korisk.theory.bound import states_effective

DEFAULT_N = 1000
_LARGEST_N_OF_BOUND = (
    10**300
)  # beyond it log N / N is zero for every purpose, and N no longer a double

Samples = dict[BoundForm, int | None]


@dataclass(frozen=True)
class Question:
    """What was asked: a bound, the N or the target, and which dimension decides.

    `both` is whether the network as given states an effective dimension, so that both are shown;
    one whose layer was replaced is shown like the one it came from.
    """

    bound: BoundForm
    n: float | None
    target: float | None
    effective: bool
    both: bool


@dataclass(frozen=True)
class Answer:
    """Everything that the command says of one network.

    The asked bound is always there; another is None where the file does not give what it needs.
    `samples` are with p and `estimates` with effective dimensions, None for a target that cannot
    be reached.
    """

    net: Network
    question: Question
    chosen: BarronBound
    bounds: dict[BoundForm, BarronBound | None]
    samples: Samples
    estimates: Samples

    @property
    def bound(self) -> BoundForm:
        """The asked form of the bound."""
        return self.question.bound

    @property
    def target(self) -> float | None:
        """The squared error to reach, if one was given."""
        return self.question.target

    @property
    def needed(self) -> int | None:
        """The N that the target asks for, by the asked bound and dimension."""
        found = self.estimates if self.question.effective else self.samples
        return found.get(self.bound)

    @property
    def reached(self) -> bool:
        """Whether the target, if there is one, can be reached."""
        return self.target is None or self.needed is not None


def asked(
    net: Network, bound: BoundForm, n: float | None, target: float | None, *, effective: bool
) -> Question:
    """The question, if the network can be asked it."""
    both = states_effective(net)
    if effective and not both:
        raise KoriskError(
            "--effective needs a learned layer that states its effective dimension, and this "
            "network has none; add `effective:` to a layer of the file, or leave --effective out"
        )
    return Question(bound, n, None if target is None else target_error(target), effective, both)


def answer(net: Network, question: Question) -> Answer:
    """The bounds of the network at the asked N, and the N for the target."""
    samples = _samples(net, question, effective=False)
    estimates = _samples(net, question, effective=True) if question.both else {}
    needed = (estimates if question.effective else samples).get(question.bound)
    at = question.n if question.n is not None else min(needed or DEFAULT_N, _LARGEST_N_OF_BOUND)
    chosen = barron_bound(net, at, bound=question.bound, effective=question.effective)
    bounds = {
        m: chosen if m == question.bound else _bound_or_none(net, at, m, question.effective)
        for m in BOUNDS
    }
    return Answer(net, question, chosen, bounds, samples, estimates)


def with_dimension(found: BarronBound | None, *, effective: bool) -> Bound | None:
    """The bound with p, or the one with effective dimensions.

    A network that states none any more, its layer being known, has the one with p for both.
    """
    if found is None:
        return None
    return found.by_effective or found.by_parameters if effective else found.by_parameters


def parts(found: BarronBound | None, *, effective: bool) -> dict[str, float] | None:
    """Total, floor and estimation of a bound with p or with effective dimensions."""
    bound = with_dimension(found, effective=effective)
    if found is None or bound is None:
        return None
    estimation = float((bound.contributions - found.approximations).sum())
    return {"total": bound.total, "floor": found.floor, "estimation": estimation}


def _samples(net: Network, question: Question, *, effective: bool) -> Samples:
    if question.target is None:
        return {}
    found: Samples = {}
    for bound in BOUNDS:
        try:
            found[bound] = sample_size(net, question.target, bound=bound, effective=effective)
        except UnreachableError:
            found[bound] = None
        except KoriskError:
            if (bound, effective) == (question.bound, question.effective):
                raise
            found[bound] = None
    return found


def _bound_or_none(net: Network, n: float, bound: BoundForm, effective: bool) -> BarronBound | None:
    try:
        return barron_bound(net, n, bound=bound, effective=effective)
    except KoriskError:
        return None

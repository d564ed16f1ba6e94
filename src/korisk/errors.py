"""Errors that a user can cause. The command line prints each in one line, without a traceback."""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Self


class Absent:
    """The value of an argument that a message names without one; a class, so that it pickles."""


@dataclass(frozen=True)
class Argument:
    """An argument that a message names: `unit='dB'` in Python, `--unit dB` on the command line.

    Without a value it is the subject of a sentence (`unit must be ...`); with `...` as its value
    the reader fills it in (`pass unit=`).
    """

    name: str
    value: object = Absent

    def __str__(self) -> str:
        if self.value is Absent:
            return self.name
        return f"{self.name}=" + ("" if self.value is ... else _written(self.value))


class Message(str):
    """A text for people that knows which of its parts are arguments.

    It reads as Python says it. The command line renders `parts` and names its options instead, so
    that nothing a user wrote is ever taken for an argument.
    """

    __slots__ = ("parts",)
    parts: tuple[str | Argument, ...]

    def __new__(cls, *parts: str | Argument) -> Self:
        """Join the parts; those of a message among them become this message's own."""
        message = super().__new__(cls, "".join(map(str, parts)))
        message.parts = tuple(
            piece for part in parts for piece in (part.parts if isinstance(part, cls) else (part,))
        )
        return message


class KoriskError(ValueError):
    """Wrong input: the message names the thing, the rule, the value and the remedy.

    A `ValueError`, on one line. All errors that korisk raises for what it was given derive from it.
    Errors of `invalid` have these four as attributes.

    Parameters
    ----------
    *parts : str or Argument
        The message, in which arguments are marked.

    Examples
    --------
    >>> import korisk as kr
    >>> kr.Known("K", lipschitz=-1)
    Traceback (most recent call last):
    korisk.errors.KoriskError: layer 'K': lipschitz must be a finite number >= 0, got -1; give ...
    """

    exit_code: ClassVar[int] = 2
    argument = rule = remedy = ""
    value: object = Absent

    def __init__(self, *parts: str | Argument) -> None:
        self.message = Message(*parts)
        super().__init__(self.message)


def invalid(
    argument: str, rule: str, value: object, remedy: str = "", *, got: str | None = None
) -> KoriskError:
    """The error for an argument that breaks a rule: `argument must rule, got value; remedy`.

    Parameters
    ----------
    argument : str
        Its name, or what stands for it in a sentence, such as "layer 'K': lipschitz".
    rule : str
        What it must do, after "must": "be a whole number >= 1", "have shape (8, 8)".
    value : object
        What was given.
    remedy : str or Message, optional
        What to do instead.
    got : str, optional
        The value in words; None shows the value itself.
    """
    subject = Argument(argument) if argument.isidentifier() else argument
    given = shown(value) if got is None else got
    error = KoriskError(subject, f" must {rule}, got {given}", *(("; ", remedy) if remedy else ()))
    error.argument, error.rule, error.value, error.remedy = argument, rule, value, remedy
    return error


class MissingExtraError(KoriskError, ImportError):
    """What was asked for needs a package that is not installed; the message names the extra."""


@contextmanager
def needed_by(what: str, package: str, install: str) -> Iterator[None]:
    """Around the import of a package that may be missing: what needs it, and how to install it."""
    try:
        yield
    except ModuleNotFoundError as missing:
        absent = (missing.name or package).split(".")[0].lower()
        which = "which" if absent in package.lower() else f"and {absent}"  # what it needs in turn
        text = f"{what} needs {package}, {which} is not installed; pip install {install}"
        raise MissingExtraError(text) from missing


class KoriskWarning(UserWarning):
    """A warning about an answer that is given, such as one that rests on a default.

    Examples
    --------
    >>> import warnings
    >>> import korisk as kr
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", kr.KoriskWarning)  # in here it stops a script
    """


class UnreachableError(KoriskError):
    """The question was sound, and the answer is that no amount of data reaches the target.

    Parameters
    ----------
    target : float
        The error that was asked for.
    floor : float
        What more data cannot lower.
    what : str, default "the bound"
        What levels off there.
    remedy : str
        What may help, for the message.

    Examples
    --------
    >>> import korisk as kr
    >>> kr.theory.RiskLine(floor=0.01, slope=1.0).samples(0.005)
    Traceback (most recent call last):
    korisk.errors.UnreachableError: target 0.005 cannot be reached: the bound levels off at 0.01 ...
    """

    exit_code: ClassVar[int] = 3

    def __init__(
        self,
        *,
        target: float,
        floor: float,
        what: str = "the bound",
        remedy: str = "lower the approximation and mismatch terms",
    ) -> None:
        self.target = target
        self.floor = floor
        gap = floor - target
        excess = f"{gap:.3g} above the target" if gap > 0 else "which is the target itself"
        super().__init__(
            f"target {target:.6g} cannot be reached: {what} levels off at {floor:.6g} however many "
            f"samples there are, {excess}; ask for an error above {floor:.6g}, or {remedy}"
        )


class OutOfReachError(KoriskError):
    """The pilot gives no number of samples for the target; more data might.

    Raised by `Plan.require`.

    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.1, 0.09, 0.08, 0.075, 0.072],
    ...                  model="KO")
    >>> kr.plan(pilot, target=0.01).require()
    Traceback (most recent call last):
    korisk.errors.OutOfReachError: KO: measure N = 512 next, with 3 seeds: ...
    """

    exit_code: ClassVar[int] = 3


def _written(value: object) -> str:
    """A value as Python writes it, with `...` for what a reader fills in."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_written(item)}" for key, item in value.items()) + "}"
    return "..." if value is ... else repr(value)


def shown(value: object, *, limit: int = 60) -> str:
    """A value as it may stand in a one-line message: on one line, and short."""
    try:
        text = " ".join(repr(value).split())
    except ValueError:  # Python refuses to write out whole numbers of thousands of digits
        text = f"<{type(value).__name__}, too long to show>"
    return text if len(text) <= limit else text[: limit - 3] + "..."


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or the list of what is known where nothing is near."""
    choices = list(known)
    by_folded = {choice.casefold(): choice for choice in choices}
    near = difflib.get_close_matches(word.casefold(), by_folded, n=1, cutoff=0.6)
    if near:
        return f"; did you mean {by_folded[near[0]]!r}?"
    more = f" and {len(choices) - 10} more" if len(choices) > 10 else ""
    return "; known: " + ", ".join(choices[:10]) + more

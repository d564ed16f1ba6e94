"""Errors that a user can cause. The command line prints them on one line, without a traceback."""

import difflib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Self


class Absent:
    """Marks an `Argument` without a value; a class, so that it can be pickled."""


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
    """A message in which the names of arguments are marked.

    As a string it has the Python names. The command line renders `parts` with its option names
    instead; text that a user wrote is never mistaken for an argument.
    """

    __slots__ = ("parts",)
    parts: tuple[str | Argument, ...]

    def __new__(cls, *parts: str | Argument) -> Self:
        """Join the parts; messages among them are flattened into their parts."""
        message = super().__new__(cls, "".join(map(str, parts)))
        message.parts = tuple(
            piece for item in parts for piece in (item.parts if isinstance(item, cls) else (item,))
        )
        return message


class KoriskError(ValueError):
    """Wrong input: the message names the thing, the rule, the value and the remedy.

    A `ValueError` of one line, and the base of all errors that korisk raises for wrong input.
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

    An argument that is no name is the subject of the sentence, such as "layer 'K': lipschitz";
    `rule` continues "must", and `got` has the value in words.
    """
    subject = Argument(argument) if argument.isidentifier() else argument
    got = shown(value) if got is None else got
    error = KoriskError(subject, f" must {rule}, got {got}", *(("; ", remedy) if remedy else ()))
    # Kept apart, so that callers need not parse the text.
    error.argument, error.rule, error.value, error.remedy = argument, rule, value, remedy
    return error


class MissingExtraError(KoriskError, ImportError):
    """A feature needs a package that is not installed; the message names the extra."""


@contextmanager
def needed_by(what: str, package: str, install: str) -> Iterator[None]:
    """Wrap an import; if the package is missing, raise an error that says how to install it."""
    try:
        yield
    except ModuleNotFoundError as missing:
        # The missing module may be a dependency of the package.
        absent = (missing.name or package).split(".")[0].lower()
        which = "which" if absent in package.lower() else f"and {absent}"
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
    """No number of samples is known to reach the target.

    A bound levels off above it, or a pilot gives no number of samples for it.

    Parameters
    ----------
    *parts : str or Argument
        The message, in which arguments are marked.

    Examples
    --------
    >>> import korisk as kr
    >>> kr.theory.RiskLine(floor=0.01, slope=1.0).samples(0.005)
    Traceback (most recent call last):
    korisk.errors.UnreachableError: target 0.005 cannot be reached: the bound levels off at 0.01 ...
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.1, 0.09, 0.08, 0.075, 0.072], model="KO")
    >>> kr.plan(pilot, target=0.01).require()
    Traceback (most recent call last):
    korisk.errors.UnreachableError: KO: unlikely to reach 0.01 ...
    """

    exit_code: ClassVar[int] = 3
    target: float | None = None  # set where a floor above the target is the reason
    floor: float | None = None


def levels_off(
    target: float,
    floor: float,
    what: str = "the bound",
    remedy: str = "lower the approximation and mismatch terms",
) -> UnreachableError:
    """The error for a target at or below a floor, at which `what` levels off; `remedy` ends it."""
    gap = floor - target
    excess = f"{gap:.3g} above the target" if gap > 0 else "which is the target itself"
    error = UnreachableError(
        f"target {target:.6g} cannot be reached: {what} levels off at {floor:.6g} however many "
        f"samples there are, {excess}; ask for an error above {floor:.6g}, or {remedy}"
    )
    error.target, error.floor = target, floor
    return error


def _written(value: object) -> str:
    """A value in Python's notation, with `...` as a placeholder."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {_written(item)}" for key, item in value.items()) + "}"
    return "..." if value is ... else repr(value)


def shown(value: object, *, limit: int = 60) -> str:
    """A value for a message: on one line, and short."""
    try:
        # Messages are one line: line breaks in a value's repr become spaces.
        text = " ".join(repr(value).split())
    except ValueError:  # Python refuses to write out whole numbers of thousands of digits
        text = f"<{type(value).__name__}, too long to show>"
    return text if len(text) <= limit else text[: limit - 3] + "..."


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?`, or the list of known words if none is similar."""
    choices = list(known)
    if (near := nearest(word, choices)) is not None:
        return f"; did you mean {near!r}?"
    rest = f" and {len(choices) - 10} more" if len(choices) > 10 else ""
    return "; known: " + ", ".join(choices[:10]) + rest


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most like this one; None if none is similar."""
    # Compared without case, so that "PSNR" suggests "psnr".
    by_folded = {choice.casefold(): choice for choice in known}
    near = difflib.get_close_matches(word.casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[near[0]] if near else None


def raised(error: BaseException) -> str:
    """The kind of an error of the user's code, its first line, and where it was raised."""
    import traceback
    from pathlib import Path

    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
    return f"{text} ({Path(frame.filename).name}, line {frame.lineno})"

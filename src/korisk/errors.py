"""Errors that a user can cause. The command line prints each in one line, without a traceback."""

import difflib
from collections.abc import Iterable
from typing import ClassVar


class KoriskError(ValueError):
    """Wrong input: the message names the thing, the rule, the value and the remedy.

    A `ValueError`, on one line. All errors that korisk raises for what it was given derive from it.

    >>> import korisk as kr
    >>> kr.Known("K", lipschitz=-1)
    Traceback (most recent call last):
    korisk.errors.KoriskError: layer 'K': lipschitz must be a finite number >= 0, got -1; give ...
    """

    exit_code: ClassVar[int] = 2


class MissingExtraError(KoriskError, ImportError):
    """What was asked for needs a package that is not installed; the message names the extra."""


class KoriskWarning(UserWarning):
    """What was asked for can be done, and its user should know something about it."""


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
    >>> kr.RiskLine(floor=0.01, slope=1.0).samples(0.005)
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
    """The question was sound, and a pilot speaks against the target; more data might not.

    Raised by `Plan.require`.

    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.1, 0.09, 0.08, 0.075, 0.072],
    ...                  model="KO")
    >>> kr.plan(pilot, target=0.01).require()
    Traceback (most recent call last):
    korisk.errors.OutOfReachError: The target 0.01 is not reachable according to this pilot: ...
    """

    exit_code: ClassVar[int] = 3


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

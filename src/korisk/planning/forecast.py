"""The forecast of a pilot, which answers questions by the common protocol."""

from collections.abc import Iterable
from dataclasses import dataclass

from korisk.curves.curve import Curve
from korisk.planning.extrapolation import Extrapolation, extrapolate
from korisk.planning.fit import DEFAULT_FIT, check_target
from korisk.planning.plan import Plan, plan_from
from korisk.planning.protocol import Answers


@dataclass(frozen=True)
class Forecast(Extrapolation, Answers):
    """A pilot and its extrapolation, for every N and target. Made by `forecast`.

    N may run up to `horizon`, ten thousand times the pilot's largest. Inside the pilot the law of
    the error is that of the measured means; beyond it, that of the posterior, mixed with the law
    implied by `related` curves.

    Parameters
    ----------
    curve : Curve
        The pilot.
    fit : str
        One of `FITS`.
    related : tuple of Curve, default ()
        Curves of the same network on other data.

    Examples
    --------
    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
    >>> forecast = kr.forecast(pilot)
    >>> forecast.last, forecast.horizon
    (256, 2560000)
    >>> round(forecast.at(512).value, 4), forecast.at(1024).upper < 0.005
    (0.0063, True)
    >>> forecast.samples(0.005) == kr.plan(pilot, 0.005).samples()
    True
    """

    def plan(self, target: float) -> Plan:
        """The plan for a target, in the user's unit.

        Parameters
        ----------
        target : float
            The value to reach.

        Returns
        -------
        Plan
            As `korisk.plan` returns it.
        """
        check_target([self.curve], target)
        return plan_from(self, target)


def forecast(curve: Curve, *, fit: str = DEFAULT_FIT, related: Iterable[Curve] = ()) -> Forecast:
    """Extrapolate a pilot beyond its largest N.

    Parameters
    ----------
    curve : Curve
        The pilot, of at least three sizes (two for "paper").
    fit : str, default "posterior"
        One of `FITS`. The default is a posterior over many curves, which gives probabilities;
        other fits extrapolate one fitted curve.
    related : iterable of Curve, default ()
        Curves of the same network on other data, such as simulated ones, whose shape the pilot may
        share. They are weighted by how well they explain the pilot; see `kr.plan`.

    Returns
    -------
    Forecast
        The pilot and its extrapolation.

    Raises
    ------
    KoriskError
        If the pilot is too small, or a related curve does not belong to it.

    Examples
    --------
    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128, 256], [0.2, 0.1, 0.05, 0.025, 0.0125], model="KO")
    >>> forecast = kr.forecast(pilot)
    >>> round(forecast.at(512).value, 4)
    0.0063
    """
    extrapolation = extrapolate(curve, fit=fit, related=related)
    return Forecast(extrapolation.curve, extrapolation.fit, extrapolation.related)

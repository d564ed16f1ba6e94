"""The paper's recipe: floor and sigma of a pilot, and what follows from these two numbers."""

from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from korisk._checks import one_of
from korisk.curves.curve import Curve
from korisk.errors import Argument, KoriskError, Message, UnreachableError
from korisk.planning import words
from korisk.planning.fit import calibrate as fitted
from korisk.planning.forecast import check_curve
from korisk.texts import Table, number, whole
from korisk.theory import (
    BOUNDS,
    BoundForm,
    Network,
    RiskLine,
    TwoFactors,
    calibrated,
    risk_line,
    two_factors,
)


@dataclass(frozen=True, kw_only=True)
class Calibration(RiskLine):
    """The line floor + sigma log N / N of a pilot, Eq. (eq:calibrated-bound). Made by `calibrate`.

    Parameters
    ----------
    floor, slope : float
        The two numbers of (tab:calibration), as errors; the paper writes slope as sigma.
    curve : Curve
        The pilot.
    bound : {"composed", "minkowski", "paper"}, default "paper"
        The form of the bound that `network` calibrates.

    Examples
    --------
    >>> import korisk as kr
    >>> pilot = kr.Curve([16, 32, 64, 128], [0.21, 0.11, 0.06, 0.035])
    >>> recipe = kr.calibrate(pilot)
    >>> recipe.floor, round(recipe.slope, 2), recipe.samples(0.05)
    (0.035, 0.85, 327)
    """

    curve: Curve
    bound: BoundForm = "paper"

    def factors(self, dense: "Calibration", target: float) -> TwoFactors:
        """Both factors of Proposition (prop:ct-proxy) beside a network with more to learn.

        Parameters
        ----------
        dense : Calibration
            That of the other network.
        target : float
            The squared error to reach.

        Returns
        -------
        TwoFactors
            The structural and the approximation factor, and both sample sizes.

        Raises
        ------
        UnreachableError
            If a floor is at or above the target.
        """
        return two_factors(self, dense, target)

    def network(self, net: Network) -> Network:
        """A network with C and kappa of its learned layer, such that its bound is this line.

        Parameters
        ----------
        net : Network
            The network, with one learned layer.

        Returns
        -------
        Network
            The calibrated network; see `theory.calibrated`.
        """
        return calibrated(net, self, bound=self.bound)

    def explain(
        self,
        target: float | None = None,
        dense: "Calibration | None" = None,
        network: Network | None = None,
    ) -> Message:
        """The recipe step by step, a line for each.

        Parameters
        ----------
        target : float, optional
            The squared error to reach. Without it there is neither N nor a factor.
        dense : Calibration, optional
            That of a network with more to learn.
        network : Network, optional
            The network of the pilot.

        Returns
        -------
        Message
            The steps, with the numbers of the paper's equations.
        """
        content = self.to_dict(target, dense, network)
        lines = [*words.calibrated_line(content)]
        if self.curve.unit.law == "error" and "rms" in self.curve.metric.lower():
            lines.append(Message(words.ROOT, Argument("unit", "rmse"), "."))
        if target is not None:
            lines.append(words.calibrated_samples(content))
        if dense is not None and target is not None:
            lines.append(words.calibrated_factors(content))
        if network is not None:
            lines += [words.calibrated_constants(content), str(_table(content))]
        return words.paragraph(lines, "\n")

    def to_dict(
        self,
        target: float | None = None,
        dense: "Calibration | None" = None,
        network: Network | None = None,
    ) -> dict[str, Any]:
        """The recipe as plain values, for JSON.

        Parameters
        ----------
        target, dense, network : optional
            As for `explain`.

        Returns
        -------
        dict
            See docs/reference/files.md for its keys.
        """
        curve = self.curve
        squared = " squared" if curve.unit.law == "squared" else ""
        content: dict[str, Any] = {
            "model": curve.model,
            "metric": f"{curve.metric or 'error'}{squared}",
        }
        content |= {"floor": self.floor, "sigma": self.slope}
        content["floor_at"] = int(curve.sizes[curve.means.argmin()])
        content["falls"] = content["floor_at"] == int(curve.sizes[-1])
        content |= {"target": target, "samples": _needed(self, target)}
        if dense is not None:
            content["dense"] = {"model": dense.curve.model, "floor": dense.floor}
            content["dense"] |= {"sigma": dense.slope, "samples": _needed(dense, target)}
            content["factors"] = None if target is None else _factors(self, dense, target)
        if network is not None:
            content["network"] = network.name
            content["constants"] = [_constants(network, self, form, target) for form in BOUNDS]
        return content


def calibrate(curve: Curve, bound: BoundForm = "paper") -> Calibration:
    """Calibrate the bound with a pilot, by the paper's recipe (tab:calibration).

    The floor is the lowest mean error, and sigma the slope of a regression of error - floor on
    log N / N, without intercept or weights, Eq. (eq:calibrated-bound). `plan` says how far such a
    line can be trusted, and answers targets below its floor.

    Parameters
    ----------
    curve : Curve
        The pilot, of at least two sizes, in mean squared errors, as in the theorem, or in their
        roots, read with the unit "rmse".
    bound : {"composed", "minkowski", "paper"}, default "paper"
        The form of the bound whose C and kappa `Calibration.network` finds.

    Returns
    -------
    Calibration
        Floor and sigma, and what follows from them.

    Raises
    ------
    KoriskError
        If the pilot has fewer than two sizes, or holds scores.

    Examples
    --------
    >>> import korisk as kr
    >>> n = [16, 32, 64, 128]
    >>> known = kr.calibrate(kr.Curve(n, [0.21, 0.11, 0.06, 0.035]))
    >>> dense = kr.calibrate(kr.Curve(n, [0.84, 0.44, 0.24, 0.14]))
    >>> factors = known.factors(dense, target=0.2)
    >>> round(factors.structural, 3), round(factors.approximation_budget, 2)
    (4.0, 2.75)
    """
    one_of("bound", bound, BOUNDS)
    check_curve(curve)
    if curve.unit.law not in ("error", "squared"):
        why = f"the theorem bounds squared errors, and the unit of this pilot is {curve.unit.name}"
        raise KoriskError(f"{why}; give mean squared errors")
    line = fitted(curve)
    return Calibration(floor=line.floor, slope=line.slope, curve=curve, bound=bound)


def _needed(line: RiskLine, target: float | None) -> int | None:
    """N for a target; None where the line does not reach it."""
    with suppress(UnreachableError):
        return None if target is None else line.samples(target)
    return None


def _factors(known: RiskLine, dense: RiskLine, target: float) -> dict[str, float] | None:
    """Both factors as plain values; None where a floor is in the way, or a line is flat."""
    try:
        factors = two_factors(known, dense, target)
    except KoriskError:
        return None
    return asdict(factors) | {"product": factors.product, "ratio": factors.ratio}


def _constants(
    net: Network, line: RiskLine, form: BoundForm, target: float | None
) -> dict[str, Any]:
    """C and kappa through one form of the bound, with its amplification and N."""
    after = calibrated(net, line, bound=form)
    (layer,) = after.learned
    factor = after.amplification(form)[net.index(layer.name)]
    values = {"amplification": float(factor), "C": layer.C, "kappa": layer.kappa}
    # Of the form itself, not of the line: that they agree is shown, and not supposed.
    samples = _needed(risk_line(after, bound=form), target)
    return {"bound": form, "layer": layer.name, **values, "samples": samples}


def _table(content: dict[str, Any]) -> Table:
    heads = ["bound", "A_l", "C", "kappa", "N"]
    names = "amplification", "C", "kappa"
    rows = [
        [row["bound"], *(number(row[name]) for name in names), whole(row["samples"])]
        for row in content["constants"]
    ]
    return Table("", heads, rows)

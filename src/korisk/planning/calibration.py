"""The paper's recipe: floor and sigma of a pilot, and what follows from these two numbers."""

from contextlib import suppress
from dataclasses import asdict, dataclass

import numpy as np

from korisk import theory
from korisk._checks import one_of
from korisk._json import JsonDict
from korisk.curves.curve import Curve
from korisk.errors import Argument, KoriskError, Message, UnreachableError
from korisk.planning.forecast import check_curve
from korisk.planning.words import REASONS, paragraph, reason
from korisk.texts import Table, number, whole


@dataclass(frozen=True, kw_only=True)
class Calibration(theory.RiskLine):
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
    bound: theory.BoundForm = "paper"

    def factors(self, dense: "Calibration", target: float) -> theory.TwoFactors:
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
        return theory.two_factors(self, dense, target)

    def network(self, net: theory.Network) -> theory.Network:
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
        return theory.calibrated(net, self, bound=self.bound)

    def explain(
        self,
        target: float | None = None,
        dense: "Calibration | None" = None,
        network: theory.Network | None = None,
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
        content, curve = self.to_dict(target, dense, network), self.curve
        metric = content["metric"]
        head = f"{curve.model} ({metric}), by the paper's" if curve.model else f"{metric}, by the"
        lines = [f"{head} recipe:", reason("line", **content)]
        lines += [] if content["falls"] else [reason("rising")]
        if curve.unit.law == "error" and "rms" in curve.metric.lower():
            lines.append(Message(REASONS["root"], Argument("unit", "rmse"), "."))
        if target is not None:
            case = {None: "never", 2: "any"}.get(content["samples"], "samples")
            lines.append(reason(case, **content))
        if dense is not None and target is not None:
            lines.append(_compared(content))
        if network is not None:
            paper, *_, composed = content["constants"]
            tighter = paper["amplification"] / composed["amplification"]
            lines.append(reason("constants", layer=composed["layer"], tighter=tighter))
            lines.append(str(_table(content)))
        return paragraph(lines, "\n")

    def to_dict(
        self,
        target: float | None = None,
        dense: "Calibration | None" = None,
        network: theory.Network | None = None,
    ) -> JsonDict:
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
        content: JsonDict = {"model": curve.model, "metric": f"{curve.metric or 'error'}{squared}"}
        floor_at, falls = curve.sizes[curve.means.argmin()], curve.means[-1] == self.floor
        content |= {"floor": self.floor, "sigma": self.slope, "floor_at": int(floor_at)}
        content |= {"falls": bool(falls), "target": target, "samples": _needed(self, target)}
        if dense is not None:
            content["dense"] = {"model": dense.curve.model, "floor": dense.floor}
            content["dense"] |= {"sigma": dense.slope, "samples": _needed(dense, target)}
            content["factors"] = None if target is None else _factors(self, dense, target)
        if network is not None:
            content["network"] = network.name
            content["constants"] = [
                _constants(theory.calibrated(network, self, bound=form), form, target)
                for form in theory.BOUNDS
            ]
        return content


def calibrate(curve: Curve, bound: theory.BoundForm = "paper") -> Calibration:
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
    one_of("bound", bound, theory.BOUNDS)
    line = paper_line(curve)
    if curve.unit.law not in ("error", "squared"):
        why = f"the theorem bounds squared errors, and the unit of this pilot is {curve.unit.name}"
        raise KoriskError(f"{why}; give mean squared errors")
    return Calibration(floor=line.floor, slope=line.slope, curve=curve, bound=bound)


def paper_line(curve: Curve) -> theory.RiskLine:
    """The line of `calibrate` through a pilot's mean errors, whatever its unit."""
    check_curve(curve)
    curve.require(2, "a line")
    n, means = curve.sizes.astype(float), curve.means
    rate, floor = np.log(n) / n, means.min()
    return theory.RiskLine(floor.item(), ((means - floor) @ rate / (rate @ rate)).item())


def _needed(line: theory.RiskLine, target: float | None) -> int | None:
    """N for a target; None where the line does not reach it."""
    with suppress(UnreachableError):
        return None if target is None else line.samples(target)
    return None


def _factors(known: theory.RiskLine, dense: theory.RiskLine, target: float) -> JsonDict | None:
    """Both factors as plain values; None where a floor is in the way, or a line is flat."""
    try:
        factors = theory.two_factors(known, dense, target)
    except KoriskError:
        return None
    return asdict(factors) | {"product": factors.product, "ratio": factors.ratio}


def _compared(content: JsonDict) -> str:
    """Both factors of Proposition 1, and the sample sizes, in a sentence."""
    dense, factors, target = content["dense"], content["factors"], content["target"]
    line = f"floor {dense['floor']:.4g}, sigma {dense['sigma']:.4g}"
    rival = f"{dense['model'] or 'the other'} ({line})"
    if factors is None:
        return reason("no_factors", other=rival, target=target)
    # 2 is any N: the ratio to it is a matter of the smallest N, and not of the networks.
    sizes = [line["samples"] for line in (dense, content)]
    needed = " against ".join("any" if n == 2 else f"{n:,}" for n in sizes)
    needed += "" if 2 in sizes else f", {factors['ratio']:,.3g} times as large"
    return reason("factors", other=rival, needed=needed, **factors)


def _constants(after: theory.Network, form: theory.BoundForm, target: float | None) -> JsonDict:
    """C and kappa through one form of the bound, with its amplification and N."""
    (layer,) = after.learned
    factor = after.amplification(form)[after.index(layer.name)]
    values = {"amplification": float(factor), "C": layer.C, "kappa": layer.kappa}
    # Of the form itself, not of the line: that they agree is shown, and not supposed.
    samples = _needed(theory.risk_line(after, bound=form), target)
    return {"bound": form, "layer": layer.name, **values, "samples": samples}


def _table(content: JsonDict) -> Table:
    names = "amplification", "C", "kappa"
    rows = [
        [row["bound"], *(number(row[name]) for name in names), whole(row["samples"])]
        for row in content["constants"]
    ]
    return Table("", ["bound", "A_l", "C", "kappa", "N"], rows)

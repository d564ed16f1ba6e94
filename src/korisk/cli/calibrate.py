"""`korisk calibrate`: the paper's recipe, from a pilot to a sample size and constants."""

from pathlib import Path
from typing import Annotated

from korisk._checks import require
from korisk.cli.common import options
from korisk.cli.common.output import print_json, show
from korisk.curves.curve import Curve
from korisk.errors import KoriskError, levels_off
from korisk.planning.calibration import calibrate as calibrated
from korisk.planning.forecast import check_target
from korisk.theory import Network


def calibrate(
    path: Annotated[Path, "PILOT", "A table of errors or a store; as for korisk plan."],
    *,
    target: Annotated[float | None, "E", "The error to reach, in the unit of the pilot."] = None,
    against: Annotated[
        str | None, "MODEL|FILE", "The model with more to learn. [default: the second of two]"
    ] = None,
    network: Annotated[Path | None, "NETWORK.yaml", "Calibrate C and kappa of its layer."] = None,
    model: Annotated[str | None, "Which model. [default: every one]"] = None,
    reading: options.Reading,
    json: options.Json = False,
) -> None:
    """Calibrate the bound with a pilot, by the paper's recipe: floor, sigma, N, factors, constants.

    With --network it also finds C and kappa, for each form of the bound through its own
    amplification; with several models, of the first one.
    """
    curves, dense = _curves(path, against, model, reading)
    goal, unit = None, curves[0].unit
    if target is not None:
        check_target([*curves, *([] if dense is None else [dense])], target)
        goal = float(unit.to_error(target))
    lines = [calibrated(curve) for curve in curves]
    beside = None if dense is None else calibrated(dense)
    net = None if network is None else Network.read(network)
    first, *others = lines
    if json:
        contents = [first.to_dict(goal, beside, net)]
        print_json({"calibrations": [*contents, *(line.to_dict(goal) for line in others)]})
    else:
        show(*options.read_as(curves), first.explain(goal, beside, net))
        show(*(line.explain(goal) for line in others))
    # Last: a target out of reach sets the exit code, and the results are shown all the same.
    for line in lines:
        if target is not None and goal is not None and goal <= line.floor:
            what, floor = f"the line of {line.curve.name}", float(unit.from_error(line.floor))
            raise levels_off(target, floor, what, "ask korisk plan, which looks below it")


def _curves(
    path: Path, against: str | None, model: str | None, reading: options.Reading
) -> tuple[list[Curve], Curve | None]:
    """The curves to calibrate, and the one beside the first of them."""
    if against is not None and Path(against).exists():
        others = reading.curves(Path(against))
        if len(others) != 1:
            problem = f"--against must hold one model, got {len(others)} in {against}"
            raise KoriskError(f"{problem}; give a file with one")
        curves = list(reading.curves(path, model))
        ours, theirs = curves[0].unit.name, others[0].unit.name
        rule, remedy = f"be in the unit of the pilot, {ours}", "convert one of the two"
        require(ours == theirs, "--against", rule, theirs, remedy)
        return curves, others[0]
    if against is not None:
        dense = reading.curves(path, against)[0]
        curves = [c for c in reading.curves(path, model) if c.model != dense.model]
        require(bool(curves), "--against", "be another model", against, "name one")
        return curves, dense
    curves = list(reading.curves(path, model))
    return curves, curves[1] if len(curves) == 2 else None

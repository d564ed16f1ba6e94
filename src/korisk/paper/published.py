"""The paper's three tables as data: A Deep Risk Estimator for Known Operator Learning (2026).

Numbers are in `published.yaml`, as printed, for tests and for the reproduction. The authors'
released results are here too; on the CPU they differ from the printed table.
"""

import math
from dataclasses import dataclass
from importlib.resources import files
from typing import Literal

import yaml

from korisk.texts import format_bytes
from korisk.theory import RiskLine, two_factors

_PRINTED = yaml.safe_load(files("korisk.paper").joinpath("published.yaml").read_text("utf-8"))


@dataclass(frozen=True)
class Scan:
    """An H x H image, V views and B bins, and the parameters of the two networks on it."""

    H: int
    V: int
    B: int

    @property
    def known_parameters(self) -> int:
        """p_KO = V B: one weight for each ray."""
        return self.V * self.B

    @property
    def ratio(self) -> int:
        """p_FC / p_KO = H^2."""
        return self.H**2

    @property
    def dense_parameters(self) -> int:
        """p_FC = H^2 V B: one weight for each pair of ray and pixel."""
        return self.ratio * self.known_parameters


@dataclass(frozen=True)
class FootprintRow:
    """One column of Table 1 (tab:fullscale): the size of each network at one image scale.

    Counts are printed to three digits, so they are texts here. Adam state counts 16 bytes a
    parameter: master weights, first and second moment, gradient.
    """

    size: Scan
    known_parameters: str
    dense_parameters: str
    ratio: str
    known_weights: str
    known_adam: str
    dense_weights: str
    dense_adam: str


def computed_footprint(size: Scan) -> FootprintRow:
    """A column of Table 1 as we count it, in the table's own notation."""

    def count(number: int, *, plain_below: int = 100) -> str:
        mantissa, exponent = f"{number:.2e}".split("e")
        return str(number) if number < plain_below else f"{mantissa}e{int(exponent)}"

    # As printed: small counts in digits, large ones as 1.23e4.
    known, dense = size.known_parameters, size.dense_parameters
    counts = count(known), count(dense), count(size.ratio, plain_below=10_000)
    # A weight takes 4 bytes in single precision; with Adam's gradient and two moments 16.
    needed = [format_bytes(bytes_each * p) for p in (known, dense) for bytes_each in (4, 16)]
    return FootprintRow(size, *counts, *needed)


@dataclass(frozen=True, kw_only=True)
class CalibrationRow:
    """One row of Table 2 (tab:calibration): floor and sigma fitted to one sweep by least squares.

    CPU rows are in test MSE, GPU rows in squared relative RMSE.
    """

    H: int
    device: Literal["CPU", "GPU"]
    known: RiskLine
    dense: RiskLine

    @property
    def metric(self) -> str:
        """What the row's errors measure."""
        return "MSE" if self.device == "CPU" else "rRMSE^2"


@dataclass(frozen=True, kw_only=True)
class OutcomeRow:
    """One row of Table 3 (tab:scaling): an operating point and who won there."""

    device: Literal["CPU", "GPU"]
    size: Scan
    ratio: int
    outcome: str


@dataclass(frozen=True, kw_only=True)
class ReleasedSweep:
    """Mean errors over three seeds of a released GPU sweep: RMSE / max, not squared."""

    H: int
    sizes: list[int]
    known: list[float]
    dense: list[float]


def _calibration(table: str) -> tuple[CalibrationRow, ...]:
    """Floor and sigma of the known-operator network, then those of the dense one."""
    return tuple(
        CalibrationRow(H=H, device=device, known=RiskLine(*lines[:2]), dense=RiskLine(*lines[2:]))
        for H, device, *lines in _PRINTED[table]
    )


def matched_ratio(row: CalibrationRow, target: float) -> float:
    """N of FC over N of KO for a target, by a row of the table; infinite below FC's floor."""
    # At or below FC's floor no N reaches the target.
    reached = target > row.dense.floor
    return two_factors(row.known, row.dense, target).ratio if reached else math.inf


# The tables: 1, 3, 2 as printed and 2 as released, and the released GPU sweep.
FOOTPRINT = tuple(
    FootprintRow(Scan(*size), *texts.split(", ")) for *size, texts in _PRINTED["footprint"]
)
OUTCOMES = tuple(
    OutcomeRow(device=device, size=Scan(*size), ratio=ratio, outcome=outcome)
    for device, *size, ratio, outcome in _PRINTED["outcomes"]
)
CALIBRATION, RELEASED_CALIBRATION = map(_calibration, ("calibration", "released_calibration"))
RELEASED_SWEEP = ReleasedSweep(**_PRINTED["released_sweep"])

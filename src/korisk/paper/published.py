"""The paper's three tables as data: A Deep Risk Estimator for Known Operator Learning (2026).

Numbers are as printed, for tests and for the reproduction. The authors' released results are here
too; on the CPU they differ from the printed table.
"""

from dataclasses import dataclass, fields
from typing import Literal

from korisk.theory import Footprint, RiskLine
from korisk.theory.footprint import adam_bytes, format_bytes, weight_bytes

# Outcomes as the table words them.
_EVERYWHERE = "KO dominates FC at every N"
_MATCHED = "KO dominates at small N; FC matches by N = 2048"
_TESTED = "KO dominates at every N tested"


@dataclass(frozen=True, kw_only=True)
class FootprintRow:
    """One column of Table 1 (tab:fullscale): the size of each network at one image scale.

    Counts are printed to three digits, so they are texts here. Adam state counts 16 bytes a
    parameter: master weights, first and second moment, gradient.
    """

    size: Footprint
    known_parameters: str
    dense_parameters: str
    ratio: str
    known_weights: str
    known_adam: str
    dense_weights: str
    dense_adam: str


def computed_footprint(size: Footprint) -> FootprintRow:
    """A column of Table 1 as we count it, in the table's own notation."""

    def count(number: int, *, plain_below: int = 100) -> str:
        mantissa, exponent = f"{number:.2e}".split("e")
        return str(number) if number < plain_below else f"{mantissa}e{int(exponent)}"

    known, dense = size.known_parameters, size.dense_parameters
    return FootprintRow(
        size=size,
        known_parameters=count(known),
        dense_parameters=count(dense),
        ratio=count(size.ratio, plain_below=10_000),
        known_weights=format_bytes(weight_bytes(known)),
        known_adam=format_bytes(adam_bytes(known)),
        dense_weights=format_bytes(weight_bytes(dense)),
        dense_adam=format_bytes(adam_bytes(dense)),
    )


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
    size: Footprint
    ratio: int
    outcome: str


def _footprint(H: int, V: int, B: int, printed: str) -> FootprintRow:
    names = [field.name for field in fields(FootprintRow) if field.name != "size"]
    texts = dict(zip(names, printed.split(", "), strict=True))
    return FootprintRow(size=Footprint(H, V, B), **texts)


FOOTPRINT = (
    _footprint(8, 10, 8, "80, 5.12e3, 64, 0.31 KiB, 1.25 KiB, 20.0 KiB, 80.0 KiB"),
    _footprint(16, 20, 16, "3.20e2, 8.19e4, 256, 1.25 KiB, 5.00 KiB, 0.31 MiB, 1.25 MiB"),
    _footprint(32, 40, 32, "1.28e3, 1.31e6, 1024, 5.00 KiB, 20.0 KiB, 5.00 MiB, 20.0 MiB"),
    _footprint(128, 60, 128, "7.68e3, 1.26e8, 1.64e4, 30.0 KiB, 0.12 MiB, 0.47 GiB, 1.88 GiB"),
    _footprint(256, 90, 256, "2.30e4, 1.51e9, 6.55e4, 90.0 KiB, 0.35 MiB, 5.62 GiB, 22.5 GiB"),
    _footprint(512, 180, 512, "9.22e4, 2.42e10, 2.62e5, 0.35 MiB, 1.41 MiB, 90.0 GiB, 360 GiB"),
)


def _calibration(H: int, device: Literal["CPU", "GPU"], *values: float) -> CalibrationRow:
    """Floor and sigma of the known-operator network, then those of the dense one."""
    return CalibrationRow(
        H=H, device=device, known=RiskLine(*values[:2]), dense=RiskLine(*values[2:])
    )


CALIBRATION = (
    _calibration(8, "CPU", 2.48e-3, 8.51e-3, 5.81e-3, 6.86e-2),
    _calibration(16, "CPU", 9.52e-4, 1.75e-2, 8.54e-3, 7.96e-2),
    _calibration(32, "CPU", 8.22e-4, 4.15e-2, 1.14e-2, 8.63e-2),
    _calibration(128, "GPU", 3.02e-3, 1.11e-2, 2.26e-3, 9.45e-2),
    _calibration(256, "GPU", 9.47e-4, 6.32e-3, 1.63e-3, 9.94e-2),
)

OUTCOMES = (
    OutcomeRow(device="CPU", size=Footprint(8, 10, 8), ratio=64, outcome=_EVERYWHERE),
    OutcomeRow(device="CPU", size=Footprint(16, 20, 16), ratio=256, outcome=_EVERYWHERE),
    OutcomeRow(device="CPU", size=Footprint(32, 40, 32), ratio=1024, outcome=_EVERYWHERE),
    OutcomeRow(device="GPU", size=Footprint(128, 60, 128), ratio=16384, outcome=_MATCHED),
    OutcomeRow(device="GPU", size=Footprint(256, 90, 256), ratio=65536, outcome=_TESTED),
)


@dataclass(frozen=True, kw_only=True)
class ReleasedSweep:
    """Mean errors over three seeds of a released GPU sweep: RMSE / max, not squared."""

    H: int
    sizes: tuple[int, ...]
    known: tuple[float, ...]
    dense: tuple[float, ...]


RELEASED_CALIBRATION = (  # from the released summary of the CPU sweeps
    _calibration(8, "CPU", 2.340e-3, 9.986e-3, 4.500e-3, 7.533e-2),
    _calibration(16, "CPU", 1.124e-3, 1.883e-2, 8.539e-3, 8.081e-2),
    _calibration(32, "CPU", 7.778e-4, 4.589e-2, 1.145e-2, 8.593e-2),
)

RELEASED_SWEEP = ReleasedSweep(
    H=128,
    sizes=(4, 16, 64, 256, 1024, 2048),
    known=(0.08727, 0.06127, 0.05580, 0.05511, 0.05498, 0.05496),
    dense=(0.18632, 0.13768, 0.09477, 0.07010, 0.05407, 0.04753),
)

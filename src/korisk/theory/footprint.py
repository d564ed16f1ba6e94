"""Parameters and memory of the two CT networks, the paper's Table 1 (tab:fullscale)."""

from dataclasses import dataclass

from korisk import _checks
from korisk.texts import Table, whole

FP32_BYTES = 4  # of a weight in single precision
ADAM_BYTES = 16  # of a weight in training: itself, gradient and two moments, four bytes each
MOST = 10**6  # pixels on a side, views or bins: far beyond any scanner


@dataclass(frozen=True)
class Footprint:
    """CT with an H x H image, V views and B detector bins.

    Parameters
    ----------
    H, V, B : int
        The image side in pixels, the views and the detector bins, from 1 to a million.

    Examples
    --------
    >>> import korisk as kr
    >>> ct = kr.theory.Footprint(H=128, V=60, B=128)
    >>> ct.known_parameters, ct.dense_parameters, ct.ratio
    (7680, 125829120, 16384)
    """

    H: int
    V: int
    B: int

    def __post_init__(self) -> None:
        remedy = "H is the image side, V the number of views, B the number of bins"
        for field in ("H", "V", "B"):
            value = getattr(self, field)
            value = _checks.count(field, value, at_least=1, at_most=MOST, remedy=remedy)
            object.__setattr__(self, field, value)

    @property
    def known_parameters(self) -> int:
        """p_KO = V B: one weight for each ray."""
        return self.V * self.B

    @property
    def dense_parameters(self) -> int:
        """p_FC = H^2 V B: one weight for each pair of ray and pixel."""
        return self.H**2 * self.V * self.B

    @property
    def ratio(self) -> int:
        """p_FC / p_KO = H^2."""
        return self.H**2

    def to_dict(self) -> dict[str, object]:
        """Parameters and memory of both networks as plain values, for JSON.

        Returns
        -------
        dict
            See docs/reference/files.md for its keys.
        """
        networks = {
            name: {"parameters": n, "weight_bytes": weight_bytes(n), "adam_bytes": adam_bytes(n)}
            for name, n in (("KO", self.known_parameters), ("FC", self.dense_parameters))
        }
        return {"H": self.H, "V": self.V, "B": self.B, "ratio": self.ratio, "networks": networks}

    def table(self) -> Table:
        """Parameters and memory of both networks as texts.

        Returns
        -------
        Table
            A row for each network.
        """
        rows = [
            [name, whole(n), format_bytes(weight_bytes(n)), format_bytes(adam_bytes(n))]
            for name, n in (("KO", self.known_parameters), ("FC", self.dense_parameters))
        ]
        heads = ["network", "parameters", "FP32 weights", "Adam state"]
        return Table("networks on this scanner", heads, rows)


def weight_bytes(parameters: int) -> int:
    """Memory of the weights in single precision, in bytes."""
    return FP32_BYTES * parameters


def adam_bytes(parameters: int) -> int:
    """Memory of training with Adam in single precision, in bytes."""
    return ADAM_BYTES * parameters


def format_bytes(size: int) -> str:
    """Format bytes in KiB, MiB or GiB, with values below 100 up to GiB: `0.47 GiB`, `360 GiB`."""
    # The table of the paper counts in powers of 1024, and never in TiB.
    value, units = size / 1024, ["GiB", "MiB", "KiB"]  # the last one is that of `value`
    while value >= 100 and len(units) > 1:
        value /= 1024
        units.pop()
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f} {units[-1]}"

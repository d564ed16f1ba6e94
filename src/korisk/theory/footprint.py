"""What the two CT networks weigh: parameters and memory, the paper's Table 1 (tab:fullscale)."""

import math
from dataclasses import dataclass

from korisk import _checks
from korisk.errors import KoriskError

FP32_BYTES = 4
MOST = 10**6  # pixels on a side, views or bins: far beyond any scanner
ADAM_BYTES = 16  # master weights, both moments and the gradient, four bytes each

# What each optimiser remembers of every weight, besides the weight itself.
_MEMORIES = {"adam": 2, "adagrad": 1, "sgd": 0}
_IN_FLIGHT = 3  # gathered weights, their gradient, and a copy that is on its way between ranks
_LARGEST_BLOCK = 2**30  # bytes
_SMALLEST_BLOCK = 2**20  # bytes, below which a block costs more time than it saves memory
_BLOCKS = 16  # few, since each costs the host a millisecond or more; --blocks gives others


@dataclass(frozen=True)
class Footprint:
    """CT with an H x H image, V views and B detector bins.

    All three are whole numbers from 1 to a million.

    >>> import korisk as kr
    >>> ct = kr.Footprint(H=128, V=60, B=128)
    >>> ct.known_parameters, ct.dense_parameters, ct.ratio
    (7680, 125829120, 16384)
    """

    H: int
    V: int
    B: int

    def __post_init__(self) -> None:
        meanings = {"H": "the image side", "V": "the number of views", "B": "the number of bins"}
        for field, meaning in meanings.items():
            remedy = f"{field} is {meaning}"
            value = _checks.count(
                field, getattr(self, field), at_least=1, at_most=MOST, remedy=remedy
            )
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


def weight_bytes(parameters: int) -> int:
    """Memory of the weights in single precision."""
    return FP32_BYTES * parameters


def adam_bytes(parameters: int) -> int:
    """Memory of training with Adam in single precision."""
    return ADAM_BYTES * parameters


def sharded_blocks(rows: int, columns: int, *, itemsize: int = FP32_BYTES) -> int:
    """How many blocks of rows a sharded dense network has, unless its user says another number.

    It follows from the matrix alone: a checkpoint of it is read on any number of ranks.
    """
    size = rows * columns * itemsize
    fewest = math.ceil(size / _LARGEST_BLOCK)
    return min(rows, max(fewest, min(_BLOCKS, math.ceil(size / _SMALLEST_BLOCK))))


def sharded_bytes(
    parameters: int,
    *,
    ranks: int,
    optimiser: str,
    blocks: int,
    momentum: bool = False,
    offload: bool = False,
    itemsize: int = FP32_BYTES,
) -> int:
    """Peak memory of each rank in sharded training, without the data and the libraries.

    A rank holds its share of the weights and of what the optimiser remembers (two numbers a weight
    for Adam, one for Adagrad and for SGD with momentum, none for SGD), and one block of rows in
    flight: gathered weights, their gradient, and the copy that is sent. Blocks are updated one by
    one, so there is never a gradient of all weights. With `offload` the share lies in the host's
    memory, and the block alone on the device, whose peak this then is.
    """
    remedy = "count whole numbers from 1"
    _checks.count("ranks", ranks, at_least=1, remedy=remedy)
    _checks.count("blocks", blocks, at_least=1, remedy=remedy)
    _checks.one_of("optimiser", optimiser, tuple(_MEMORIES))
    if momentum and optimiser != "sgd":
        raise KoriskError(f"momentum belongs to optimiser 'sgd', got {optimiser!r}; leave it out")
    flight = _IN_FLIGHT * math.ceil(parameters / blocks) * itemsize
    share = share_bytes(
        parameters, ranks=ranks, optimiser=optimiser, momentum=momentum, itemsize=itemsize
    )
    return flight if offload else flight + share


def share_bytes(
    parameters: int,
    *,
    ranks: int,
    optimiser: str,
    momentum: bool = False,
    itemsize: int = FP32_BYTES,
) -> int:
    """What a rank of sharded training keeps: its weights, and what the optimiser remembers."""
    each = 1 + _MEMORIES[optimiser] + bool(momentum)
    return each * math.ceil(parameters / ranks) * itemsize


def format_bytes(size: int) -> str:
    """Three digits, the next unit from 100 on, none beyond GiB: `0.47 GiB`, `360 GiB`."""
    value = size / 1024
    for unit in ("KiB", "MiB"):
        if value < 100:
            return _three_digits(value, unit)
        value /= 1024
    return _three_digits(value, "GiB")


def _three_digits(value: float, unit: str) -> str:
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f} {unit}"

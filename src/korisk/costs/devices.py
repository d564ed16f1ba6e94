"""Cards and nodes by their memory: on which of them something fits."""

from __future__ import annotations

from dataclasses import dataclass

GIB = 2**30
_USABLE = 0.95  # of the memory: drivers, libraries and what lies in between take the rest


@dataclass(frozen=True)
class Device:
    """A card, or a node's main memory, as it is sold."""

    name: str
    memory: int  # bytes

    @property
    def usable(self) -> float:
        """The bytes that a program can have."""
        return _USABLE * self.memory


CARDS = tuple(
    Device(name, size * GIB)
    for name, size in (
        ("V100 16 GB", 16),
        ("RTX 6000 24 GB", 24),
        ("V100 32 GB", 32),
        ("A100 40 GB", 40),
        ("A100 80 GB", 80),
        ("H100 80 GB", 80),
        ("H200 141 GB", 140),
        ("MI300X 192 GB", 192),
    )
)
NODES = tuple(
    Device(f"{size} GiB" if size < 1024 else f"{size // 1024} TiB", size * GIB)
    for size in (16, 32, 64, 128, 256, 512, 1024, 2048)
)


def smallest(needed: float, among: tuple[Device, ...]) -> Device | None:
    """The first and smallest device that holds so many bytes, if one does."""
    return next((device for device in among if needed <= device.usable), None)

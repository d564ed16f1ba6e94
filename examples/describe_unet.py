"""A U-Net behind filtered backprojection, described layer by layer.

Learned weights, the known filter and backprojection, and a small U-Net that cleans the image. The
U-Net has a skip connection, so the network is a graph: a layer may take several others.

Usage: python examples/describe_unet.py
or, in this folder: korisk bound --network describe_unet.py:factory
"""

import torch
from torch import Tensor, nn

import korisk as kr
from korisk.operators import ParallelBeam, fbp

GEOMETRY = ParallelBeam(16, views=12, bins=24)


class UNet(nn.Module):
    """One level down and up again, with a skip connection across it."""

    def __init__(self, channels: int = 4) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, channels, 3, padding=1)
        self.pool = nn.MaxPool2d(2)
        self.middle = nn.Conv2d(channels, channels, 3, padding=1)
        self.up = nn.Upsample(scale_factor=2, mode="bilinear")
        self.last = nn.Conv2d(2 * channels, 1, 3, padding=1)

    def forward(self, image: Tensor) -> Tensor:
        """(batch, 1, rows, columns) to the same shape."""
        fine = torch.relu(self.first(image))
        coarse = torch.relu(self.middle(self.pool(fine)))
        return self.last(torch.cat([fine, self.up(coarse)], dim=1))  # type: ignore[no-any-return]


class Reconstruction(nn.Module):
    """Sinograms (batch, views, bins) to images (batch, 1, rows, columns)."""

    def __init__(self) -> None:
        super().__init__()
        self.fbp = fbp(GEOMETRY, trainable=True)
        self.unet = UNet()

    def forward(self, sinogram: Tensor) -> Tensor:
        """The image, backprojected and cleaned."""
        return self.unet(self.fbp(sinogram).unsqueeze(1))  # type: ignore[no-any-return]


def factory() -> tuple[nn.Module, Tensor]:
    """The network and an input, as `korisk bound --network` asks for them."""
    torch.manual_seed(0)
    return Reconstruction(), torch.randn(1, *fbp(GEOMETRY).domain)


def main() -> None:
    """Print every layer with its constant, and what the bound says of it."""
    net = kr.describe(*factory(), name="FBP and a U-Net")
    bound = kr.barron_bound(net, 1000)
    for layer, share in zip(net, bound.whole.shares, strict=True):
        trained = f"p = {layer.parameters}" if isinstance(layer, kr.Learned) else ""
        constant = f"{layer.bracket.lower:.3g} to {layer.bracket.upper:.3g}"
        print(f"{layer.name:24}{layer.kind:9}{constant:18}{trained:9}{share:5.0%}")
        print(f"{'':24}{layer.bracket.how}")


if __name__ == "__main__":
    main()

"""Measurement noise; the noise of sample i depends only on the seed, the stream and i."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from korisk import _checks
from korisk.errors import invalid
from korisk.seeds import stream_key

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Gaussian:
    """White noise; its standard deviation is `level` times the sinogram's root mean square.

    Parameters
    ----------
    level : float
        0.01 is one per cent of the signal, >= 0.

    Examples
    --------
    >>> import numpy as np
    >>> from korisk.problems import Gaussian
    >>> noisy = Gaussian(0.1).sample(np.ones((60, 128)), np.random.default_rng(0), width=128.0)
    >>> round(float(noisy.std()), 2)
    0.1
    """

    level: float

    def __post_init__(self) -> None:
        level = _checks.real("level", self.level, "0.01 is one per cent of the signal", at_least=0)
        _checks.set_fields(self, level=level)

    def sample(self, clean: FloatArray, rng: np.random.Generator, *, width: float) -> FloatArray:
        """A noisy copy of one sinogram.

        Parameters
        ----------
        clean : ndarray, shape (views, bins)
            Without noise.
        rng : numpy.random.Generator
            Source of the noise.
        width : float
            Not used.

        Returns
        -------
        ndarray, shape (views, bins)
        """
        # Relative to the sinogram itself, so that all samples have the same signal-to-noise ratio.
        deviation = self.level * float(np.sqrt(np.mean(clean**2)))
        return clean + deviation * rng.standard_normal(clean.shape)


@dataclass(frozen=True)
class Poisson:
    """Photon noise: counts ~ Poisson(photons exp(-m p)); the noisy p is their negative logarithm.

    Parameters
    ----------
    photons : float
        Mean count of a bin without an object, from 1 to 1e15; 1e4 is a low dose, 1e6 a high one.
    attenuation : float, default 4
        A ray through the whole width of the image at amplitude 1 is attenuated by
        exp(-attenuation), which sets m; 4 is about 20 cm of water in a medical scanner.

    Notes
    -----
    A bin without counts is set to one count.

    Examples
    --------
    >>> import numpy as np
    >>> from korisk.problems import Poisson
    >>> sinogram = np.zeros((60, 128))
    >>> noisy = Poisson(photons=1e4).sample(sinogram, np.random.default_rng(0), width=4.0)
    >>> round(float(noisy.std()), 3)
    0.01
    """

    photons: float
    attenuation: float = 4.0

    def __post_init__(self) -> None:
        photons = _checks.real("photons", self.photons, "try 1e5", at_least=1, at_most=1e15)
        attenuation = _checks.real("attenuation", self.attenuation, "try 4", above=0)
        _checks.set_fields(self, photons=photons, attenuation=attenuation)

    def sample(self, clean: FloatArray, rng: np.random.Generator, *, width: float) -> FloatArray:
        """A noisy copy of one sinogram.

        Parameters
        ----------
        clean : ndarray, shape (views, bins)
            Without noise.
        rng : numpy.random.Generator
            Source of the noise.
        width : float
            Width of the image in the sinogram's unit of length.

        Returns
        -------
        ndarray, shape (views, bins)
        """
        scale = self.attenuation / width
        counts = rng.poisson(self.photons * np.exp(-scale * clean))
        # At least one count, since the logarithm of zero is infinite.
        return np.asarray(-np.log(np.maximum(counts, 1) / self.photons) / scale)


Noise: TypeAlias = Gaussian | Poisson


def add_noise(
    sinograms: Tensor, noise: Noise, *, width: float, seed: int, stream: str, first: int = 0
) -> Tensor:
    """Noisy copies of sinograms; noise is drawn on the CPU in float64, the same for any device.

    Parameters
    ----------
    sinograms : Tensor, shape (count, views, bins)
        Without noise.
    noise : Gaussian or Poisson
        The noise.
    width : float
        Width of the image in the sinogram's unit of length.
    seed : int
        Random seed.
    stream : str
        Name of the random numbers; the same sample of a stream always gets the same noise.
    first : int, default 0
        Number of the first sinogram in the stream.

    Returns
    -------
    Tensor, shape (count, views, bins)

    Examples
    --------
    >>> import torch
    >>> from korisk.problems import Gaussian, add_noise
    >>> clean = torch.ones(3, 4, 5)
    >>> every = add_noise(clean, Gaussian(0.1), width=8.0, seed=0, stream="train")
    >>> last = add_noise(clean[2:], Gaussian(0.1), width=8.0, seed=0, stream="train", first=2)
    >>> torch.equal(every[2:], last)
    True
    """
    if not isinstance(noise, Gaussian | Poisson):
        raise invalid("noise", "be Gaussian(level) or Poisson(photons)", noise, "or leave it out")
    key = stream_key(seed, stream)
    clean = sinograms.detach().to("cpu", torch.float64).numpy()
    noisy = np.empty_like(clean)
    for index, sinogram in enumerate(clean):
        # The sample's number in the counter: its noise does not depend on the batch it is in.
        generator = np.random.Philox(key=key, counter=[0, 0, 0, first + index])
        noisy[index] = noise.sample(sinogram, np.random.Generator(generator), width=width)
    return torch.from_numpy(noisy).to(sinograms.device, sinograms.dtype)

"""DataConsistency: the layer that pulls an image towards what was measured of it."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from korisk import _checks
from korisk.errors import KoriskError, shown
from korisk.operators.basic import Identity, Spectral, capped
from korisk.operators.linear import UNCHECKED, LinearOperator
from korisk.operators.tikhonov import Tikhonov
from korisk.theory.bracket import NormBracket


class DataConsistency(nn.Module):
    """(z, y) -> argmin_x |A x - y|^2 + mu |x - z|^2: z, made consistent with the data y.

    It is the proximal step of |A x - y|^2 / (2 mu) at z, and the layer between the denoisers of
    unrolled networks. Gradients pass to z and y.

    Parameters
    ----------
    operator : LinearOperator
        A; its weights may be trainable where there is a closed form.
    mu : float
        Weight of |x - z|^2, > 0, in the square of A's unit; small values trust the data more.
    solver : {"factor", "cg"}, optional
        As in `Tikhonov`. Default: the closed form of `Fourier`, `Mask`, `Diagonal`, `Diffusion`,
        `Convolution` on a torus and `Sense` of all samples; "cg" for other operators.
    trainable : bool, default False
        Whether log(mu) is an `nn.Parameter`, `log_mu`; with a closed form only.

    Raises
    ------
    KoriskError
        If mu is to be trained without a closed form, or as `Tikhonov`.

    Notes
    -----
    x = (A^T A + mu I)^-1 (A^T y + mu z) = z + (A^T A + mu I)^-1 A^T (y - A z). Where A^T A is
    diagonal in a known basis, so is the inverse. A singular value s of A turns z by
    mu / (s^2 + mu) and y by s / (s^2 + mu), which are the two Lipschitz constants:
    `image_norm()` is never above 1, `data_norm()` never above 1 / (2 sqrt(mu)).

    Examples
    --------
    >>> import torch
    >>> from korisk.operators import DataConsistency, Mask
    >>> layer = DataConsistency(Mask(3, [1, 0, 1]), mu=0.25)
    >>> layer(torch.zeros(3), torch.tensor([5.0, 7.0, 10.0])).tolist()
    [4.0, 0.0, 8.0]
    >>> layer.image_norm().upper, layer.data_norm().upper
    (1.0, 0.8)
    """

    def __init__(
        self,
        operator: LinearOperator,
        mu: float,
        *,
        solver: str | None = None,
        trainable: bool = False,
    ) -> None:
        super().__init__()
        if not isinstance(operator, LinearOperator):
            raise KoriskError(f"operator must be a LinearOperator, got {shown(operator)}")
        remedy = "start from 1e-3 ||A||^2; small values trust the data more"
        number = _checks.real("mu", mu, above=0, remedy=remedy)
        known = isinstance(operator, Spectral) and operator._squares() is not None
        closed = solver is None and known
        self.operator = operator
        self.inverse = None if closed else Tikhonov(operator, number, solver=solver or "cg")
        self._mu = number
        self.log_mu: nn.Parameter | None = None
        if trainable and self.inverse is not None:
            raise KoriskError(
                f"mu can be trained with a closed form only, which {operator.name} "
                f"({type(operator).__name__}) does not have, or solver= was given; train a factor "
                "on the denoiser instead"
            )
        if trainable:
            start = torch.tensor(math.log(number), device=operator.device, dtype=operator.dtype)
            self.log_mu = nn.Parameter(start)

    @property
    def mu(self) -> float:
        """The present weight of |x - z|^2."""
        return self._mu if self.log_mu is None else math.exp(float(self.log_mu.detach()))

    def forward(self, z: Tensor, y: Tensor) -> Tensor:
        """x for z and y.

        Parameters
        ----------
        z : Tensor, shape (..., *domain of A)
            The image as it is so far.
        y : Tensor, shape (..., *range of A)
            The data.

        Returns
        -------
        Tensor, shape (..., *domain of A)
        """
        residual = y - self.operator(z)
        if self.inverse is not None:
            step: Tensor = self.inverse(residual)
            return z + step
        assert isinstance(self.operator, Spectral)
        mu = self._mu if self.log_mu is None else self.log_mu.exp()
        squares = self.operator._squares()
        assert squares is not None
        return z + self.operator._weighed(self.operator.adjoint(residual), 1 / (squares + mu))

    def image_norm(self, *, width: float = 0.01, seed: int = 0) -> NormBracket:
        """The Lipschitz constant in z: max of mu / (s^2 + mu) over the singular values s of A.

        Parameters
        ----------
        width : float, default 0.01
            Relative width to aim for where it is iterated.
        seed : int, default 0
            Random start of that iteration.

        Returns
        -------
        NormBracket
        """
        if (squares := self._squares()) is not None:
            smallest = self.mu / (float(squares.min()) + self.mu)
            return NormBracket(smallest, smallest, how="smallest eigenvalue of A^T A")
        operator = self.operator
        if operator.inexact == UNCHECKED:
            return NormBracket(0.0, math.inf, how=f"unknown; {operator.inexact}")
        if math.prod(operator.domain) > math.prod(operator.range):
            return NormBracket(1.0, 1.0, how="A maps some images to zero")
        assert self.inverse is not None
        if operator.inexact:
            return NormBracket(0.0, 1.0, how=f"A^T A >= 0; {operator.inexact}")
        identity = Identity(operator.domain, device=operator.device, dtype=operator.dtype)
        whole = identity - self.inverse @ operator
        return capped(whole.norm(width=width, seed=seed), 1.0, "A^T A >= 0")

    def data_norm(self, *, width: float = 0.01, seed: int = 0) -> NormBracket:
        """The Lipschitz constant in y: max of s / (s^2 + mu) over the singular values s of A.

        Parameters
        ----------
        width : float, default 0.01
            Relative width to aim for where it is iterated.
        seed : int, default 0
            Random start of that iteration.

        Returns
        -------
        NormBracket
        """
        if (squares := self._squares()) is not None:
            largest = float((squares.sqrt() / (squares + self.mu)).max())
            return NormBracket(largest, largest, how="eigenvalues of A^T A")
        assert self.inverse is not None
        return self.inverse.norm(width=width, seed=seed)

    def _squares(self) -> Tensor | None:
        """The eigenvalues of A^T A in float64, where there is a closed form."""
        double = None if self.inverse is not None else self.operator.in_double()
        return double._squares() if isinstance(double, Spectral) else None

    def extra_repr(self) -> str:
        """mu and how it is solved, as nn.Module prints them."""
        return f"mu={self.mu:g}, {'closed form' if self.inverse is None else self.inverse.solver}"

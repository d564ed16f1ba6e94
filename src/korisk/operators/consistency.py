"""DataConsistency: the layer that pulls an image towards what was measured of it."""

import math

import torch
from torch import Tensor, nn

from korisk import _checks
from korisk.errors import Argument, KoriskError, invalid
from korisk.operators.basic import Identity, Spectral, capped
from korisk.operators.inputs import LOW, autocast_on, jit_tracing, shape_text
from korisk.operators.linear import UNCHECKED, LinearOperator, require_operator
from korisk.operators.mri.sense import Sense
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
        `Convolution` on a torus and `Sense` of all samples, as its mask is at the time; "cg" for
        other operators.
    trainable : bool, default False
        Whether log(mu) is an `nn.Parameter`, `log_mu`; with a closed form only.

    Raises
    ------
    KoriskError
        If mu is below 1.2e-38, the smallest number of float32, or to be trained without a closed
        form; if z and y have other shapes or batches; or as `Tikhonov`.

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
        require_operator(operator)
        remedy = "start from 1e-3 ||A||^2; small values trust the data more"
        number = _checks.real("mu", mu, at_least=torch.finfo(torch.float32).tiny, remedy=remedy)
        self.operator, self._solver, self._mu = operator, solver, number
        self.log_mu: nn.Parameter | None = None
        # A^T A diagonal in a known basis: (A^T A + mu)^-1 is a division there.
        closed = self._squares() is not None
        self.inverse: Tikhonov | None = None
        if not trainable and (not closed or isinstance(operator, Sense)):  # whose mask may change
            self.inverse = Tikhonov(operator, number, solver=solver or "cg")
        if trainable:
            if not closed:
                self._iterated()
            # The logarithm is trained, so that mu stays positive.
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
            The data, with the batch of z.

        Returns
        -------
        Tensor, shape (..., *domain of A)
        """
        operator = self.operator
        if autocast_on(z) and autocast_on(y):
            with torch.autocast(z.device.type, enabled=False):  # up and back, as operators do
                up = [x.to(operator.dtype) if x.dtype in LOW else x for x in (z, y)]
                x: Tensor = self.forward(*up)
                return x.to(z.dtype) if z.dtype in LOW else x
        operator._check(y, operator.range, "data")
        image: Tensor = operator(z)
        if not jit_tracing() and image.shape != y.shape:  # nothing is spread over a batch
            got = f"{shape_text(z.shape)} and {shape_text(y.shape)}"
            raise invalid("z and y", "have the same batch", z, "use torch.Tensor.expand", got=got)
        if (squares := self._squares()) is not None:
            assert isinstance(operator, Spectral)
            # x = z + (A^T A + mu)^-1 A^T (y - A z)
            mu = self._mu if self.log_mu is None else self.log_mu.exp()
            return z + operator._weighed(operator.adjoint(y - image), 1 / (squares + mu))
        step: Tensor = self._iterated()(y - image)
        return z + step

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
        if (squares := self._squares(double=True)) is not None:
            smallest = self.mu / (float(squares.min()) + self.mu)
            return NormBracket(smallest, smallest, how="smallest eigenvalue of A^T A")
        operator = self.operator
        if operator.inexact == UNCHECKED:
            return NormBracket(0.0, math.inf, how=f"unknown; {operator.inexact}")
        # Some singular value is 0, and mu / (0 + mu) = 1.
        if math.prod(operator.domain) > math.prod(operator.range):
            return NormBracket(1.0, 1.0, how="A maps some images to zero")
        if operator.inexact:
            return NormBracket(0.0, 1.0, how=f"A^T A >= 0; {operator.inexact}")
        identity = Identity(operator.domain, device=operator.device, dtype=operator.dtype)
        # mu (A^T A + mu)^-1 = I - (A^T A + mu)^-1 A^T A
        remainder = identity - self._iterated() @ operator
        return capped(remainder.norm(width=width, seed=seed), 1.0, "A^T A >= 0")

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
        if (squares := self._squares(double=True)) is not None:
            largest = float((squares.sqrt() / (squares + self.mu)).max())
            return NormBracket(largest, largest, how="eigenvalues of A^T A")
        return self._iterated().norm(width=width, seed=seed)

    def _squares(self, *, double: bool = False) -> Tensor | None:
        """The eigenvalues of A^T A, where there is a closed form."""
        operator = self.operator
        if self._solver is not None or not isinstance(operator, Spectral):
            return None
        return (operator.in_double() if double else operator)._squares()

    def _iterated(self) -> Tikhonov:
        """The inverse without a closed form."""
        if self.inverse is None:
            kind = f"{self.operator.name} ({type(self.operator).__name__})"
            why = f" can be trained with a closed form only, which {kind} does not have, or "
            remedy = " was given; train a factor on the denoiser instead"
            raise KoriskError(Argument("mu"), why, Argument("solver", ...), remedy)
        return self.inverse

    def extra_repr(self) -> str:
        """mu and how it is solved, as nn.Module prints them."""
        how = self._solver or ("cg" if self._squares() is None else "closed form")
        return f"mu={self.mu:g}, {how}"

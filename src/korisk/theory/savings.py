"""Corollary (cor:known) as an operation: what a known operator takes off the bound."""

from dataclasses import dataclass

from korisk.theory.amplification import BoundForm
from korisk.theory.bound import BarronBound, barron_bound
from korisk.theory.budget import floor_of, sample_size
from korisk.theory.network import Network


@dataclass(frozen=True)
class Savings:
    """The bound before and after a layer was replaced.

    In the paper's form the savings are the replaced layer's own terms, A_m C_m^2/n_m and
    A_m kappa_m p_m log N / N, Eq. (eq:saving). In the Minkowski forms its cross terms with other
    layers go too. With `effective` both are the estimates with effective dimensions.

    >>> import korisk as kr
    >>> net = kr.Network([kr.Learned("W", parameters=10),
    ...                   kr.Learned("B", parameters=1000, lipschitz=2)])
    >>> saved = net.savings("B", bound="paper")
    >>> round(saved.estimation(1000), 3)
    13.816
    >>> saved.samples(target=1.0)
    (20668, 497)
    """

    before: Network
    after: Network
    bound: BoundForm
    effective: bool = False

    @property
    def approximation(self) -> float:
        """By how much the floor falls; it does not depend on N."""
        return floor_of(self.before, bound=self.bound) - floor_of(self.after, bound=self.bound)

    def estimation(self, n: float) -> float:
        """By how much the part falls that data removes, at N samples."""
        before, after = self._at(n)
        return before.estimation - after.estimation

    def total(self, n: float) -> float:
        """By how much the bound falls at N samples."""
        before, after = self._at(n)
        return before.total - after.total

    def samples(self, target: float) -> tuple[int, int]:
        """The sample sizes for a target before and after; unreachable targets raise."""
        return self._samples(self.before, target), self._samples(self.after, target)

    def _samples(self, net: Network, target: float) -> int:
        return sample_size(net, target, bound=self.bound, effective=self.effective)

    def _at(self, n: float) -> tuple[BarronBound, BarronBound]:
        return self._bound(self.before, n), self._bound(self.after, n)

    def _bound(self, net: Network, n: float) -> BarronBound:
        return barron_bound(net, n, bound=self.bound, effective=self.effective)

"""Corollary (cor:known) as an operation: what a known operator takes off the bound."""

from dataclasses import dataclass

from korisk.theory.amplification import Method
from korisk.theory.bound import BarronBound, barron_bound
from korisk.theory.budget import floor_of, sample_size
from korisk.theory.network import Network


@dataclass(frozen=True)
class Savings:
    """The bound before and after a layer was replaced.

    In the paper's form the savings are the replaced layer's own terms, A_m C_m^2/n_m and
    A_m kappa_m p_m log N / N. In the Minkowski forms its cross terms with other layers go too.
    """

    before: Network
    after: Network
    method: Method

    @property
    def approximation(self) -> float:
        """By how much the floor falls; it does not depend on N."""
        return floor_of(self.before, method=self.method) - floor_of(self.after, method=self.method)

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
        before = sample_size(self.before, target, method=self.method)
        return before, sample_size(self.after, target, method=self.method)

    def _at(self, n: float) -> tuple[BarronBound, BarronBound]:
        before = barron_bound(self.before, n, method=self.method)
        return before, barron_bound(self.after, n, method=self.method)

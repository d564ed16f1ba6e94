"""Described networks survive writing: every bound of what is read back has the same digits."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from described import Of, draw, told
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import korisk as kr
from korisk.networks import KnownOperatorNet
from korisk.operators import Diagonal, Matrix
from korisk.theory.network import BOUNDS

SIDE = 4
SHARED = nn.Linear(SIDE, SIDE).double()


def linear(seed: int, *, trained: bool = True) -> nn.Module:
    made = nn.Linear(SIDE, SIDE, dtype=torch.float64).requires_grad_(trained)
    made.weight.data.copy_(draw(SIDE, SIDE, seed=seed))
    return made


def matrix(seed: int) -> Matrix:
    return Matrix(draw(SIDE, SIDE, seed=seed))


PARTS: dict[str, Callable[[int, str], nn.Module]] = {
    "learned": lambda seed, _: linear(seed),
    "frozen": lambda seed, _: linear(seed, trained=False),
    "shared": lambda *_: SHARED,
    "operator": lambda seed, _: matrix(seed),
    "product": lambda seed, _: matrix(seed) @ Diagonal(draw(SIDE, seed=seed), name="D"),
    "known-operator net": lambda seed, _: KnownOperatorNet(
        draw(SIDE, seed=seed), [matrix(seed), matrix(seed + 1)]
    ),
    "marked as known": lambda seed, name: kr.mark_known(linear(seed), mismatch=1 / 3, name=name),
    "marked as learned": lambda seed, name: kr.mark_learned(
        linear(seed), parameters=1 + seed % 20, lipschitz=kr.theory.NormBracket(0.1, 0.7), name=name
    ),
    "marked operator": lambda seed, name: kr.mark_known(matrix(seed), name=name),
    "activation": lambda *_: nn.GELU(),
    "residual": lambda seed, _: Of(lambda x, b: x + b(x).relu(), linear(seed)),
    "no constant": lambda *_: Of(lambda x: (x * x).sin()),
    "twice": lambda seed, _: Of(lambda x, b: b(b(x)), linear(seed)),
}
NAMES = ["017", "1:30", "1e5", "0x1F", "yes", "null", "~", "<<", ".inf", "- a", "a: b # c", "'=1'"]


def bounds(net: kr.Network) -> list[Any]:
    """Everything that a bound is made of, in all forms; or why there is none."""
    found: list[Any] = [net.names, net.parameters, [(each.kind, each.bracket) for each in net]]
    for form in BOUNDS:
        found += [net.tails(form).tolist(), net.lipschitz(form)]
        try:
            found.append(repr(kr.barron_bound(net, 1000, bound=form)))
        except kr.KoriskError as error:
            found.append(str(error))
    return found


@given(st.lists(st.sampled_from(list(PARTS)), min_size=1, max_size=6), st.randoms())
def test_what_is_read_back_has_the_same_bounds(
    tmp_path_factory: pytest.TempPathFactory, parts: list[str], random: Any
) -> None:
    names = random.sample(NAMES, len(parts))
    modules = [
        PARTS[part](random.randrange(99), name) for part, name in zip(parts, names, strict=True)
    ]
    net, _ = told(nn.Sequential(*modules), draw(1, SIDE))
    path = tmp_path_factory.mktemp("net") / "net.yaml"
    net.write(path)
    again = kr.Network.read(path)
    assert bounds(again) == bounds(net)
    assert kr.Network.from_dict(net.to_dict()) == again
    again.write(path)
    assert kr.Network.read(path) == again

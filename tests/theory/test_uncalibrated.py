"""A sample size says which of its constants nobody measured."""

import warnings

import pytest

import korisk as kr
from korisk.errors import KoriskWarning

DEFAULTS = kr.Learned("W", parameters=100)
CALIBRATED = kr.Learned("V", parameters=100, kappa=0.25, lipschitz=1.0)


def network(*learned: kr.Learned) -> kr.Network:
    return kr.Network([*learned, kr.Known("K", lipschitz=2.0)])


def test_defaults_written_by_hand_are_warned_of_by_name() -> None:
    with pytest.warns(KoriskWarning, match=r"defaults C = 0 and kappa = 1 of W: .*calibrate"):
        kr.sample_size(network(DEFAULTS, CALIBRATED), 0.5)


def test_stated_constants_are_taken_in_silence() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for learned in (CALIBRATED, kr.Learned("W", parameters=100, C=1.0, width=1000)):
            assert kr.sample_size(network(learned), 0.5) > 2

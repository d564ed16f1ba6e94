"""A sample size says which of its constants nobody measured."""

import warnings

import pytest

import korisk as kr
from korisk.errors import KoriskWarning
from korisk.theory.overview import overview

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


@pytest.mark.parametrize(("learned", "named"), [(DEFAULTS, "of W"), (CALIBRATED, "")])
def test_json_has_the_same_reservation_beside_the_sample_sizes(
    learned: kr.Learned, named: str
) -> None:
    content = overview(network(learned), target=0.5).to_dict()
    assert named in content["samples_rest_on"]
    assert bool(content["samples_rest_on"]) is bool(named)
    assert "samples_rest_on" not in overview(network(learned)).to_dict()

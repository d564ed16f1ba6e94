"""The paper's recipe: the released numbers, and constants that give the measured line back."""

import json
from pathlib import Path

import pytest
from commands import content, outputs, refused, text
from hypothesis import given
from hypothesis import strategies as st

import korisk as kr
from korisk.errors import UnreachableError
from korisk.paper import published
from korisk.theory import BOUNDS, RiskLine, calibrated, risk_line

ROOT = Path(__file__).parents[2]
PILOT, KO = ROOT / "examples" / "pilot_h8.csv", ROOT / "examples" / "ct_h8_ko.yaml"
REPRODUCED = json.loads((ROOT / "benchmarks" / "results" / "reproduction.json").read_text())
LINE = RiskLine(floor=0.002, slope=0.7)
RISING_FALLING = ([0.1, 0.2, 0.3], [0.3, 0.2, 0.1])


@pytest.mark.parametrize("row", published.RELEASED_CALIBRATION, ids=lambda row: f"H{row.H}")
def test_floor_and_sigma_are_the_released_ones(row: published.CalibrationRow) -> None:
    pilot = ROOT / "examples" / f"pilot_h{row.H}.csv"
    for found, released in zip(
        content("calibrate", pilot)["calibrations"], (row.known, row.dense), strict=True
    ):
        printed = f"{released.floor:.3e}, {released.slope:.3e}"
        assert f"{found['floor']:.3e}, {found['sigma']:.3e}" == printed
    (sweep,) = (
        entry
        for entry in REPRODUCED["curves"]
        if (entry["side"], entry["protocol"]) == (row.H, "released")
    )
    for pilot_curve in kr.Curve.read_all(pilot):
        ours = kr.Curve.read(sweep[pilot_curve.model]).up_to(64)
        assert pilot_curve.error == pytest.approx(ours.error, rel=1e-4)


def test_both_factors_at_h8_are_the_papers() -> None:
    row = published.RELEASED_CALIBRATION[0]
    expected = kr.theory.two_factors(row.known, row.dense, 0.008)
    (found,) = content("calibrate", PILOT, "--target", "0.008", "--model", "KO", "--against", "FC")[
        "calibrations"
    ]
    for name in ("structural", "approximation_budget"):
        assert found["factors"][name] == pytest.approx(getattr(expected, name), rel=1e-3)
    assert found["samples"] == found["factors"]["samples_known"] == expected.samples_known
    assert found["dense"]["samples"] == expected.samples_dense


@given(
    st.floats(1e-6, 1e3), st.floats(1e-6, 1e3), st.integers(1, 9999), st.floats(1, 50), st.data()
)
def test_constants_give_the_line_back_through_every_form(
    floor: float, slope: float, parameters: int, width: float, data: st.DataObject
) -> None:
    norms = data.draw(st.lists(st.floats(0.01, 100), min_size=2, max_size=4))
    learned = kr.Learned("W", parameters=parameters, width=width, lipschitz=2)
    layers = [kr.Known(f"K{index}", lipschitz=norm) for index, norm in enumerate(norms)]
    run = kr.theory.Composition("K0", "K1", lipschitz=0.3 * norms[0] * norms[1])
    net, line = kr.Network([learned, *layers], compositions=[run]), RiskLine(floor, slope)
    for bound in BOUNDS:
        after = calibrated(net, line, bound=bound)
        layer = after.learned[0]
        factor = after.amplification(bound)[0]
        assert factor * layer.C**2 / width == pytest.approx(floor)
        assert factor * layer.kappa * parameters == pytest.approx(slope)
        for form in BOUNDS:  # calibrated through one form, it is the same line in every other
            found = risk_line(after, bound=form)
            assert (found.floor, found.slope) == pytest.approx((floor, slope))
            assert kr.barron_bound(after, 64, bound=form).total == pytest.approx(line.predict(64))


@pytest.mark.parametrize(
    "path", sorted((ROOT / "examples").glob("ct_h*.yaml")), ids=lambda p: p.stem
)
def test_no_form_calls_a_target_of_the_papers_networks_unreachable(path: Path) -> None:
    net = kr.Network.read(path)
    if net.calibrated is None:  # H = 512 is in no row of the paper's Table 2
        assert "512" in path.stem
        return
    target = 1.5 * risk_line(net).floor
    sizes = {kr.sample_size(net, target, bound=form) for form in BOUNDS}
    assert len(sizes) == 1
    out = text("bound", path, "--target", target, "--bound", "paper")
    assert f"From N = {sizes.pop()} on the bound stays at or below the target" in out


def test_a_calibration_belongs_to_its_network_alone(tmp_path: Path) -> None:
    net = calibrated(kr.Network.read(KO), LINE, bound="minkowski")
    net.write(tmp_path / "network.yaml")
    assert kr.Network.read(tmp_path / "network.yaml") == net
    assert kr.calibrate(kr.Curve.read(PILOT, model="KO"), "minkowski").network(net) != net
    other = net.replace("K", kr.Known("K", lipschitz=5))
    assert (net.calibrated, net.replace("K").calibrated) == ("minkowski", "minkowski")
    assert other.calibrated is None


def test_what_cannot_be_calibrated_is_refused() -> None:
    learned, known = kr.Learned("W", parameters=9), kr.Known("K", lipschitz=2)
    both = kr.Network([learned, kr.Learned("B", parameters=9, lipschitz=2)])
    for net, named in (
        (both, "got W, B"),
        (kr.Network([learned, kr.Known("K", lipschitz=2, mismatch=0.1)]), "got W, K"),
        (kr.Network([known]), "got none"),
    ):
        with pytest.raises(kr.KoriskError, match=named):
            calibrated(net, LINE)
    with pytest.raises(kr.KoriskError, match="one layer errs, got W, B"):
        kr.Network(both.layers, calibrated="paper")
    with pytest.raises(kr.KoriskError, match="slope must be a finite number > 0"):
        calibrated(kr.Network([learned, known]), RiskLine(0.1, 0))
    with pytest.raises(kr.KoriskError, match="parameters is missing"):
        calibrated(kr.Network([kr.Learned("W"), known]), LINE)
    with pytest.raises(kr.KoriskError, match="layer 'K': lipschitz has no upper end"):
        calibrated(kr.Network([learned, kr.Known("K")]), LINE)
    with pytest.raises(kr.KoriskError, match="bound must be one of"):
        kr.calibrate(kr.Curve([4, 8], [0.2, 0.1]), "papr")  # type: ignore[arg-type]
    with pytest.raises(kr.KoriskError, match=r"squared errors.*psnr"):
        kr.calibrate(kr.Curve([4, 8], [20, 30], unit="psnr"))
    with pytest.raises(UnreachableError):
        kr.calibrate(kr.Curve([4, 8], [0.2, 0.1])).samples(0.1)


def test_roots_are_squared_by_their_unit_and_asked_for_without() -> None:
    pilot = ROOT / "examples" / "pilot_h128.csv"
    row = next(row for row in published.CALIBRATION if row.H == 128)
    known, dense = content("calibrate", pilot, "--unit", "rmse", "--target", "0.0777")[
        "calibrations"
    ]
    for found, printed in ((known, row.known), (dense, row.dense)):
        assert f"{found['floor']:.2e} {found['sigma']:.2e}" == (
            f"{printed.floor:.2e} {printed.slope:.2e}"
        )
        assert found["target"] == pytest.approx(0.0777**2)
    assert "--unit rmse" in text("calibrate", pilot)


def test_errors_that_do_not_fall_are_pointed_out() -> None:
    said = [str(kr.calibrate(kr.Curve([4, 8, 16], means)).explain()) for means in RISING_FALLING]
    assert ["the errors do not" in text for text in said] == [True, False]


def test_the_command_shows_every_step_and_an_unreachable_target_last(tmp_path: Path) -> None:
    out = text("calibrate", PILOT, "--target", "0.008", "--network", KO)
    for fact in ("floor = 0.00234", "sigma = 0.009986", "Eq. (9)", "7.54", "1.62", "Eq. (8)"):
        assert fact in out
    assert "99 against any" in out
    assert "64.9 times tighter" in out
    for form in BOUNDS:
        assert form in out
    asked = "calibrate", PILOT, "--model", "KO", "--target", "0.0035", "--network", KO
    (found,) = content(*asked)["calibrations"]
    assert {row["samples"] for row in found["constants"]} == {found["samples"]}
    (tmp_path / "fc.csv").write_text("n,error\n4,0.4\n8,0.2\n16,0.1\n")
    beside = content("calibrate", PILOT, "--model", "KO", "--against", tmp_path / "fc.csv")
    assert beside["calibrations"][0]["dense"]["floor"] == 0.1
    printed, error = outputs("calibrate", PILOT, "--model", "FC", "--target", "0.003", code=3)
    assert "No N for 0.003" in printed
    assert "korisk plan" in error
    assert "one model, got 2" in refused("calibrate", PILOT, "--against", PILOT)
    assert "another model" in refused("calibrate", PILOT, "--model", "FC", "--against", "FC")
    # In the user's unit: the lowest root is 0.1, whose square is 0.01.
    roots = "calibrate", tmp_path / "fc.csv", "--unit", "rmse", "--target", "0.05"
    assert "above 0.1," in outputs(*roots, code=3)[1]
    (tmp_path / "root.csv").write_text("n,rmse\n4,0.4\n8,0.2\n16,0.1\n")
    mixed = "calibrate", PILOT, "--model", "KO", "--against", tmp_path / "root.csv"
    assert "in the unit of the pilot" in refused(*mixed)

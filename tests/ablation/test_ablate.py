"""A known layer replaced: found, shared, started where it is said; and what is told of it."""

import json
from collections.abc import Callable
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import korisk as kr
from korisk.ablation import Replacement, replaced, wrong_operator
from korisk.ablation import ablation as room
from korisk.cli.app import run
from korisk.networks import zoo
from korisk.operators import (
    ConeBeam,
    Convolution,
    Diagonal,
    LinearOperator,
    Matrix,
    Moving,
    ParallelBeam,
    Projector,
    Tikhonov,
    fbp,
    gaussian_kernel,
)
from korisk.operators.testing import check

SCAN = ParallelBeam(8, views=6, bins=12)
A = Projector(SCAN)
CELLS = 6 * 12 * 8 * 8
RECIPE = kr.prediction.Training(steps=30, rate=0.02)
SINOGRAMS = torch.rand(3, 6, 12, generator=torch.Generator().manual_seed(1))


def network(kind: str) -> Callable[[], nn.Module]:
    return lambda: zoo.build(kind, A, fbp(SCAN), width=4, seed=int(torch.randint(2**31, ())))


def linear() -> nn.Module:
    return nn.Sequential(fbp(SCAN, trainable=True))


def built(build: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return build()


def weights(module: nn.Module) -> int:
    return sum(each.numel() for each in module.parameters())


@pytest.mark.parametrize(
    "kind", ["inverse-unet", "weights-inverse-unet", "inverse-cnn", "primal-dual"]
)
def test_a_dense_layer_takes_the_place_of_every_use(kind: str) -> None:
    before = built(network(kind))
    random, exact = (
        built(replaced(network(kind), Replacement(start=start))) for start in ("random", "operator")
    )
    assert weights(random) - weights(before) == CELLS  # one matrix, also for four passes
    assert weights(exact) == weights(random)
    # At the operator it is the same network; at random it is another one.
    with torch.no_grad():
        whole, same, other = (each(SINOGRAMS) for each in (before, exact, random))
    assert float((same - whole).norm() / whole.norm()) < 1e-5
    assert float((other - whole).norm() / whole.norm()) > 0.1
    # Other layers start as they did.
    common = dict(before.named_parameters())
    assert common
    assert all(torch.equal(dict(random.named_parameters())[k], common[k]) for k in common)


def test_uses_inside_a_composition_and_by_path_are_found() -> None:
    def build() -> nn.Module:
        return nn.Sequential(fbp(SCAN), nn.ReLU())

    for name in ("A^T", "0.parts.2"):
        assert weights(built(replaced(build, name))) == CELLS
    assert weights(built(replaced(build, "FBP"))) == CELLS


class Twice(nn.Module):
    """An operator at two passes, held by two modules that are made anew."""

    def __init__(self, other: LinearOperator = A) -> None:
        super().__init__()
        self.first, self.second = A.T, other.T
        self.scale = Diagonal(torch.ones(8, 8), name="D", trainable=True)

    def forward(self, y: Tensor) -> Tensor:
        out: Tensor = self.scale(self.first(y)) + self.second(y)
        return out


def test_passes_share_what_replaces_them_and_other_operators_of_the_name_are_refused() -> None:
    made = built(replaced(Twice, "A^T"))
    assert made.first is made.second
    assert weights(made) == 64 + CELLS
    wrong = Projector(ParallelBeam(8, views=6, bins=12, bin_spacing=1.5))
    with pytest.raises(kr.KoriskError, match=r"several that differ: first, second"):
        replaced(lambda: Twice(wrong), "A^T")()
    alone = built(replaced(lambda: Twice(wrong), "second"))
    assert alone.first is not alone.second


def test_a_low_rank_starts_at_the_nearest_matrix_and_a_convolution_has_an_adjoint() -> None:
    def layer(**options: Any) -> LinearOperator:
        change = Replacement(**options)
        made: Any = built(replaced(lambda: nn.Sequential(A.T, nn.ReLU()), change))
        assert isinstance(made[0], LinearOperator)
        return made[0]

    low = layer(by="low-rank", start="operator", rank=5)
    assert weights(low) == 5 * (72 + 64)
    values = torch.linalg.svdvals(A.as_matrix().double())
    off = (low.as_matrix() - A.T.as_matrix()).double().norm()
    assert float(off) == pytest.approx(float(values[5:].norm()), rel=1e-4)  # Eckart and Young
    filtered = layer(by="convolution", kernel=5)
    assert weights(filtered) == 25
    for each in (low, filtered, layer()):
        check(each, laws=["adjoint", "gradient"])  # or raises
    probe = torch.randn(500, 6, 12, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        sizes = layer()(probe).norm(), A.T(probe).norm()
    assert float(sizes[0] / sizes[1]) == pytest.approx(1, rel=0.15)


def test_wrong_geometries() -> None:
    wrong: Any = wrong_operator(fbp(SCAN), 0.1)
    assert [part.name for part in wrong] == ["W", "K", "A^T"]
    assert wrong.name == "FBP"
    wide = ParallelBeam(8, views=6, bins=12, bin_spacing=1.1)
    image = torch.rand(8, 8)
    assert torch.equal(wrong_operator(2 * A, 0.1)(image), 2 * Projector(wide)(image))
    inverse: Any = wrong_operator(Tikhonov(A, 0.1), 0.1)
    assert inverse.of.geometry == wide
    moving: Any = wrong_operator(Moving(A, [[0.0, 0, 0], [0.2, 1, 0]]), 0.1)
    assert moving.poses[1].tolist() == pytest.approx([0.22, 1.1, 0])
    assert moving.rest.geometry == SCAN
    rotated = Projector(ParallelBeam(8, views=6, bins=8), kind="rotate")
    for other in (Matrix([[1.0]]), Convolution((16, 16), gaussian_kernel(2.0)), rotated):
        with pytest.raises(kr.KoriskError, match=r"geometry korisk can make wrong.*of your own"):
            wrong_operator(other, 0.1)


def test_refusals_say_what_to_do() -> None:
    build = network("weights-inverse-unet")
    for options, words in [
        ({"layer": "A^Q"}, r"did you mean 'A\^T'"),
        ({"layer": "W"}, "learned"),
        ({"layer": "A^T", "by": "wrong"}, "wrong=0.05"),
        ({"layer": "A^T", "by": "convolution", "start": "operator"}, "start='random'"),
        ({"layer": "A^T", "by": "low-rank", "rank": 64}, "by='dense'"),
        ({"layer": "A^T", "wrong": 0.1}, "start='operator'"),
        ({"layer": "A^T", "by": "wrong", "wrong": Matrix([[1.0]])}, "shapes"),
        ({"layer": "A^T", "kernel": 4}, "5"),
    ]:
        with pytest.raises(kr.KoriskError, match=words):
            replaced(build, Replacement(**options))()  # type: ignore[arg-type]


class Marked(nn.Module):
    """A marked module, and an operator that is never called."""

    def __init__(self) -> None:
        super().__init__()
        known = nn.Sequential(nn.Flatten(), nn.Linear(72, 64, bias=False), nn.Unflatten(1, (8, 8)))
        self.known = kr.mark_known(known, name="B")
        self.unused = A.T
        self.scale = Diagonal(torch.ones(8, 8), name="D", trainable=True)

    def forward(self, y: Tensor) -> Tensor:
        out: Tensor = self.scale(self.known(y))
        return out


def test_marked_modules_are_replaced_and_unused_ones_refused() -> None:
    before = built(Marked)
    exact = built(replaced(Marked, Replacement(layer="B", start="operator"), example=SINOGRAMS))
    assert weights(exact) == 64 + CELLS
    assert torch.allclose(exact(SINOGRAMS), before(SINOGRAMS), atol=1e-5)
    with pytest.raises(kr.KoriskError, match="example="):
        replaced(Marked, "B")()
    for by, wrong in (("dense", None), ("wrong", 0.1)):
        with pytest.raises(kr.KoriskError, match="does not use"):
            kr.ablate(Marked, A, replace=Replacement(by=by, wrong=wrong))  # type: ignore[arg-type]


def test_what_is_replaced_is_named_or_described() -> None:
    with pytest.raises(kr.KoriskError, match=r"replace must name a known layer.*got 1.*'A\^T'"):
        kr.ablate(Marked, A, replace=1)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def made() -> kr.ablation.Ablation:
    return kr.ablate(
        linear, A, noise=0.05, sizes=[4, 8, 16, 32, 64], seeds=2, bound=False, training=RECIPE
    )


def test_the_known_operator_saves_samples_and_no_more_is_claimed(
    made: kr.ablation.Ablation, tmp_path: Path
) -> None:
    known, dense = made.curves
    assert (known.means < dense.means).all()
    # The default target is one that both networks reach.
    assert dense.means.min() <= made.target <= 1.06 * dense.means.min()
    # The known one meets it at its smallest N: how many fewer would do is not known.
    assert made.comparison.first.met_at_smallest
    low, high = made.comparison.ratio_range or (0, 0)
    assert 1 <= low <= (made.comparison.ratio or 0)
    assert high == float("inf")
    said = made.explain()
    for fact in (
        "is not known" if low <= 1 else "known A^T needs at least",  # the ratio is a bound
        "dense A^T",
        f"{made.parameters[1]:,}",
        "simulated",
        "No target was given: at N = 64",
    ):
        assert fact in said
    page = unescape(made.to_html(tmp_path / "page.html").read_text())
    assert made.target_sentence in page
    content = json.loads(json.dumps(made.to_dict()))
    assert len(content["curves"]) == 2 * 5 * 2
    assert content["parameters"] == list(made.parameters)


def test_both_networks_see_the_same_pairs_and_batches(made: kr.ablation.Ablation) -> None:
    other = replaced(linear, "A^T")
    sizes = [4, 16, 64]
    again = kr.rehearse(other, A, noise=0.05, sizes=sizes, seeds=2, training=RECIPE)
    shared = np.isin(made.curves[1].n, sizes)
    assert again.curve.error == pytest.approx(made.curves[1].error[shared], rel=1e-3)


def test_the_bound_compares_both_networks() -> None:
    def build() -> nn.Module:
        return nn.Sequential(Diagonal(torch.ones(6, 12), name="W", trainable=True), A.T, nn.ReLU())

    found = kr.ablate(
        build, A, sizes=[4, 8, 16], seeds=2, training=kr.prediction.Training(steps=10)
    )
    assert found.bound_ratio is not None
    assert found.bound_ratio > 1
    assert f"{found.parameters[1]:,}" in found.bound_sentence


def test_volumes_of_a_cone_are_ablated_and_bounded() -> None:
    scan = ConeBeam(4, views=4, bins=(6, 6))
    cone, cells = Projector(scan), 4 * 6 * 6 * 4**3

    def build() -> nn.Module:
        return nn.Sequential(fbp(scan, trainable=True), nn.ReLU())

    generator = torch.Generator().manual_seed(0)
    volumes = torch.rand(64, *cone.domain, generator=generator)
    common: dict[str, Any] = {"images": volumes, "noise": 0.05, "sizes": [4, 8, 16], "seeds": 2}
    common |= {"training": kr.prediction.Training(steps=20, rate=0.02)}
    dense = kr.ablate(build, cone, **common)
    assert dense.parameters[1] - dense.parameters[0] == cells
    assert dense.bound_ratio is not None
    assert dense.bound_ratio > 1
    assert (dense.curves[0].means < dense.curves[1].means).all()
    wrong = kr.ablate(build, cone, replace=Replacement(by="wrong", wrong=0.5), **common)
    assert wrong.curves[0].means == pytest.approx(dense.curves[0].means)
    assert (wrong.curves[0].means < wrong.curves[1].means).all()


STUDY = """
problem: {kind: ct, beam: parallel, noise: {gaussian: 0.05}}
points: [{side: 8, views: 6, bins: 12}]
sizes: [4, 8, 16]
seeds: [1]
models: {networks: [{kind: inverse-cnn, width: 1, steps: 10}]}
ablation: {replace: A^T, by: wrong, wrong: 0.3}
"""
OWN = """
import torch
from korisk.operators import ParallelBeam, Projector, fbp

scan = ParallelBeam(8, views=6, bins=12)
operator, noise = Projector(scan), 0.05


def build():
    return torch.nn.Sequential(fbp(scan, trainable=True))


def fails():
    raise RuntimeError("no weights found")


def takes(width):
    return build()
"""


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study, own, out = tmp_path / "study.yaml", tmp_path / "own.py", tmp_path / "out"
    study.write_text(STUDY)
    own.write_text(OWN)
    place = ["--device", "cpu"]
    asked = ["--by", "dense", "--target", "0.02", "--no-bound", "--json", "--out", str(out)]
    assert run(["ablate", str(study), *asked, *place]) == 3  # ten steps are too few for a matrix
    found = json.loads(capsys.readouterr().out)
    assert "training limits the error of dense A^T" in found["explanation"]
    assert found["by"] == "dense"
    assert found["second"]["name"] == "dense A^T"
    curves = kr.Curve.read_all(out / "curves.csv")
    assert [curve.model for curve in curves] == ["known A^T", "dense A^T"]
    assert all(len(curve) == 3 for curve in curves)
    assert {each.name for each in out.iterdir()} == {
        *("curves.csv", "ablation.html", "ablation.json", "ablation.png", "ablation.svg"),
    }
    small = ["--steps", "10", "--seeds", "1", "--sizes", "8,16,32,64"]
    mine = ["--network", f"{own}:build", "--replace", "A^T", "--target", "0.02"]
    np.save(
        tmp_path / "images.npy",
        np.random.default_rng(0).random((15, 8, 8)) * (np.arange(15) > 0)[:, None, None],
    )
    images = ["--images", str(tmp_path / "images.npy")]
    assert run(["ablate", *mine, *small, *place, *images]) == 2
    assert "--patients image" in capsys.readouterr().err
    code = run(["ablate", *mine, *small, *place, *images, "--patients", "image"])
    shown, told = (" ".join(text.split()) for text in capsys.readouterr())
    assert "korisk: warning: 1 blank image" in told
    assert code in (0, 3)  # noise has no structure that a known operator could save
    assert "from 14 example images" in shown
    assert "simulated images alone" not in shown
    assert "known A^T" in shown
    assert "dense A^T" in shown
    at_once = ["ablate", str(study), "--no-bound", "--target", "0.02", *place]
    assert run(at_once) == 3  # both meet it at their smallest N
    capsys.readouterr()
    for arguments, words in [
        ([], "STUDY.yaml"),
        (["--network", f"{own}:fails"], "no weights found"),
        (["--network", f"{own}:takes"], "--network must take no arguments"),
        (["--network", f"{own}:other"], "has no function 'other'"),
        (["--network", f"{own}:build", "--replace", "Q"], "A^T"),
        ([str(study), "--model", "unet"], "inverse-cnn"),
        ([str(study), "--point", "b"], "no point"),
        ([str(study), "--network", f"{own}:build", "--model", "inverse-cnn"], "leave one out"),
        (["--network", f"{own}:build", "--point", "a"], "belongs to a study"),
        ([str(study), "--by", "nope", "--out", str(tmp_path / "new")], "--by must be one of dense"),
    ]:
        assert run(["ablate", *arguments, *place]) == 2
        error = capsys.readouterr().err
        assert words in error
        assert len(error.splitlines()) == 1
    assert not (tmp_path / "new").exists()  # nothing is trained or written before
    for key, words in (
        ("wrongs: 0.3", "did you mean 'wrong'"),
        ("rank: 3", "rank goes with by: low-rank, not with wrong"),
    ):
        study.write_text(STUDY.replace("wrong: 0.3", key))
        assert run(["ablate", str(study), *place]) == 2
        assert words in capsys.readouterr().err


def test_an_interruption_keeps_what_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real, calls = kr.rehearse, []

    def interrupted(*arguments: object, **options: object) -> object:
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(room, "rehearse", interrupted)
    (tmp_path / "study.yaml").write_text(STUDY)
    kept = ["--resume", str(tmp_path / "kept")]
    code = run(["ablate", str(tmp_path / "study.yaml"), *kept, "--device", "cpu"])
    assert code == 130
    assert "keeps the finished networks; the same command" in capsys.readouterr().err
    assert len(list((tmp_path / "kept").iterdir())) == 4

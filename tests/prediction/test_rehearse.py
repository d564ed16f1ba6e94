"""Networks rehearsed on simulated pairs."""

import math
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import korisk as kr
from korisk.fitting import Recipe
from korisk.fitting.gradient.train import Member, train_many
from korisk.operators import (
    Diagonal,
    LinearOperator,
    ParallelBeam,
    Projector,
    Sense,
    birdcage_sensitivities,
    fbp,
    from_deepinv,
    from_scipy,
)
from korisk.planning.compare import Comparison
from korisk.planning.forecast import Expectation
from korisk.planning.plan import Plan
from korisk.prediction import Training
from korisk.prediction.alterations import KINDS, altered, evidence
from korisk.prediction.rehearsal.simulation import ExampleSource
from korisk.problems import CtProblem, CtScanner, FileSource, random_ellipses

SIZES = (4, 8, 16, 32)
QUICK: dict[str, Any] = {"sizes": SIZES, "seeds": 2}
QUICK["training"] = Training(steps=10, rate=0.01)
ONCE = QUICK | {"sizes": SIZES[:3], "seeds": 1}


class Net(nn.Module):
    """A known FBP, a convolution, and something before the last layer."""

    def __init__(self, middle: nn.Module | None = None) -> None:
        super().__init__()
        self.fbp = fbp(ParallelBeam(8, views=6, bins=12))
        self.conv, self.last = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 1, 3, padding=1)
        self.middle = nn.Identity() if middle is None else middle

    def forward(self, y: Tensor) -> Tensor:
        image: Tensor = self.fbp(y)
        found: Tensor = self.last(torch.relu(self.middle(self.conv(image[:, None]))))
        return image + found[:, 0]


def dense(side: int) -> nn.Module:
    """A layer from 72 inputs to an image."""
    layer = nn.Linear(72, side**2)
    return nn.Sequential(nn.Flatten(), layer, nn.Unflatten(1, (side, side)))


@pytest.fixture(scope="module")
def scan() -> LinearOperator:
    return Projector(ParallelBeam(8, views=6, bins=12))


def images(number: int, seed: int = 0) -> Tensor:
    draws = torch.Generator().manual_seed(seed)
    return torch.rand(number, 8, 8, generator=draws) * torch.linspace(0.2, 1, 8)


@pytest.fixture(scope="module")
def made(scan: LinearOperator) -> kr.Rehearsal:
    return kr.rehearse(Net, scan, images(30), 0.1, **QUICK)


def errors_of(
    build: Any, scan: LinearOperator, patience: int | None = None, *, together: bool | None
) -> list[float]:
    """The test errors of four networks in double precision."""
    targets = images(60).double()
    inputs = scan(targets.float()).double()
    members = []
    for k in range(4):
        torch.manual_seed(k)
        rows = torch.arange(60)
        members.append(
            Member(str(k), build().double(), k, rows[: 3 + 8 * k], rows[40:45], rows[45:])
        )
    recipe = Recipe(steps=30, rate=0.05, patience=patience)
    training = train_many(members, inputs, targets, recipe, together=together)
    found = dict(training)
    for k, member in enumerate(members):  # each is left at the step that was reported
        with torch.no_grad():
            off = member.module.eval()(inputs[45:]) - targets[45:]
        torch.testing.assert_close(off.square().mean((1, 2)), found[k])
    return [float(found[k].mean()) for k in range(4)]


@pytest.mark.parametrize("patience", [None, 1])
@pytest.mark.parametrize("middle", [None, nn.BatchNorm2d], ids=["plain", "batch norm"])
def test_members_trained_at_once_are_those_trained_alone(
    scan: LinearOperator, middle: type[nn.Module] | None, patience: int | None
) -> None:
    def build() -> Net:
        return Net(None if middle is None else middle(4))

    stacked = errors_of(build, scan, patience, together=True)
    alone = errors_of(build, scan, patience, together=False)
    chosen = errors_of(build, scan, patience, together=None)  # trials leave no trace
    np.testing.assert_allclose(stacked, alone, rtol=1e-6)
    np.testing.assert_allclose(chosen, alone, rtol=1e-6)


def test_an_attribute_runs_of_the_users_changes_nothing(scan: LinearOperator) -> None:
    class Own(Net):
        runs = 4

    assert errors_of(Own, scan, together=False) == errors_of(Net, scan, together=False)


def test_networks_that_take_gradients_inside_are_rehearsed(scan: LinearOperator) -> None:
    class Inside(Net):
        def forward(self, y: Tensor) -> Tensor:
            back: Any = torch.func.vjp(scan, torch.zeros(len(y), 8, 8))[1]
            image: Tensor = super().forward(y) + back(y)[0]
            return image

    made = kr.rehearse(Inside, scan, images(30), 0.1, **QUICK)
    assert np.isfinite(made.curve.means).all()


def test_a_member_that_has_ended_may_diverge_as_it_would_alone() -> None:
    def members() -> list[Member]:
        torch.manual_seed(0)
        networks, rows = [nn.Linear(1, 1, bias=False) for _ in range(2)], torch.arange(24)
        return [
            Member(f"m{k}", networks[k], k, rows[12 * k :][:8], rows[12 * k :][8:10], rows[:2])
            for k in range(2)
        ]

    # Steps at inputs of about 3 grow; those at inputs of about 1 shrink.
    x = torch.cat([torch.linspace(0.9, 1.1, 12), torch.linspace(2.9, 3.1, 12)])[:, None]
    recipe = Recipe(optimiser="sgd", rate=0.194, steps=200, batch=8, patience=1)
    found = [dict(train_many(members(), x, 2 * x, recipe, together=how)) for how in (True, False)]
    torch.testing.assert_close(found[0], found[1], rtol=1e-5, atol=0)


def test_networks_that_draw_or_decide_are_trained_alike_every_time(scan: LinearOperator) -> None:
    class Deciding(Net):
        def forward(self, y: Tensor) -> Tensor:
            found = super().forward(y)
            return found if float(found.detach().sum()) > -1e9 else -found

    stacked, alone = (errors_of(Deciding, scan, together=together) for together in (True, False))
    np.testing.assert_allclose(stacked, alone, rtol=1e-6)

    def drawing() -> Net:
        return Net(nn.Dropout(0.2))

    state = torch.get_rng_state()
    first, again = (kr.rehearse(drawing, scan, images(20), **ONCE) for _ in range(2))
    assert first.curve.error.tolist() == again.curve.error.tolist()
    assert torch.equal(state, torch.get_rng_state())


def test_a_seed_decides_everything(scan: LinearOperator, made: kr.Rehearsal) -> None:
    again = kr.rehearse(Net, scan, images(30), 0.1, **QUICK)
    np.testing.assert_allclose(again.curve.error, made.curve.error, rtol=1e-5)
    other = kr.rehearse(Net, scan, images(30), 0.1, **QUICK | {"seeds": (7, 8)})
    assert not np.allclose(other.curve.error, made.curve.error, rtol=1e-3)
    assert set(other.curve.seed) == {"7", "8"}


def test_judges_are_other_patients_and_as_they_are() -> None:
    pictures = images(60).double()
    patients = tuple(f"p{index // 6}" for index in range(60))
    source = ExampleSource(pictures, patients)
    tested = []
    for seed in range(3):
        train, validation, test = source.parts(seed)
        whose = [{patients[index] for index in part} for part in (train, validation, test)]
        assert len(set.union(*whose)) == sum(map(len, whose))
        assert len({patients[index] for index in train[: source.unaltered]}) == source.unaltered
        counts = {"train": 100, "validation": 20, "test": 9}
        drawn = source.draw(8, seed=seed, counts=counts, device=None)
        assert torch.equal(drawn["test"], pictures[test])
        assert torch.equal(drawn["train"][: len(train)], pictures[train])
        assert len(drawn["train"]) == 100
        tested += test.tolist()
    assert len(set(tested)) == len(tested)


def test_near_copies_among_the_examples_are_left_out() -> None:
    scan = Projector(ParallelBeam(16, views=3, bins=24))
    few = random_ellipses(16, seed=1, stream="examples").images(16)
    copies = few.repeat(6, 1, 1)
    copies[16:] += 0.02 * torch.randn(80, 16, 16, generator=torch.Generator().manual_seed(0))
    alone, among = (kr.rehearse(lambda: dense(16), scan, each, **QUICK) for each in (few, copies))
    assert among.unaltered == alone.unaltered
    # Which copy of an image is kept decides who judges whom, and 16 images are few.
    np.testing.assert_allclose(among.curve.means, alone.curve.means, rtol=0.5)
    for text in (among.simulated, among.notes[0]):
        assert re.search(r"1[56] example images without 8[01] near-copies", text)
    with pytest.raises(kr.KoriskError, match=r"no near-copies of each other, got [78] among 48"):
        kr.rehearse(lambda: dense(16), scan, copies[torch.arange(96) % 16 < 8], **QUICK)
    whose = [str(k % 16) for k in range(96)]
    named = kr.rehearse(lambda: dense(16), scan, copies, patients=whose, **QUICK)
    assert f"one of each patient up to N = {named.unaltered}" in named.simulated


def test_images_that_judge_twice_count_once(scan: LinearOperator) -> None:
    few = images(12) * torch.linspace(0.5, 2, 12)[:, None, None]
    quick: dict[str, Any] = {"noise": np.float32(0.1), "sizes": (4, 6, 8)}
    quick["training"] = Training(steps=10)
    once, often = (
        kr.rehearse(lambda: dense(8), scan, few, seeds=seeds, **quick) for seeds in (3, 12)
    )
    assert "(noise: 0.1)" in once.simulated
    assert once.level * 0.8 < often.level < once.level * 1.25


def test_new_threads_of_the_caller_have_as_many_cores_as_before(scan: LinearOperator) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        kr.rehearse(Net, scan, images(16), **ONCE)
        with ThreadPoolExecutor(1) as threads:
            assert threads.submit(torch.get_num_threads).result() == 2
    finally:
        torch.set_num_threads(before)


def test_copies_move_pixels() -> None:
    draws = torch.Generator().manual_seed(0)
    flat = altered(torch.full((50, 6, 8), 0.5), draws, list(KINDS))
    assert torch.equal(flat, torch.full((50, 6, 8), 0.5))
    point = torch.zeros(50, 9, 9)
    point[:, 4, 4] = 1
    moved = altered(point, draws, ["mirror", "turn", "shift"])
    assert ((moved > 0).sum((1, 2)) == 1).all()
    assert len(set(moved.flatten(1).argmax(1).tolist())) > 4
    line = altered(torch.arange(12.0).repeat(40, 1), draws, ["mirror", "shift/2"])
    assert line.shape == (40, 12)
    assert set(line.flatten().tolist()) <= set(range(12))


@pytest.mark.parametrize(
    "shape", [(1, 8, 8), (3, 8, 8), (8, 8, 2), (1, 6, 6, 6), (5, 6, 7)], ids=str
)
def test_copies_move_along_spatial_axes_alone(shape: tuple[int, ...]) -> None:
    """All channels, or real and imaginary parts, alike; a volume along its three axes."""
    behind = shape[-1] == 2
    channels = (shape[-1] if behind else shape[0]) if shape != (5, 6, 7) else 1
    spatial = shape if shape == (5, 6, 7) else shape[:-1] if behind else shape[1:]
    pictures = torch.rand(40, 1, *spatial, generator=torch.Generator().manual_seed(0))
    scales = torch.arange(1.0, channels + 1).view(1, -1, *[1] * len(spatial))
    images = pictures * scales
    images = images.movedim(1, -1) if behind else images.reshape(40, *shape)
    copies = altered(images, torch.Generator().manual_seed(1), list(KINDS))
    assert copies.shape == images.shape
    assert not torch.equal(copies, images)
    first = (copies.movedim(-1, 1) if behind else copies).reshape(40, channels, *spatial)
    torch.testing.assert_close(first, first[:, :1] * scales)


class Squeezed(nn.Module):
    """A dense layer between inputs and images of any shape."""

    def __init__(self, domain: tuple[int, ...], image: tuple[int, ...]) -> None:
        super().__init__()
        self.image, self.layer = image, nn.Linear(math.prod(domain), math.prod(image))

    def forward(self, y: Tensor) -> Tensor:
        found: Tensor = self.layer(y.flatten(1)).unflatten(1, self.image)
        return found


class Blur(nn.Module):
    """What deepinv's physics has: batches with an axis of channels."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kernel", torch.tensor([[[[1.0, 2.0, 1.0]]]]))

    def A(self, x: Tensor) -> Tensor:
        return nn.functional.conv2d(x, self.kernel)  # type: ignore[arg-type]

    def A_adjoint(self, y: Tensor) -> Tensor:
        return nn.functional.conv_transpose2d(y, self.kernel)  # type: ignore[arg-type]


def coils() -> LinearOperator:
    return Sense((8, 8), birdcage_sensitivities((8, 8), 2))


def smoothed() -> LinearOperator:
    pylops = pytest.importorskip("pylops")
    return from_scipy(pylops.Smoothing2D((3, 3), (8, 8)), domain=(8, 8), range=(8, 8))


def adapted() -> LinearOperator:
    return from_deepinv(Blur(), (1, 8, 8))


@pytest.mark.parametrize("make", [adapted, smoothed, coils])
def test_operators_of_other_libraries_and_complex_images_are_rehearsed(
    make: Callable[[], LinearOperator],
) -> None:
    operator = make()
    pictures = torch.rand(24, 8, 8, generator=torch.Generator().manual_seed(0))
    examples = pictures.reshape(-1, *operator.domain) if make is not coils else pictures * (1 + 2j)
    net = partial(Squeezed, operator.range, operator.domain)
    made = kr.rehearse(net, operator, examples, 0.05, **ONCE)
    assert made.curve.sizes.tolist() == [4, 8, 16]
    assert "24 example images" in made.simulated
    if make is not coils:  # ellipses have no phase
        assert "random ellipses" in kr.rehearse(net, operator, noise=0.05, **ONCE).simulated


class Scaled(nn.Module):
    """A weight for each of eight inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(8))

    def forward(self, y: Tensor) -> Tensor:
        return self.w * y


class Full(nn.Module):
    """A weight for each pair of eight inputs and eight outputs, which starts far away."""

    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.randn(8, 8))

    def forward(self, y: Tensor) -> Tensor:
        return y @ self.w


def unaltered(pictures: Tensor, draws: torch.Generator) -> Tensor:
    return pictures


def noisy(y: Tensor, draws: torch.Generator) -> Tensor:
    return y + torch.randn(y.shape, generator=draws)


def test_a_recipe_that_ends_too_early_is_told_and_a_sound_one_compares() -> None:
    """Gaussian signal and noise: p weights an output need N = 2 + p / f for 1 + f times .5."""
    pictures = torch.randn(600, 8, generator=torch.Generator().manual_seed(5))
    identity = Diagonal(torch.ones(8), name="I")

    def plans(target: float, **recipe: Any) -> list[Plan]:
        own: dict[str, Any] = {"sizes": (16, 32, 64, 128, 256), "seeds": 2, "augment": unaltered}
        own |= {"noise": noisy, "training": Training(**recipe)}
        made = [kr.rehearse(net, identity, pictures, **own) for net in (Scaled, Full)]
        return [Plan(one.forecast(), target) for one in made]

    for plan in plans(0.56, steps=500, rate=1e-3):
        longer, advice = plan.forecast.longer, plan.recommend()
        assert longer is not None
        assert (longer.n, longer.factor) == (256, 2)
        assert advice.action == "train"
        for fact in ("2 times as long", "N = 256", f"{longer.errors[0]:.4g}"):
            assert fact in advice.sentence
        assert f"from {longer.before[0]:.4g} to {longer.errors[0]:.4g}" in advice.reasons[0]
    sound = Comparison(*plans(0.56, steps=300, rate=0.03))
    assert all(plan.forecast.longer is None for plan in (sound.first, sound.second))
    low, high = sound.ratio_range or (0.0, math.inf)
    true = (2 + 8 / 0.12) / (2 + 1 / 0.12)
    assert 1 < low <= true <= high


def test_longer_training_lowers_the_curve_and_widens_its_band(made: kr.Rehearsal) -> None:
    plain, end = replace(made, longer=None), int(made.curve.sizes[-1])

    def then(after: float) -> Expectation:
        longer = kr.planning.Longer(n=end, factor=2, errors=[after], before=[1.0])
        return replace(made, longer=longer).forecast().at(end)

    before, little, much = plain.forecast().at(end), then(0.99), then(0.4)
    assert little == before
    assert much.value == pytest.approx(0.4 * before.value, rel=0.1)
    assert much.upper / much.lower > 1.5 * before.upper / before.lower


def test_two_networks_that_share_weights_are_refused(scan: LinearOperator) -> None:
    layer = Net()
    with pytest.raises(kr.KoriskError, match=r"new network.*shares weights.*inside the function"):
        kr.rehearse(lambda: nn.Sequential(layer), scan, images(20), **ONCE)


def lit_from_the_left(number: int) -> Tensor:
    """Discs anywhere, each brighter towards its left."""
    draws = torch.Generator().manual_seed(3)
    places = 2 + 12 * torch.rand(number, 2, 1, 1, generator=draws)
    down, across = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    inside = (down - places[:, 0]) ** 2 + (across - places[:, 1]) ** 2 < 16
    return inside * (1 + 0.3 * (places[:, 1] - across)).double()


def test_alterations_that_lead_out_of_the_population_are_dropped() -> None:
    kinds, harm = evidence(lit_from_the_left(64))
    assert "mirror" not in kinds
    assert "turn" not in kinds
    assert harm["mirror"] > 0.1
    assert any(kind.startswith("shift") for kind in kinds)
    discs = (lit_from_the_left(64) != 0).double()
    assert {"mirror", "turn"} <= set(evidence(discs)[0])


def test_the_order_of_the_images_does_not_matter(scan: LinearOperator, made: kr.Rehearsal) -> None:
    turned = kr.rehearse(Net, scan, images(30).flip(0), 0.1, **QUICK)
    np.testing.assert_allclose(turned.curve.error, made.curve.error, rtol=1e-5)


def of_distinct(made: kr.Rehearsal, *shares: float) -> kr.Rehearsal:
    """With errors that fall by these shares of a logarithm from a quarter of the images on."""
    logs = np.log(made.curve.means[-1]) + np.array([sum(shares), shares[1], 0.0])
    errors = np.exp(logs)[:, None] * [0.9, 1.1]  # of seeds that differ by their test images alone
    return replace(
        made, distinct=kr.Curve([5] * 2 + [9] * 2 + [17] * 2, errors.ravel(), [0, 1] * 3)
    )


def test_few_distinct_images_are_a_curve_that_is_extrapolated(made: kr.Rehearsal) -> None:
    assert made.distinct is not None
    assert made.distinct.sizes.tolist() == [5, 9, 17]
    assert made.distinct.error[-2:].tolist() == made.curve.error[-2:].tolist()
    flat, steep = of_distinct(made, 0.01, 0.005), of_distinct(made, 0.4, 0.4)
    falls = [np.log(case.curve.means / case.adjusted.means) for case in (flat, steep)]
    for fall in falls:
        assert fall[made.curve.sizes <= made.unaltered].tolist() == pytest.approx([0.0] * 3)
    assert 0 <= falls[0][-1] < 0.02
    # By at most .4 of a doubling, as N = 32 is .9 away; less, as the sizes without copies say less.
    assert 0.1 < falls[1][-1] < 0.4

    def width(case: kr.Rehearsal) -> float:
        then = case.forecast().at(32)
        return math.log(then.upper / then.lower)

    assert width(steep) > width(flat)


def test_bands_widen_where_less_is_known(scan: LinearOperator, made: kr.Rehearsal) -> None:
    def width(rehearsal: kr.Rehearsal, n: int) -> float:
        then = rehearsal.forecast().at(n)
        assert then.lower < then.value < then.upper
        return float(np.log(then.upper / then.lower))

    assert 8 <= made.unaltered < 32
    assert width(made, 8) < width(made, 32) < width(made, 3200)
    ellipses = kr.rehearse(Net, scan, noise=0.1, **QUICK)
    assert ellipses.unaltered == 0
    assert ellipses.forecast().population == "random ellipses"
    assert made.forecast().population == ""


def test_nothing_is_claimed_below_the_smallest_size(made: kr.Rehearsal) -> None:
    easy = made.forecast().plan(100.0)
    assert (easy.samples(), easy.even, easy.lower, easy.upper) == (4, 4, 4, 4)
    with pytest.raises(kr.KoriskError, match="from 4 to"):
        made.forecast().at(3)


def test_a_pilot_gives_the_level_and_the_rehearsal_the_shape(made: kr.Rehearsal) -> None:
    higher = kr.Curve(made.curve.n, 1.3 * made.adjusted.error, made.curve.seed).up_to(16)
    forecast = made.forecast(higher)
    alone, beside = made.forecast().at(32), forecast.at(32)
    assert beside.value == pytest.approx(1.3 * made.adjusted.means[-1], rel=0.1)
    assert beside.upper / beside.lower < alone.upper / alone.lower
    plan = forecast.plan(beside.value)
    assert plan.lower < 32 < plan.upper


def test_a_pilot_that_contradicts_is_told_and_fitted_by_itself(made: kr.Rehearsal) -> None:
    far = kr.Curve(made.curve.n, 50 * made.adjusted.error, made.curve.seed, made.curve.model)
    forecast = made.forecast(far.up_to(16))
    assert forecast.at(32).value > 20 * made.adjusted.means[-1]
    assert "50 times the simulated ones" in " ".join(forecast.notes)


def test_an_answer_says_what_was_simulated_and_what_was_measured(made: kr.Rehearsal) -> None:
    simulated, measured = made.forecast().notes[:2]
    assert f"30 example images, as they are up to N = {made.unaltered}" in simulated
    assert "nothing below N = 4 or beyond 32" in simulated
    assert "nothing" in measured
    twice = kr.Curve(made.curve.n, 2 * made.adjusted.error, made.curve.seed).up_to(16)
    assert "a pilot at N = 4 to 16" in made.forecast(twice).notes[1]


def test_an_interruption_keeps_what_is_finished(scan: LinearOperator) -> None:
    calls = count(1)

    def fit(network: nn.Module, *data: Tensor) -> None:
        if next(calls) == 7:
            raise KeyboardInterrupt

    made = kr.rehearse(Net, scan, **QUICK | {"training": Training(fit=fit)})
    assert made.curve.sizes.tolist() == [4, 8, 16]
    assert "6 of 8 trainings" in made.notes[0]
    calls = count(5)
    with pytest.raises(KeyboardInterrupt):
        kr.rehearse(Net, scan, **QUICK | {"training": Training(fit=fit)})


def test_a_network_that_learns_nothing_is_told(scan: LinearOperator) -> None:
    made = kr.rehearse(Net, scan, sizes=SIZES, seeds=1, training=Training(steps=20, rate=1e6))
    assert "learned nothing" in made.notes[-1]


SCANNER = CtScanner(side=8, views=6, bins=12, beam="parallel")
OF_FILES = CtProblem(scanner=SCANNER, source=FileSource(path="x"))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"build": lambda: nn.Linear(12, 8)}, r"\(4, 8, 8\), got \(4, 6, 8\)"),
        ({"build": lambda: 3}, "torch.nn.Module, got 3"),
        ({"build": nn.Identity}, "weights to train"),
        ({"build": lambda width: Net()}, r"no arguments, got one that takes \(width\)"),
        ({"build": Net()}, "function that makes a network"),
        ({"images": images(11)}, "12 or more.* got 11"),
        ({"images": 3.0}, "12 or more"),
        ({"images": images(20) * 0}, "zero"),
        ({"images": images(2).repeat(8, 1, 1)}, "near-copies of each other, got 2 among 16"),
        ({"images": images(20), "augment": lambda each, _: each[:, :4]}, r"got \(\d+, 4, 8\)"),
        ({"images": images(20), "augment": "mirror"}, "augment must be a function"),
        ({"augment": unaltered}, "give images= too"),
        ({"noise": lambda inputs, draws: inputs[:1]}, "noise must return inputs"),
        ({"noise": lambda inputs, draws: inputs @ inputs}, "generator on the CPU"),
        ({"images": images(20), "patients": [*"abc" * 6, "a", "b"], "seeds": 1}, "seeds must be 2"),
        ({"operator": OF_FILES, "patients": ["a"]}, "leave patients= out"),
        ({"images": ["a", "b"]}, "12 or more"),
        ({"images": images(20), "patients": ["a", "b"] * 10}, "3 patients or more, got 2"),
        ({"images": torch.rand(20, 9, 9)}, r"\(\.\.\., 8, 8\)"),
        ({"sizes": [8, 4, 16]}, "ascending"),
        ({"noise": -1.0}, "level"),
        ({"operator": 3}, "operator must be"),
        *(({"callbacks": 3}, "callbacks must be"), ({"folder": 3}, "folder must be")),
        ({"images": images(20) * 1e30}, "finite"),
    ],
)
def test_what_does_not_fit_is_refused(
    scan: LinearOperator, changed: dict[str, Any], words: str
) -> None:
    with pytest.raises(kr.KoriskError, match=words):
        kr.rehearse(**{"build": Net, "operator": scan, **QUICK, **changed})

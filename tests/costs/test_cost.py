"""Costs on paper: counts against instrumented runs and the code's limits, rates, and schedules."""

import json
import math
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from korisk import published
from korisk.costs import counts, dense_counts, known_counts, measuring, scans
from korisk.costs.cost import (
    Estimator,
    cell_peak,
    cell_stages,
    costs,
    estimate,
    makespan,
    plan_of,
    predicted,
    stored_bytes,
    total,
    ways,
)
from korisk.costs.counts import KINDS, Operations, Plan, Stage, peak
from korisk.costs.devices import CARDS, NODES, smallest
from korisk.costs.rates import Rates, packaged, rates_for, read_rates
from korisk.costs.scans import Scan
from korisk.errors import KoriskError
from korisk.fitting.ridge import dense as dense_ridge
from korisk.fitting.ridge import diagonal as diagonal_ridge
from korisk.fitting.ridge import factored
from korisk.operators.ct import engines, filter
from korisk.problems import CtScanner, ct, metrics, phantoms
from korisk.studies.result import Result, Row, Task
from korisk.studies.run import cells
from korisk.studies.run.usage import Account
from korisk.studies.spec.study import Study
from korisk.studies.store.packing import pack
from korisk.studies.store.store import Store

GIB = 2**30
EXAMPLE = Path(__file__).parents[2] / "examples" / "sweep_1024.yaml"


def rates(**changes: Any) -> Rates:
    made = Rates(
        name="made up",
        device="cpu",
        where="paper",
        memory=64 * GIB,
        baseline=GIB,
        overhead=0.5,
        start=2.0,
        seconds=dict.fromkeys(KINDS, ((1000.0, 0.001), (1000000.0, 1.0))),
        machine={},
        versions={},
    )
    return replace(made, **changes)


def spec_of(side: int, *, sizes: list[int], **more: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"name": "x", "points": [{"side": side}], "sizes": sizes, "seeds": [1]}
    (task,) = Study({**given, **more}).tasks
    return dict(task.spec)


def work_of(stages: Iterator[Stage] | tuple[Stage, ...], *kinds: str) -> float:
    return sum(each.total for stage in stages for each in stage.operations if each.kind in kinds)


# --- Counts against the code ---------------------------------------------------------------------


def test_the_limits_are_those_of_the_fits() -> None:
    assert counts.COLUMNS == engines._COLUMNS
    assert counts.LISTED == engines._CHUNK
    assert counts.WORTH_STORING == engines._WORTH_STORING
    assert counts.FITS == diagonal_ridge._FITS
    assert counts.ENTRIES == diagonal_ridge._ENTRIES
    assert counts.MEASURED == metrics._PIECE
    assert counts.PAINTED == phantoms._PIECE
    assert counts.PROJECTED == ct._BATCH
    assert counts.LARGEST_FILTER == filter._LARGEST_DENSE
    assert known_counts.FACTORED == diagonal_ridge._LARGEST_FACTORED
    assert known_counts.STEPS == diagonal_ridge._MOST_STEPS
    assert known_counts.WORTH_POLISHING == factored._WORTH_POLISHING
    assert dense_counts.TOGETHER == dense_ridge._TOGETHER
    assert dense_counts.CONVERTED == dense_ridge._CHUNK
    assert scans._LARGEST_DENSE == cells._LARGEST_DENSE


@pytest.mark.parametrize(
    ("side", "views", "bins", "beam"),
    [
        (64, 40, 64, "fan"),
        (48, 30, 60, "parallel"),
        (32, 40, 32, "surrogate"),
        (128, 60, 128, "released"),
    ],
)
def test_entries_are_about_those_of_the_matrices(
    side: int, views: int, bins: int, beam: Any
) -> None:
    scanner = CtScanner(side=side, views=views, bins=bins, beam=beam)
    scan = Scan(side, views, bins, beam)
    projector: Any = scanner.projector("cpu")
    assert scan.projector_listed == projector.stencil.taps_per_view * views
    assert scan.projector_entries == pytest.approx(projector.sparse_matrix().nnz, rel=0.1)
    last: Any = scanner.reconstruction("cpu").tail[-1]
    if beam in ("fan", "released"):
        assert scan.tail_listed == last.stencil.taps_per_view * views
        assert scan.tail_entries == pytest.approx(last.sparse_matrix().nnz, rel=0.05)


@pytest.mark.parametrize(("beam", "bins"), [("fan", 48), ("parallel", 60), ("surrogate", 48)])
def test_rays_that_images_meet_are_about_as_many(beam: Any, bins: int) -> None:
    scanner = CtScanner(side=48, views=30, bins=bins, beam=beam)
    drawn = ct.draw_pools(scanner, seed=1, train=256, validation=0, test=0)
    sinograms = drawn.train.inputs.flatten(1) != 0
    for n in (4, 64, 256):
        met = int(sinograms[:n].any(0).sum())
        assert Scan(48, 30, bins, beam).active(n, [1, 4]) == pytest.approx(met, rel=0.12)


class Products(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts 2 m k n for every product of matrices that runs inside."""

    flops = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = func(*args, **(kwargs or {}))
        sparse = any(isinstance(a, torch.Tensor) and a.layout is not torch.strided for a in args)
        if not sparse and func.overloadpacket in (
            torch.ops.aten.mm,
            torch.ops.aten.bmm,
            torch.ops.aten.addmm_,
        ):
            left = args[1] if func.overloadpacket is torch.ops.aten.addmm_ else args[0]
            self.flops += 2 * found.numel() * left.shape[-1]
        return found


def counted(task: Task) -> int:
    """The operations of all products of a cell, as PyTorch runs them."""
    products = Products()  # type: ignore[no-untyped-call]
    with products:
        cells.run_cell(task, lambda _: None)
    return products.flops


POINT = {"side": 72, "views": 9, "bins": 72}  # beyond 64 pixels metrics take no products
SMALL = {"points": [POINT], "pools": {"validation": 5, "test": 7}}


@pytest.mark.parametrize(
    "models",
    [
        {"FC": {"grid": [0.1, 1.0, 10.0]}},
        {"FC": {"grid": [0.1, 1.0], "select": "leave-one-out"}},
        {"KO": {"grid": [0.1, 1.0, 10.0], "refine": 0}},
    ],
    ids=["dual", "leave-one-out", "diagonal"],
)
def test_products_are_as_many_as_pytorch_runs(models: dict[str, Any]) -> None:
    spec = spec_of(72, sizes=[6, 20], models=models, **SMALL)
    run = counted(Task(point="x", seed=1, spec=spec))
    stages = tuple(stage for part in cell_stages(plan_of(spec, rates())) for stage in part)
    expected = work_of(stages, "matmul32", "matmul64")
    # Of rays that images meet there is an estimate alone, hence the room.
    assert run == pytest.approx(expected, rel=0.05 if "KO" in models else 1e-9)


def test_training_takes_the_operators_twice_a_step() -> None:
    def filtered(iterations: int) -> tuple[float, int]:
        settings = {"fit": "gradient", "iterations": iterations, "batch": 3}
        spec = spec_of(72, sizes=[4, 20], models={"KO": settings}, **SMALL)
        stages = known_counts.gradient(plan_of(spec, rates()), spec["models"]["KO"])
        return work_of(stages, "matmul32"), counted(Task(point="x", seed=1, spec=spec))

    (expected, run), (more_expected, more_run) = filtered(100), filtered(140)
    assert more_expected - expected == pytest.approx(more_run - run, rel=0.01)


# --- Memory --------------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), min_size=1, max_size=6),
)
def test_the_peak_is_that_of_a_ledger(parts: list[tuple[int, int]]) -> None:
    stages = tuple(Stage(name="x", keeps=keeps, works=works) for keeps, works in parts)
    ledger, held = [], 0
    for keeps, works in parts:
        held += keeps
        ledger += [held, held + works]
    assert peak(stages) == max(ledger)


@pytest.mark.parametrize("row", published.FOOTPRINT, ids=lambda row: f"H{row.size.H}")
def test_adam_takes_what_the_papers_table_says(row: published.FootprintRow) -> None:
    beam = "surrogate" if row.size.H <= 32 else "fan"
    problem = {"side": row.size.H, "views": row.size.V, "bins": row.size.B, "beam": beam}
    plan = Plan(spec={"problem": problem, "sizes": [4]}, device="cuda", memory=GIB)
    state = dense_counts.gradient(replace_tests(plan), "adam")[0].keeps
    bytes_each = 16 if beam == "fan" else 32  # the surrogate is in float64
    assert state == bytes_each * row.size.dense_parameters


def replace_tests(plan: Plan) -> Plan:
    spec = {**plan.spec, "pools": {"validation": 1, "test": 1}}
    return replace(plan, spec=spec)


def test_h512_takes_360_gib_with_adam_and_a_few_in_dual_form() -> None:
    found = costs(spec_of(512, sizes=[4, 2048]), rates(device="cuda", memory=139 * GIB), ranks=8)
    by_name = {(each.way.model, each.way.name): each for each in found}
    adam, dual = by_name["FC", "Adam"], by_name["FC", "ridge, dual"]
    assert adam.state == pytest.approx(360 * GIB, rel=0.001)
    assert dual.state < 8 * GIB
    assert dual.way.used
    assert not adam.way.used
    assert smallest(adam.memory, CARDS) is None
    assert smallest(dual.memory, CARDS) == CARDS[0]
    assert 360 / 8 * GIB * 3 / 4 < by_name["FC", "Adam, a rank of 8"].state < 360 / 8 * GIB


def test_the_peak_on_an_h200_is_what_was_measured_there() -> None:
    path = Path(__file__).parents[2] / "benchmarks" / "results" / "study_h200.json"
    for sweep in json.loads(path.read_text())["sweeps"]:
        sizes = [4, 16, 64, 256, 1024, 2048]
        spec = spec_of(sweep["side"], sizes=sizes, protocol=sweep["protocol"])
        plan = Plan(spec=spec, device="cuda", memory=139 * GIB)
        assert cell_peak(plan) == pytest.approx(sweep["device_memory"], rel=0.15)


@pytest.mark.skipif(sys.platform != "linux", reason="peaks are read from Linux")
def test_the_peak_of_a_process_is_about_the_predicted_one() -> None:
    sizes, models, pools = [16, 1000], {"FC": {"grid": [1.0]}}, {"validation": 8, "test": 8}
    code = f"""
import json
from korisk.studies.run.usage import Meter
from korisk.studies.run.cells import run_cell
from korisk.studies.spec.study import Study
def run(side, sizes):
    point = {{"side": side, "sizes": sizes}}
    more = {{"models": {models!r}, "pools": {pools!r}}}
    content = {{"name": "x", "points": [point], "seeds": [1], **more}}
    meter = Meter()
    run_cell(Study(content).tasks[0], lambda _: None)
    return meter.read().peak_memory
print(json.dumps([run(8, [4]), run(128, {sizes!r})]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after = json.loads(done.stdout)
    spec = spec_of(128, sizes=sizes, models=models, pools=pools)
    assert cell_peak(plan_of(spec, rates())) == pytest.approx(after - before, rel=0.3)


def test_memory_decides_whether_the_normal_matrix_is_stored() -> None:
    spec = spec_of(128, sizes=[64])
    needed = 2 * 4 * 7680**2 / counts.FITS
    for memory, stored in ((1.01 * needed, True), (0.99 * needed, False)):
        used = [each.name for each in ways(plan_of(spec, rates(), memory)) if each.used]
        assert used == [f"ridge, B^T B {'' if stored else 'not '}stored", "ridge, dual"]


def test_ways_differ_in_memory_as_their_matrices_do() -> None:
    found = {each.way.name: each for each in costs(spec_of(256, sizes=[2048]), rates())}
    gram = 2 * 4 * 23040**2
    stored, not_stored = found["ridge, B^T B stored"], found["ridge, B^T B not stored"]
    assert stored.state > gram > not_stored.state
    assert stored.operations < not_stored.operations
    weights = 4 * 23040 * 256**2
    assert found["Adam"].state - found["SGD"].state == 2 * weights


def test_devices_are_in_order_and_a_little_is_left_free() -> None:
    for catalogue in (CARDS, NODES):
        sizes = [device.memory for device in catalogue]
        assert sizes == sorted(sizes)
        assert smallest(sizes[0], catalogue) == catalogue[1]  # not to the last byte
    assert smallest(10**15, NODES) is None


# --- Scaling -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("kind", "power"), [("eigh64", 3), ("matmul64", 2)])
def test_the_dual_form_grows_with_samples_as_its_kernel(kind: str, power: int) -> None:
    def work(n: int) -> float:
        spec = spec_of(128, sizes=[n], pools={"validation": 1, "test": 1})
        return work_of(dense_counts.dual(plan_of(spec, rates()), spec["models"]["FC"]), kind)

    assert math.log2(work(4096) / work(2048)) == pytest.approx(power, abs=0.35)


def test_lanczos_grows_with_the_square_of_the_weights() -> None:
    def work(side: int, views: int, bins: int) -> float:
        point = {"side": side, "views": views, "bins": bins}
        spec = spec_of(side, sizes=[64], points=[point])
        plan = plan_of(spec, rates(memory=10**15))
        return work_of(known_counts.ridge(plan, spec["models"]["KO"], stored=True), "matvec32")

    assert math.log2(work(128, 120, 128) / work(128, 60, 128)) == pytest.approx(2, abs=0.1)


# --- Rates ---------------------------------------------------------------------------------------


def test_times_pass_through_what_was_measured_and_are_flat_below_and_straight_above() -> None:
    table = ((1e3, 1e-5), (1e6, 1e-3), (1e8, 0.2))
    made = rates(seconds=dict.fromkeys(KINDS, table))

    def time(work: float, calls: float = 1.0) -> float:
        return made.time([Operations(kind="stream", work=work, calls=calls)])

    for work, seconds in table:
        assert time(work) == pytest.approx(seconds)
    assert time(1.0) == time(999.0) == pytest.approx(1e-5)
    assert time(3e8) == pytest.approx(0.6)
    assert time(1e5, calls=7) == pytest.approx(7 * time(1e5))
    works = [10**power for power in (2, 3.5, 4, 5, 6.5, 7, 9)]
    assert sorted(map(time, works)) == [time(work) for work in works]


def test_what_lies_far_beyond_the_measured_is_named() -> None:
    far = [
        Operations(kind="eigh64", work=1e8),
        Operations(kind="rays", work=7e6),
        Operations(kind="stream", work=1e12),
    ]
    assert rates().beyond(far) == {"eigh64": pytest.approx(100)}


def test_rates_are_read_as_they_are_written(tmp_path: Path) -> None:
    made = rates()
    made.write(tmp_path / "mine.json")
    assert read_rates(tmp_path / "mine.json") == made
    assert rates_for("cuda", str(tmp_path / "mine.json")) == made


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda c: c["seconds"].pop("rays"), "rays"),
        (lambda c: c["seconds"].update(rays=[[2, 1], [1, 1]]), "rising"),
        (lambda c: c["seconds"].update(rays=[[1, -1]]), "rising"),
        (lambda c: c["seconds"].update(rays=[]), "rising"),
        (lambda c: c["seconds"].update(rays=7), "damaged"),
        (lambda c: c.update(overhead="much"), "damaged"),
        (lambda c: c.update(memory=-1), "memory"),
        (lambda c: c.update(device="abacus"), "device"),
        (lambda c: c.update(colour="red"), "unexpected"),
        (lambda c: c.update(format=0), "format 1"),
    ],
)
def test_damaged_rates_are_refused_in_one_line(tmp_path: Path, change: Any, word: str) -> None:
    path = tmp_path / "rates.json"
    rates().write(path)
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))
    with pytest.raises(KoriskError, match=word) as error:
        read_rates(path)
    assert "korisk cost --measure" in str(error.value)
    assert "\n" not in str(error.value)


def test_rates_that_are_no_json_or_not_there_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(KoriskError, match="is not JSON"):
        read_rates(tmp_path / "bad.json")
    with pytest.raises(KoriskError, match="packaged name or a file, got 'arm'"):
        rates_for("cpu", "arm")
    with pytest.raises(KoriskError, match="no such file"):
        rates_for("cpu", str(tmp_path / "none.json"))


@pytest.mark.parametrize("name", packaged())
def test_packaged_rates_are_whole(name: str) -> None:
    found = rates_for("cpu", name)
    assert found.name == name
    assert found.memory > 2**30
    assert set(found.seconds) == set(KINDS)
    for table in found.seconds.values():
        seconds = [each for _, each in table]
        for less, more in pairwise(seconds):  # work takes time, but for what a launch scatters
            assert more >= 0.9 * less


def test_a_machine_is_measured_and_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "_PASSES", 1)
    monkeypatch.setattr(measuring, "_ROUNDS", 1)
    monkeypatch.setattr(measuring, "_LONG", 1e-4)
    monkeypatch.setattr(measuring, "_sides", lambda place, cpu, cuda: cpu[:2])
    seen: list[str] = []
    first = measuring.measure_rates("here", watch=seen.append)
    assert seen == [*KINDS, "overhead"]
    assert first.device == "cpu"
    same: Any = {kind: lambda place, kind=kind: first.seconds[kind] for kind in KINDS}
    monkeypatch.setattr(measuring, "_MEASURES", same)
    slow = {kind: tuple((w, s + 100) for w, s in first.seconds[kind]) for kind in KINDS}
    quick = {kind: tuple((w, s * 1e-6) for w, s in first.seconds[kind]) for kind in KINDS}
    again = measuring.measure_rates("here", known=replace(first, seconds=slow))
    assert again.seconds == first.seconds
    kept = measuring.measure_rates("here", known=replace(first, seconds=quick))
    assert kept.seconds == quick


# --- Estimates -----------------------------------------------------------------------------------


def test_a_cell_is_its_stages_and_overheads() -> None:
    spec = spec_of(16, sizes=[4, 8])
    slow, quick = rates(), rates(overhead=0.0)
    about, without = predicted(spec, slow), predicted(spec, quick)
    assert about.seconds - without.seconds == pytest.approx(4 * 0.5)  # two models at two sizes
    stages = [stage for part in cell_stages(plan_of(spec, slow)) for stage in part]
    by_hand = sum(quick.time(stage.operations) for stage in stages)
    assert without.seconds + without.setup == pytest.approx(by_hand)
    assert about.memory == GIB + cell_peak(plan_of(spec, slow))
    assert about.origin == "predicted"
    assert about.device_memory is None


def test_finished_cells_of_the_point_are_the_best_estimate(tmp_path: Path) -> None:
    study = Study({"name": "x", "points": [{"side": 8}, {"side": 16}], "seeds": [1, 2, 3, 4]})
    first, second, third, _, other, *_ = study.tasks
    with Store.create_or_open(tmp_path / "study.db", study.content) as store:
        for task, seconds in ((first, 3.0), (second, 5.0), (third, 4.0)):
            account = Account(started="now", seconds=seconds, peak_memory=int(seconds) * 1000)
            row = Row(model="FC", n=4, metrics={"mse": 1.0})
            store.record(task, Result(rows=(row,), detail={"device": "cpu"}), account)
        about = estimate(study.tasks[3], rates=rates(), store=store)
        assert (about.origin, about.seconds, about.cells) == ("measured", 4.0, 3)
        assert about.memory == 5000
        assert estimate(other, rates=rates(), store=store).origin == "predicted"
        on_gpu = estimate(first, rates=rates(device="cuda"), store=store)
        assert on_gpu.origin == "predicted"
        changed = replace(first, spec={**first.spec, "sizes": [4]})
        assert estimate(changed, rates=rates(), store=store).origin == "predicted"
        both = total(study.tasks, Estimator(rates(), store=store), workers=2)
        assert (both.cells, both.measured) == (8, 4)


JOBS = st.lists(
    st.tuples(st.sampled_from("abc"), st.floats(0.1, 100), st.floats(0, 50)),
    min_size=1,
    max_size=30,
)


@given(JOBS, st.integers(1, 12))
def test_schedules_keep_grahams_bounds(jobs: list[tuple[str, float, float]], workers: int) -> None:
    found = makespan(jobs, workers)
    bare, loaded = sum(job[1] for job in jobs), sum(job[1] + job[2] for job in jobs)
    longest = max(job[1] + job[2] for job in jobs)
    assert found >= bare / workers * (1 - 1e-9)
    assert found >= longest * (1 - 1e-9)
    assert found <= (loaded / workers + longest) * (1 + 1e-9)


def test_one_worker_pays_each_setup_once_and_many_pay_it_each() -> None:
    jobs = [("a", 10.0, 5.0)] * 4 + [("b", 1.0, 2.0)] * 3
    assert makespan(jobs, 1) == pytest.approx(4 * 10 + 5 + 3 * 1 + 2)
    assert makespan(jobs[:4], 4) == pytest.approx(15)


def test_the_store_takes_no_more_than_is_said() -> None:
    spec = spec_of(16, sizes=[4, 8], pools={"validation": 4, "test": 4})
    packed = pack(cells.run_cell(Task(point="x", seed=1, spec=spec), lambda _: None))
    size = sum(len(array.content) for array in packed.arrays)
    size += sum(len(text) for row in packed.rows for text in (row[2], row[3]))
    assert stored_bytes(spec) / 8 < size <= stored_bytes(spec)
    whole = sum(
        math.prod(json.loads(array.shape)) * np.dtype(array.dtype).itemsize
        for array in packed.arrays
    )
    assert stored_bytes(spec) == pytest.approx(whole + 1024 * len(packed.rows))


def test_the_sweep_of_the_examples_is_costed_without_pytorch() -> None:
    code = f"""
import sys
sys.modules["torch"] = None
from korisk.costs.cost import Estimator, costs, total
from korisk.costs.rates import rates_for
from korisk.studies.spec.study import Study
study, rates = Study.read({str(EXAMPLE)!r}), rates_for("cpu")
whole = total(study.tasks, Estimator(rates), workers=64)
assert whole.cells == len(study.tasks) >= 64
assert whole.seconds >= whole.work / 64
print(max(len(each.beyond) for each in costs(study.tasks[-1].spec, rates)))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) >= 1  # 1024 x 1024 was measured nowhere

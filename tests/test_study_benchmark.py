"""The benchmark of studies: what korisk is compared with is right, and so is the comparison."""

import pytest

from benchmarks.paper import reproduction_tables, study_reference
from benchmarks.paper import study as benchmark
from korisk.studies.run.cells import run_cell
from korisk.studies.spec.study import Study

SEED = 3
# (test MSE, lambda) at H = 8 by N, from the authors' released results of seed 3.
RELEASED = {
    "KO": {
        4: (0.014425637428845105, 1e-4),
        8: (0.003801669692615437, 1e-2),
        16: (0.003126921160468581, 1e-2),
        32: (0.002495547695884264, 1e-2),
        64: (0.0023657311606144404, 1e-2),
    },
    "FC": {
        4: (0.03692918798012878, 1.0),
        8: (0.02491467149712281, 1.0),
        16: (0.01709652061884518, 1.0),
        32: (0.008151435344191863, 1.0),
        64: (0.004462070611272219, 1.0),
    },
}


def test_reference_and_korisk_both_give_the_released_results() -> None:
    released = [
        [8, model, n, SEED, *chosen]
        for model, by_size in RELEASED.items()
        for n, chosen in by_size.items()
    ]
    reference = dict(study_reference.scale(8, [SEED]))
    points = [{"side": 8}]
    study = Study({"name": "test", "protocol": "released", "points": points, "seeds": [SEED]})
    ours = [
        [8, row.model, row.n, SEED, row.metrics["mse"], row.detail["lambda"]]
        for row in run_cell(study.tasks[0], lambda fraction: None).rows
        if row.n
    ]
    for found in ([[*key, *chosen] for key, chosen in reference.items()], ours):
        agreement = benchmark.agreement_of(released, found)
        assert agreement["compared"] == 10
        assert agreement["lambdas_agree"]
        assert agreement["largest_difference"] < 1e-9


def test_differences_are_told() -> None:
    one, other = [[8, "KO", 4, 1, 0.5, 1.0]], [[8, "KO", 4, 1, 0.6, 100.0]]
    agreement = benchmark.agreement_of(one, other)
    assert agreement["largest_difference"] == pytest.approx(0.2)
    assert not agreement["lambdas_agree"]
    with pytest.raises(SystemExit, match="same networks"):
        benchmark.agreement_of(one, [])


def test_ratios_are_of_medians() -> None:
    rounds = [
        {
            "reference": {"import": 0.1, "cpu": {"8": 4.0 * times, "16": 8.0 * times}},
            "korisk": {"import": 0.2, "cpu": {"8": 2.0 * times, "16": 1.0 * times}},
        }
        for times in (1, 1, 50)
    ]
    kept = {
        "machine": {"processor": "abacus", "cores": 1},
        "load_before": 0.0,
        "rounds": rounds,
        "compared": 100,
        "largest_difference": 1e-9,
        "lambdas_agree": True,
    }
    lines = list(reproduction_tables.tables({"speed": kept}))
    assert "| 8 | 4.00 | 2.00 | 2.0 |" in lines
    assert "| all | 12.00 | 3.00 | 4.0 |" in lines

"""Study files: what they may say, and the cells they mean."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from korisk.errors import KoriskError
from korisk.studies.spec.study import Study

RECIPE = ("optimiser", "rate", "iterations", "batch")
SMALL: dict[str, Any] = {
    "name": "small",
    "problem": {"beam": "parallel", "noise": {"gaussian": 0.02}},
    "points": [{"side": 8, "views": 6, "bins": 9}, {"side": 16, "sizes": [2, 4]}],
    "sizes": [4, 8],
    "seeds": [1, 5],
}


def test_a_study_is_its_points_times_its_seeds() -> None:
    tasks = Study(SMALL).tasks
    assert [task.key for task in tasks] == [
        *("rigorous-8, seed 1", "rigorous-8, seed 5", "rigorous-16, seed 1"),
        "rigorous-16, seed 5",
    ]
    first, other = tasks[0].spec, tasks[2].spec
    assert (first["sizes"], other["sizes"]) == ([4, 8], [2, 4])
    assert (first["problem"]["views"], first["problem"]["bins"]) == (6, 9)
    assert (other["problem"]["views"], other["problem"]["bins"]) == (20, 16)  # the paper's
    assert first["problem"]["noise"] == {"gaussian": 0.02}
    assert tasks[0].spec_hash == tasks[1].spec_hash != tasks[2].spec_hash


def test_a_point_has_its_own_noise_ellipses_and_beam() -> None:
    own = {"side": 16, "noise": {"poisson": 1e5}, "ellipses": [2, 3], "beam": "fan"}
    first, second = Study({**SMALL, "points": [{"side": 8}, own], "seeds": [1]}).tasks
    assert first.spec["problem"]["noise"] == {"gaussian": 0.02}
    assert first.spec["problem"]["ellipses"] == [1, 4]
    assert second.spec["problem"]["noise"] == {"poisson": 1e5}
    assert second.spec["problem"]["ellipses"] == [2, 3]
    assert second.spec["problem"]["beam"] == "fan"


def test_the_released_pools_are_not_exceeded() -> None:
    with pytest.raises(KoriskError, match="at most 128 under the released protocol"):
        Study({"name": "x", "protocol": "released", "points": [{"side": 8, "sizes": [200]}]})


def test_a_file_is_read_as_it_is_written(tmp_path: Path) -> None:
    path = tmp_path / "study.yaml"
    path.write_text("name: x\npoints:\n  - {side: 8}\nseeds: [3]\n")
    (task,) = Study.read(path).tasks
    assert (task.point, task.seed, set(task.spec["models"])) == ("rigorous-8", 3, {"KO", "FC"})


WRONG = [
    ({"points": []}, "points must be a list of one entry or more"),
    ({"points": [{"side": 8}, {"side": 8}]}, "twice"),
    ({"points": [{"side": 20}]}, "needs views and bins"),
    ({"sizes": [8, 4]}, "sizes must be ascending"),
    ({"sizes": [1, 4]}, r"sizes\[1\] must be greater than or equal to 2"),
    ({"points": [{"side": 8, "views": 0}]}, "views must be"),
    ({"points": [{"side": 8, "beam": "surrogate", "bins": 9}]}, "bins must equal side"),
    (
        {"models": {"KO": {"fit": "gradient", "grid": [1.0]}}},
        "grid does not belong to fit: gradient",
    ),
    ({"models": {"KO": {"rate": 0.1}}}, "rate does not belong to fit: ridge"),
    ({"models": {"KO": {"fit": "gradient", "iterations": 0}}}, "iterations must be"),
    ({"models": {"KO": {"fit": "gradient", "rate": -1.0}}}, "rate must be"),
    ({"problem": {"noise": {"poisson": 0.5}}}, "photons must be"),
    ({"seeds": [1, 1]}, "seeds must differ"),
    ({"problem": {"noise": {"gaussian": 0.1, "poisson": 1e5}}}, "exactly one of the keys"),
    ({"problem": {"noise": {"gaussian": -1.0}}}, "noise.gaussian must be"),
    ({"problem": {"ellipses": [4, 1]}}, "least and the largest number"),
    ({"problem": {"ellipses": [1, 2], "images": {"path": "x.npy"}}}, "ellipses must stand without"),
    ({"problem": {"beam": "pencil"}}, "beam"),
    ({"models": {}}, "models must name KO, FC or both"),
    ({"models": {"KO": {"refine": -1}}}, "refine must be greater than or equal to 0"),
    ({"pools": {"validation": 0}}, "pools.validation is 0"),
    ({"pools": {"test": 0}}, "pools.test must be"),
    ({"nmae": "typo"}, "nmae"),
    ({"protocol": "released"}, "fixes problem, models, pools and metric"),
    ({"name": ""}, "name must be a printable text"),
]


@pytest.mark.parametrize(("change", "words"), WRONG, ids=[words for _, words in WRONG])
def test_what_is_wrong_is_said_in_one_line(change: dict[str, Any], words: str) -> None:
    with pytest.raises(KoriskError, match=words) as caught:
        Study({**SMALL, **change}, source="mine.yaml")
    assert str(caught.value).startswith("mine.yaml")
    assert "\n" not in str(caught.value)


def test_the_released_protocol_is_the_authors_and_takes_no_settings() -> None:
    # Batch and steps of the authors' code.
    for side, batch, steps in ((128, 4, 5000), (256, 1, 5000), (512, 8, 10_000)):
        content = {"name": "x", "protocol": "released", "points": [{"side": side}], "seeds": [1]}
        (task,) = Study(content).tasks
        settings = {name: task.spec["models"]["KO"][name] for name in RECIPE}
        assert tuple(settings.values()) == ("adagrad", 0.02, steps, batch)
        assert task.spec["models"]["FC"]["select"] == "test"
        assert task.spec["problem"]["beam"] == "released"
    with pytest.raises(KoriskError, match="the paper's views and bins"):
        Study({"name": "x", "protocol": "released", "points": [{"side": 128, "views": 61}]})


def test_a_pilot_is_no_study_and_is_found_out_without_pytorch() -> None:
    code = "import sys; from korisk.studies.spec.study import asked_for; "
    code += "print(asked_for({'name': 'a pilot'}), 'torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "False"]

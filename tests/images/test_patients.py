"""Whose image it is; splits: no patient in two pools, one test set, pools that begin alike."""

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from korisk.errors import KoriskError, KoriskWarning
from korisk.images import ImagePools, ImageSet, image_pools, read_images, split_patients


def test_patients_by_folder_file_image_function_mapping_and_table(clinic: Path) -> None:
    def named(rule: Any) -> tuple[str, ...]:
        return read_images(clinic, patients=rule).patients

    files = ("ann/1.npy", "ann/2.npy", "bob/1.npy")
    assert named("auto") == named("folder") == ("ann",) * 4 + ("bob",) * 2
    assert named("file") == tuple(name for name in files for _ in range(2))
    assert named("image") == tuple(f"{name}#{page}" for name in files for page in range(2))
    assert named(lambda name: name[-1]) == ("0", "1") * 3
    table = {"ann/1.npy": 5, "ann/2.npy": 6, "bob/1.npy": 5, "bob/1.npy#1": 7}
    assert named(table) == ("5", "5", "6", "6", "5", "7")
    path = clinic / "whose.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("file", "patient"), *table.items()])
    assert named(path) == named(str(path)) == named(table)
    path.unlink()


def test_patients_that_cannot_be_named_are_refused(clinic: Path, tmp_path: Path) -> None:
    table = tmp_path / "whose.csv"

    def refused(reason: str, rule: Any, content: str = "") -> None:
        table.write_text(content)
        with pytest.raises(KoriskError, match=reason):
            read_images(clinic, patients=rule)

    refused("has no entry for 4 of 6 images, the first is ann/2.npy#0", {"ann/1.npy": "a"})
    refused("ann/1.npy#0: must have a patient, got ''", lambda _: "")
    refused("line 2: must have a file and a patient", table, "file;patient\na.npy;x\n")
    twice = "file,patient\na.npy,x\na.npy,y\n"
    refused(r"line 3: a.npy is of 'y' here and of 'x' above", table, twice)
    refused("column 'patient' is there twice", table, "file,patient,patient\na.npy,x,y\n")


def test_the_same_image_under_two_patients_is_reported(clinic: Path, tmp_path: Path) -> None:
    for name in ("ann/1.npy", "bob/copy.npy"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes((clinic / "ann" / "1.npy").read_bytes())
    with pytest.warns(KoriskWarning, match=r"bob/copy.npy#0 and ann/1.npy#0 are the same image"):
        read_images(tmp_path)
    read_images(tmp_path, patients={"ann/1.npy": "x", "bob/copy.npy": "x"})


# Splits

patient_lists = st.lists(st.sampled_from([f"p{i}" for i in range(8)]), min_size=12, max_size=60)
seeds = st.integers(0, 2**40)


def whose(patients: list[str], pool: np.ndarray[tuple[int], np.dtype[np.int64]]) -> set[str]:
    return {patients[index] for index in pool}


@given(
    patient_lists,
    st.integers(0, 6),
    st.integers(0, 6),
    seeds,
)
def test_patients_are_never_divided_and_pools_are_nested(
    patients: list[str], test: int, validation: int, seed: int
) -> None:
    def split(**changes: int | None) -> ImagePools:
        asked: dict[str, int | None] = {"test": test, "validation": validation, "seed": seed}
        return split_patients(patients, **{**asked, **changes})  # type: ignore[arg-type]

    try:
        all_left = split()
    except KoriskError:
        assume(False)
    pools = [whose(patients, pool) for pool in all_left]
    assert sum(map(len, pools)) == len(set().union(*pools))
    taken = np.concatenate(all_left)
    assert len(np.unique(taken)) == len(taken)
    assert (len(all_left.validation), len(all_left.test)) == (validation, test)
    held = whose(patients, all_left.test) | whose(patients, all_left.validation)
    rest = [index for index, patient in enumerate(patients) if patient not in held]
    assert sorted(all_left.train.tolist()) == rest
    for changed in (split(), split(train=len(rest) // 2)):
        for ours, theirs in zip(changed, all_left, strict=True):
            assert ours.tolist() == theirs[: len(ours)].tolist()
    if test:
        fewer = split(test=test - 1).test
        assert fewer.tolist() == all_left.test[: test - 1].tolist()
    if validation:
        fewer = split(validation=validation - 1).validation
        assert fewer.tolist() == all_left.validation[: validation - 1].tolist()


def test_pools_spread_over_a_tenth_of_the_patients_and_take_no_more_than_they_use() -> None:
    patients = [f"p{index // 50}" for index in range(5000)]
    pools, other = (split_patients(patients, test=40, validation=40, seed=n) for n in (3, 4))
    same = [(a.tolist() == b.tolist()) for a, b in zip(pools, other, strict=True)]
    assert same == [False, False, True]  # one test pool for all seeds
    assert len(whose(patients, pools.test)) == 10
    assert len(whose(patients, pools.validation)) == 10
    assert len(pools.train) == 80 * 50
    own = [str(index) for index in range(1000)]
    assert len(split_patients(own, test=50, validation=50, train=900, seed=0).train) == 900


def test_training_images_are_mixed_over_the_patients() -> None:
    patients = [f"p{index % 20}" for index in range(2000)]
    mixed = split_patients(patients, test=10, validation=10, seed=5).train
    assert len(whose(patients, mixed[:100])) >= 15


def test_too_few_are_refused_with_the_numbers_there_are() -> None:
    three = ["a"] * 5 + ["b"] * 5 + ["c"] * 5
    wrong: list[tuple[list[str], dict[str, Any], str]] = [
        (three, {"test": 2, "validation": 2, "train": 6}, "train must be at most 5, got 6.* 15 im"),
        (three, {"test": 11, "validation": 9}, "validation must be at most 0, got 9.*3 patients"),
        (
            ["a"] * 5,
            {"test": 1, "validation": 0},
            "train must be at most 0.* 5 images of 1 pat.*='file'",
        ),
        ([], {"test": 0, "validation": 0}, "must name the patient of each image"),
        (three, {"test": -1, "validation": 1}, "test must be a whole number"),
    ]
    for patients, options, reason in wrong:
        with pytest.raises(KoriskError, match=reason):
            split_patients(patients, **options, seed=0)
    assert len(split_patients(["a"] * 5, test=0, validation=0, seed=0).train) == 5


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> ImageSet:
    """Six patients with four images each, half of them in a stack."""
    folder: Path = tmp_path_factory.mktemp("six")
    rng = np.random.default_rng(0)
    for patient in "abcdef":
        (folder / patient).mkdir()
        for name in ("x", "y"):
            np.save(folder / patient / f"{name}.npy", rng.uniform(0, 1, (4, 4)))
        np.save(folder / patient / "stack.npy", rng.uniform(0, 1, (2, 4, 4)))
    return read_images(folder)


def test_pools_of_images_are_those_of_their_patients(images: ImageSet) -> None:
    pools = image_pools(images, seed=4, train=8, validation=3, test=4)
    assert [len(pool) for pool in pools] == [8, 3, 4]
    same = split_patients(images.patients, seed=4, train=8, validation=3, test=4)
    assert [pool.tolist() for pool in pools] == [pool.tolist() for pool in same]
    with pytest.raises(KoriskError, match="24 images of 6 patients"):
        image_pools(images, seed=4, train=24, validation=3, test=4)
    with pytest.raises(KoriskError, match="images must be an ImageSet, got ndarray"):
        image_pools(images.images, seed=4, train=8, validation=3, test=4)  # type: ignore[arg-type]

"""Splits: no patient on both sides, one test set for all seeds, pools that begin alike."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from korisk.errors import KoriskError
from korisk.images import ImagePools, ImageSet, image_pools, read_images, split_patients

patient_lists = st.lists(st.sampled_from([f"p{i}" for i in range(8)]), min_size=12, max_size=60)
seeds = st.integers(0, 2**40)


def whose(patients: list[str], pool: np.ndarray[tuple[int], np.dtype[np.int64]]) -> set[str]:
    return {patients[index] for index in pool}


@given(
    patient_lists,
    st.integers(0, 6),
    st.integers(0, 6),
    seeds,
    st.sampled_from(["mixed", "patients"]),
)
def test_patients_are_never_divided_and_pools_are_nested(
    patients: list[str], test: int, validation: int, seed: int, order: str
) -> None:
    def split(**changes: int | None) -> ImagePools:
        asked: dict[str, int | None] = {"test": test, "validation": validation, "seed": seed}
        return split_patients(patients, **{**asked, **changes}, order=order)  # type: ignore[arg-type]

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


def test_the_test_pool_is_the_same_for_all_seeds_and_the_others_follow_the_seed() -> None:
    patients = [f"p{index // 3}" for index in range(300)]
    pools = [
        split_patients(patients, test=30, validation=30, train=60, seed=seed) for seed in (1, 2)
    ]
    assert pools[0].test.tolist() == pools[1].test.tolist()
    assert pools[0].validation.tolist() != pools[1].validation.tolist()
    assert pools[0].train.tolist() != pools[1].train.tolist()


def test_pools_spread_over_a_tenth_of_the_patients_and_take_no_more_than_they_use() -> None:
    patients = [f"p{index // 50}" for index in range(5000)]
    pools = split_patients(patients, test=40, validation=40, seed=3)
    assert len(whose(patients, pools.test)) == 10
    assert len(whose(patients, pools.validation)) == 10
    assert len(pools.train) == 80 * 50
    own = [str(index) for index in range(1000)]
    assert len(split_patients(own, test=50, validation=50, train=900, seed=0).train) == 900


def test_training_images_are_mixed_or_of_one_patient_after_the_other() -> None:
    patients = [f"p{index % 20}" for index in range(2000)]
    mixed = split_patients(patients, test=10, validation=10, seed=5).train
    assert len(whose(patients, mixed[:100])) >= 15
    one_by_one = split_patients(patients, test=10, validation=10, seed=5, order="patients").train
    assert sorted(mixed) == sorted(one_by_one)
    assert [len(whose(patients, one_by_one[:n])) for n in (1, 100, 101, 200)] == [1, 1, 2, 2]


def test_too_few_are_refused_with_the_numbers_there_are() -> None:
    patients = ["a"] * 5 + ["b"] * 5 + ["c"] * 5
    with pytest.raises(KoriskError, match=r"15 images of 3 patients.* 5 are left for train"):
        split_patients(patients, test=2, validation=2, train=6, seed=0)
    with pytest.raises(KoriskError, match=r"11 for test, 9 for validation were requested"):
        split_patients(patients, test=11, validation=9, seed=0)
    with pytest.raises(KoriskError, match=r"all 5 images are of one patient, 'a'.*patients='file'"):
        split_patients(["a"] * 5, test=1, validation=0, seed=0)
    with pytest.raises(KoriskError, match="must name the patient of each image"):
        split_patients([], test=0, validation=0, seed=0)
    with pytest.raises(KoriskError, match="order must be one of mixed, patients"):
        split_patients(patients, test=1, validation=1, seed=0, order="random")  # type: ignore[arg-type]
    with pytest.raises(KoriskError, match="test must be a whole number"):
        split_patients(patients, test=-1, validation=1, seed=0)
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


def test_a_given_split_is_followed(images: ImageSet) -> None:
    def part(name: str) -> str | None:
        return {"a": "test", "b": "validation", "f": None}.get(name[0], "train")

    by_file = {name.split("#")[0]: part(name) for name in images.files if part(name)}
    lists = {
        word: [name for name in by_file if by_file[name] == word]
        for word in ("train", "validation", "test")
    }
    found = [
        image_pools(images, seed=1, train=12, validation=2, test=3, split=split)
        for split in (part, by_file, lists)
    ]
    for pools in found:
        assert whose(list(images.patients), pools.train) == {"c", "d", "e"}
        assert whose(list(images.patients), pools.validation) == {"b"}
        assert whose(list(images.patients), pools.test) == {"a"}
        assert [pool.tolist() for pool in pools] == [pool.tolist() for pool in found[0]]
    other = image_pools(images, seed=2, train=12, validation=2, test=3, split=part)
    assert other.test.tolist() == found[0].test.tolist()
    assert other.train.tolist() != found[0].train.tolist()
    with pytest.raises(KoriskError, match=r"test must be at most 4, .* got 5"):
        image_pools(images, seed=1, train=12, validation=2, test=5, split=part)


def test_a_patient_on_both_sides_of_a_given_split_is_named(images: ImageSet) -> None:
    asked: dict[str, Any] = {"seed": 1, "train": 1, "validation": 0, "test": 1}
    with pytest.raises(KoriskError, match=r"patient 'b' is in two parts.*b/x.npy.*b/y.npy"):
        image_pools(images, **asked, split={"b/x.npy": "train", "b/y.npy": "test"})
    with pytest.raises(KoriskError, match=r"a/x.npy is in two parts of the split, train"):
        image_pools(images, **asked, split={"train": ["a/x.npy"], "test": ["a/x.npy"]})
    with pytest.raises(KoriskError, match=r"names 1 files that were not read, the first is z.npy"):
        image_pools(images, **asked, split={"z.npy": "train"})
    with pytest.raises(KoriskError, match=r"must give train, validation, test or None.*'exam'"):
        image_pools(images, **asked, split={"a/x.npy": "exam"})
    with pytest.raises(KoriskError, match=r"must be a list of files, got 'a/x.npy'"):
        image_pools(images, **asked, split={"train": "a/x.npy"})

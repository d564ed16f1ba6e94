"""Every reader of users' files: sound examples of what it reads, and how they are made wrong."""

import json
import random
import tempfile
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import yaml

from benchmarks.quality.fuzz import images as examples
from benchmarks.quality.fuzz import mutations as mutations
from benchmarks.quality.fuzz import packed as packed
from benchmarks.quality.fuzz import tables as tables
from benchmarks.quality.fuzz.mutations import Mutation
from korisk.curves.curve import Curve
from korisk.errors import KoriskError, KoriskWarning
from korisk.theory import Composition, Known, Learned, Network, NormBracket

EXAMPLES = Path(__file__).parents[3] / "examples"
TINY = {
    "name": "tiny",
    "points": [{"name": "a", "side": 8, "views": 8, "bins": 12, "noise": {"gaussian": 0.1}}],
    "models": {"KO": {"refine": 0}, "FC": {"grid": [1e-3, 1.0]}},
    "pools": {"validation": 4, "test": 4},
    "sizes": [2, 4, 8],
    "seeds": [1],
}


@dataclass(frozen=True)
class Reader:
    """A reader, the name that its files have, sound files, and how they are changed."""

    name: str
    file: str
    seeds: Callable[[], list[bytes]]
    read: Callable[[Path], object]
    ways: tuple[Mutation, ...]
    needs: str = ""  # a library without which it reads nothing

    def make(self, rng: random.Random) -> bytes:
        """A file: one of the sound ones, most often changed."""
        content = rng.choice(self.seeds())
        if rng.random() < 0.02:
            return content
        made = rng.choice(self.ways)(rng, content)
        return mutations.bytes_changed(rng, made) if rng.random() < 0.1 else made


def refusal(reader: Reader, path: Path) -> KoriskError | None:
    """None where the file was read; the error where it was refused in words.

    Whatever else a reader raises is its fault, and is raised here: also a refusal that has several
    lines or does not say which file is meant.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", KoriskWarning)
            reader.read(path)
    except KoriskError as error:
        said = str(error)
        if "\n" in said or path.name not in said:
            raise AssertionError(
                f"a refusal must be one line that names the file: {said}"
            ) from error
        return error
    return None


# --- Texts ---------------------------------------------------------------------------------------


def _examples(pattern: str) -> Callable[[], list[bytes]]:
    @cache
    def found() -> list[bytes]:
        return [path.read_bytes() for path in sorted(EXAMPLES.glob(pattern))]

    return found


@cache
def _pilots() -> list[bytes]:
    return [*_examples("pilot_*.csv")(), *tables.kept(".csv", ".tsv", ".txt")()]


@cache
def _pilots_as_json() -> list[bytes]:
    curves = Curve.read_all(EXAMPLES / "pilot_h8.csv")
    records = [record for curve in curves for record in curve.records()]
    made = [json.dumps(records).encode(), json.dumps({"rows": records[:10]}).encode()]
    return [*made, *tables.kept(".json")()]


@cache
def _studies() -> list[bytes]:
    mri = {"kind": "mri", "noise": {"gaussian": 0.1}}
    heat = {"kind": "pde", "points": 16}
    others = [
        {"name": "m", "problem": mri, "points": [{"side": 8, "lines": 4}], "sizes": [2, 4]},
        {"name": "h", "problem": heat, "points": [{"assumed": 0.02}], "sizes": [2, 4]},
        {**TINY, "problem": {"images": {"path": "images", "patients": "image"}}},
    ]
    return [yaml.safe_dump(each).encode() for each in (TINY, *others)]


def _read_study(path: Path) -> None:
    from korisk.studies.spec.study import Study

    _put_images(path.parent / "images")
    Study.read(path)


def _ablations() -> list[bytes]:
    content = {**TINY, "models": {"networks": [{"kind": "inverse-cnn"}]}}
    content["ablation"] = {"replace": "A^T", "by": "wrong", "wrong": 0.05}
    return [yaml.safe_dump(content).encode()]


def _read_ablation(path: Path) -> None:
    from korisk.cli.ablate import read_ablation

    read_ablation(path)


def _read_geometry(path: Path) -> None:
    """A study of which `korisk rehearse` takes the geometry alone."""
    from korisk.prediction.study import study_to_rehearse

    _put_images(path.parent / "images")
    study_to_rehearse(path)


def _put_images(folder: Path) -> None:
    if not folder.exists():
        folder.mkdir()
        np.save(folder / "a.npy", np.random.default_rng(0).random((24, 8, 8)))


@cache
def _networks() -> list[bytes]:
    net = Network(
        [
            Known("P", lipschitz=NormBracket(0.9, 1.1, how="measured")),
            Learned("W", lipschitz=2.0, parameters=100, C=1.0, width=8.0, kappa=0.5),
            Known("B", lipschitz=1.0, mismatch=0.01),
        ],
        compositions=[Composition("P", "B", lipschitz=NormBracket(1.0, 1.5))],
        name="described",
    )
    return [*_examples("ct_h*_ko.yaml")(), yaml.safe_dump(net.to_dict()).encode()]


def _read_network(path: Path) -> None:
    Network.read(path).amplification()


@cache
def _predictions() -> list[bytes]:
    from korisk.prediction.record import prediction_content, write_prediction
    from korisk.prediction.study import Question, rehearse_study
    from korisk.studies.spec.study import Study

    (made,) = rehearse_study(Study(TINY))
    with tempfile.TemporaryDirectory() as folder:
        content = prediction_content("tiny", [made.to_dict(Question(targets=[1e-3], at=[64.0]))])
        signed = write_prediction(folder, content).read_bytes()
    return [signed]


def _read_prediction(path: Path) -> None:
    from korisk.prediction.record import read_prediction

    read_prediction(path)


def _finished() -> list[bytes]:
    import torch

    from korisk.prediction.rehearsal.trainings import Cell, Finished

    with tempfile.TemporaryDirectory() as folder:
        finished = Finished(folder)
        finished.write("n8.json", "U-Net", Cell(8, 0, "plain"), torch.linspace(0.1, 0.2, 9))
        return [(finished.folder / "n8.json").read_bytes()]


def _read_finished(path: Path) -> None:
    from korisk.prediction.rehearsal.trainings import read_finished

    read_finished(path)


# --- Stores --------------------------------------------------------------------------------------


@cache
def _stores() -> list[bytes]:

    from korisk.store.store import Store
    from korisk.studies.run.cells import run_cell
    from korisk.studies.run.engine import run_study
    from korisk.studies.spec.study import Study

    study = Study(TINY)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "study.db")
        with Store.create_or_open(path, study.content, tasks=study.tasks) as store:
            run_study(study.tasks, run_cell, store)
        return [path.read_bytes()]


def _read_store(path: Path) -> None:
    """All that `korisk report` and `export` read."""

    from korisk.report.contents import read_contents
    from korisk.store.store import Store
    from korisk.studies.results import csv_text, json_text, results_table

    contents = read_contents(path)
    assert contents.complete in (True, False)
    with Store.read(path) as store:
        table = results_table(store)
    csv_text(table)
    json_text(table)


# --- Images ---------------------------------------------------------------------------------------


def _read_images(path: Path) -> None:
    from korisk.images import read_images, relative

    images = read_images(path, side=8)
    assert relative(images).shape == (len(images), 8, 8)
    assert images.fingerprint
    assert images.summary()


def _read_patients(path: Path) -> None:
    from korisk.images.patients import checked_rule, patients_of

    table = checked_rule(path)
    assert isinstance(table, Mapping)
    assert len(patients_of(table, list(table), [None] * len(table))) == len(table)


def _read_list(path: Path) -> None:
    """The list of patients that lies beside a file of LoDoPaB-CT."""
    from korisk.images import read_images

    beside = path.with_name("ground_truth_train_000.hdf5")
    if not beside.exists():
        beside.write_bytes(examples.lodopab())
    assert 1 <= len(read_images(beside, side=8).patients) <= 3


# --- All -----------------------------------------------------------------------------------------


_TEXT = (mutations.text_changed, mutations.text_changed, mutations.bytes_changed)
_BINARY = (mutations.bytes_changed, mutations.near_start)
_PNG = (packed.png_mended, packed.png_mended, *_BINARY)
_ZIP = (packed.zip_packed_again, packed.zip_mended, *_BINARY)
_SHEETS = (tables.sheet_changed, tables.sheet_changed, tables.sheet_changed, *_ZIP)
_STORE = (mutations.store_changed, mutations.store_changed, *_BINARY)
_YAML = (mutations.yaml_changed, mutations.yaml_changed, *_TEXT)
_JSON = (mutations.json_changed, mutations.json_changed, *_TEXT)
_SIGNED = (mutations.signed_json_changed, mutations.signed_json_changed, *_JSON)

READERS = {
    reader.name: reader
    for reader in (
        Reader("csv", "pilot.csv", _pilots, Curve.read_all, _TEXT),
        Reader("json", "pilot.json", _pilots_as_json, Curve.read_all, _JSON),
        Reader("jsonl", "runs.jsonl", tables.kept(".jsonl"), Curve.read_all, _TEXT),
        Reader(
            *("xlsx", "pilot.xlsx", tables.kept(".xlsx"), Curve.read_all, _SHEETS),
            needs="python_calamine",
        ),
        Reader("frame", "frame.json", tables.frames, tables.read_frame, _JSON),
        Reader("pilots", "pilot.db", tables.pilots, Curve.read_all, _STORE),
        Reader("network", "net.yaml", _networks, _read_network, _YAML),
        Reader("study", "study.yaml", _studies, _read_study, _YAML),
        Reader("ablation", "ablation.yaml", _ablations, _read_ablation, _YAML),
        Reader("geometry", "geometry.yaml", _studies, _read_geometry, _YAML),
        Reader("prediction", "prediction.json", _predictions, _read_prediction, _SIGNED),
        Reader("finished", "n8.json", _finished, _read_finished, _JSON),
        Reader("store", "study.db", _stores, _read_store, _STORE),
        Reader("npy", "image.npy", examples.npy, _read_images, _BINARY),
        Reader("npz", "image.npz", examples.npz, _read_images, _ZIP),
        Reader("png", "image.png", examples.png, _read_images, _PNG),
        Reader("tiff", "image.tif", examples.tiff, _read_images, _BINARY),
        Reader("dicom", "image.dcm", examples.dicom, _read_images, _BINARY),
        Reader("hdf5", "image.h5", examples.hdf5, _read_images, _BINARY),
        Reader("patients", "patients.csv", examples.patients, _read_patients, _TEXT),
        Reader("lodopab", "patient_ids_rand_train.csv", examples.listed, _read_list, _TEXT),
    )
}

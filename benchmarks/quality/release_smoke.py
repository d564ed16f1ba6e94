"""What an installed korisk does, and how it refuses what was left out.

    cd FOLDER && ENVIRONMENT/bin/python release_smoke.py VERSION [EXTRA ...]

benchmarks/quality/release.py runs it, in a folder with a copy of examples/. The extras named must
give what they promise; each of the others must be refused in one line that names it. Besides korisk
and what an extra brings only the standard library is used. Prints a line for each thing that was
tried.
"""

import json
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from zipfile import ZipFile

PILOT = "examples/pilot_h8.csv"
STUDY = """\
name: tiny
problem: {beam: surrogate}
points: [{side: 8}]
sizes: [4, 8]
seeds: [1]
"""


def korisk(*arguments: str, code: int = 0) -> str:
    """What the command prints; it must leave with `code`, and never with a traceback."""
    command = [str(Path(sys.executable).with_name("korisk")), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    shown = f"korisk {' '.join(arguments)}: exit code {done.returncode}, {done.stderr.strip()}"
    assert done.returncode == code, shown
    assert "Traceback" not in done.stderr, shown
    return done.stdout if code == 0 else done.stderr


def refusal(message: str, extra: str) -> str:
    """The message, which must be one line that names the extra."""
    line = message.strip()
    assert "\n" not in line, line
    assert f"pip install 'korisk[{extra}]'" in line, line
    return line


def refused_call(extra: str, call: Callable[[], object]) -> str:
    """The same for a call in Python."""
    from korisk.errors import MissingExtraError

    try:
        call()
    except MissingExtraError as error:
        return refusal(str(error), extra)
    raise AssertionError(f"{call} went through without korisk[{extra}]")


def core(version: str) -> str:
    """Import, version, and the commands that need nothing else."""
    import korisk as kr

    home = Path(kr.__file__).parent
    assert home.is_relative_to(sys.prefix), f"korisk comes from {home}, not from this environment"
    assert (home / "py.typed").is_file()
    assert kr.__version__ == version
    assert korisk("--version").split() == ["korisk", version]
    told = json.loads(korisk("plan", PILOT, "--model", "FC", "--target", "0.003", "--json"))
    plan = kr.plan(kr.Curve.read(PILOT, model="FC"), target=0.003)
    assert told["plans"][0]["recommendation"]["n"] == plan.samples()
    assert "composed" in korisk("bound", "examples/ct_h128_ko.yaml")
    assert "ratio" in korisk("compare", PILOT, "--target", "0.006")
    assert "FC" in korisk("reproduce", "--published")
    return f"import, --version, plan (N = {plan.samples()}), bound, compare, published"


def report() -> str:
    """A figure and a page."""
    korisk(
        "plan", PILOT, "--model", "FC", "--target", "0.003", "--plot", "p.png", "--html", "p.html"
    )
    assert Path("p.png").read_bytes().startswith(b"\x89PNG")
    assert "</html>" in Path("p.html").read_text(encoding="utf-8")
    return "a figure as PNG, a page as HTML"


def no_report() -> str:
    """How a figure is refused."""
    asked = ("plan", PILOT, "--model", "FC", "--target", "0.003", "--plot", "refused.png")
    return refusal(korisk(*asked, code=2), "report")


def torch() -> str:
    """An operator and its adjoint: <A x, y> = <x, A^T y>."""
    import torch as pytorch

    from korisk.operators import ParallelBeam, Projector

    operator = Projector(ParallelBeam(16, views=12, bins=16)).double()
    x = pytorch.rand(16, 16, dtype=pytorch.float64)
    y = pytorch.rand(12, 16, dtype=pytorch.float64)
    one, other = float((operator(x) * y).sum()), float((x * operator.T(y)).sum())
    assert abs(one - other) <= 1e-10 * abs(one), (one, other)
    Path("tiny.yaml").write_text(STUDY, encoding="utf-8")
    korisk("run", "tiny.yaml", "--out", "local", "--workers", "1")
    return "a projector's adjoint, a study of one cell"


def no_torch() -> str:
    """How a PyTorch module is refused."""
    return refusal(korisk("bound", "--network", "networks.py:unet", code=2), "torch")


def fit(n: int, seed: int) -> float:
    """A training function that needs nothing."""
    return (1 + 0.01 * seed) / n


def dask() -> str:
    """A pilot on a cluster of one worker, and a study where PyTorch is there, too."""
    import korisk as kr
    from korisk.studies.run.clusters import joined_cluster

    distributed: Any = import_module("distributed")  # which is not typed
    one_worker = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with (
        distributed.LocalCluster(**one_worker) as local,
        joined_cluster(local.scheduler_address) as cluster,
    ):
        pilot = kr.run_pilot(fit, [16, 64], 1, compute=kr.pilots.Compute(cluster=cluster))
    assert pilot.curve.error.tolist() == [fit(16, 0), fit(64, 0)]
    if not Path("tiny.yaml").exists():  # made where PyTorch is
        return "a pilot on a Dask cluster"
    with distributed.LocalCluster(**one_worker) as local:
        korisk("run", "tiny.yaml", "--out", "dask", "--scheduler", local.scheduler_address)
    one, other = (korisk("export", folder, "--metric", "mse") for folder in ("dask", "local"))
    assert one == other, f"{one} on the cluster, {other} without"
    return "a pilot and a study on a Dask cluster, the study's figures as without one"


def no_dask() -> str:
    """How a cluster is refused."""
    from korisk.studies.run.clusters import joined_cluster

    return refused_call("dask", lambda: joined_cluster("tcp://127.0.0.1:1").__enter__())


def io() -> str:
    """A workbook; and images of every format where PyTorch is there, too."""
    import korisk as kr

    assert kr.Curve.read(workbook()).n.tolist() == [4, 8, 16]
    if not Path("tiny.yaml").exists():
        return "a table as a workbook"
    return f"a table as a workbook, images as {', '.join(images())}"


def workbook() -> Path:
    """The columns n and error of three sizes, as Excel saves them."""
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    packages = "http://schemas.openxmlformats.org/package/2006"
    main = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'

    def links(kind: str, target: str) -> str:
        link = f'<Relationship Id="r1" Type="{office}/{kind}" Target="{target}"/>'
        return f'<Relationships xmlns="{packages}/relationships">{link}</Relationships>'

    def cell(place: str, value: float | str) -> str:
        if isinstance(value, str):
            return f'<c r="{place}" t="inlineStr"><is><t>{value}</t></is></c>'
        return f'<c r="{place}"><v>{value}</v></c>'

    rows: list[tuple[float | str, float | str]] = [("n", "error"), (4, 0.5), (8, 0.4), (16, 0.3)]
    body = "".join(
        f'<row r="{k}">{cell(f"A{k}", n)}{cell(f"B{k}", error)}</row>'
        for k, (n, error) in enumerate(rows, start=1)
    )
    sheets = '<sheets><sheet name="one" sheetId="1" r:id="r1"/></sheets>'
    types = f'<Types xmlns="{packages}/content-types"/>'
    files = {
        "[Content_Types].xml": types,
        "_rels/.rels": links("officeDocument", "xl/workbook.xml"),
        "xl/_rels/workbook.xml.rels": links("worksheet", "one.xml"),
        "xl/workbook.xml": f'<workbook {main} xmlns:r="{office}">{sheets}</workbook>',
        "xl/one.xml": f"<worksheet {main}><sheetData>{body}</sheetData></worksheet>",
    }
    path = Path("table.xlsx")
    with ZipFile(path, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def images() -> list[str]:
    """Writes the same 8 x 8 image in each format, and reads it back."""
    import numpy as np

    from korisk.images import read_images, relative

    values = np.arange(64, dtype=np.uint16).reshape(8, 8)
    writers: dict[str, Callable[[Path, Any], None]] = {
        "h5": _write_hdf5,
        "tif": _write_tiff,
        "png": _write_png,
        "dcm": _write_dicom,
    }
    for suffix, write in writers.items():
        path = Path(f"image.{suffix}")
        write(path, values)
        found = relative(read_images(path, unit=None if suffix == "dcm" else "plain"))
        assert np.corrcoef(np.ravel(found), values.ravel())[0, 1] > 1 - 1e-6, suffix
    return list(writers)


def _write_hdf5(path: Path, values: Any) -> None:
    import h5py  # type: ignore[import-untyped]

    with h5py.File(path, "w") as file:
        file["data"] = values


def _write_tiff(path: Path, values: Any) -> None:
    import tifffile

    tifffile.imwrite(path, values)


def _write_png(path: Path, values: Any) -> None:
    from PIL import Image

    Image.fromarray(values.astype("uint8")).save(path)


def _write_dicom(path: Path, values: Any) -> None:
    from pydicom.dataset import Dataset, FileMetaDataset
    from pydicom.uid import CTImageStorage, ExplicitVRLittleEndian, generate_uid

    slice_ = Dataset()
    slice_.file_meta = FileMetaDataset()
    slice_.file_meta.TransferSyntaxUID = ExplicitVRLittleEndian
    slice_.file_meta.MediaStorageSOPClassUID = slice_.SOPClassUID = CTImageStorage
    slice_.file_meta.MediaStorageSOPInstanceUID = slice_.SOPInstanceUID = generate_uid()
    slice_.Modality, slice_.PatientID = "CT", "one"
    slice_.Rows, slice_.Columns = values.shape
    slice_.SamplesPerPixel, slice_.PhotometricInterpretation = 1, "MONOCHROME2"
    slice_.BitsAllocated, slice_.BitsStored, slice_.HighBit = 16, 16, 15
    slice_.PixelRepresentation, slice_.PixelSpacing = 0, [1.0, 1.0]
    slice_.RescaleSlope, slice_.RescaleIntercept = 1, -1000
    slice_.PixelData = values.tobytes()
    slice_.save_as(path, enforce_file_format=True)


def no_io() -> str:
    """How a workbook is refused."""
    import korisk as kr

    return refused_call("io", lambda: kr.Curve.read(workbook()))


def mri() -> str:
    """A radial scan of one pixel, whose samples all have the same size."""
    import torch as pytorch

    from korisk.operators import Nufft, radial

    operator = Nufft((8, 8), radial(8), real=True, dtype=pytorch.float64)
    image = pytorch.zeros(8, 8, dtype=pytorch.float64)
    image[2, 5] = 8.0
    sizes = operator(image).norm(dim=-1)
    assert float((sizes - 1).abs().max()) <= operator.tolerance, sizes
    return "a radial scan of one pixel"


def no_mri() -> str:
    """How a trajectory is refused, where PyTorch is there."""
    if find_spec("torch") is None:
        return "nor PyTorch, which it needs"
    from korisk.operators import Nufft, radial

    return refused_call("mri", lambda: Nufft((8, 8), radial(8)))


EXTRAS = {
    "report": (report, no_report),
    "torch": (torch, no_torch),
    "dask": (dask, no_dask),
    "io": (io, no_io),
    "mri": (mri, no_mri),
}


def main() -> None:
    """Try the core, then each extra, given or refused."""
    version, *extras = sys.argv[1:]
    print(f"core: {core(version)}")
    for name, (given, refused) in EXTRAS.items():
        if name in extras:
            print(f"{name}: {given()}")
        else:
            print(f"without {name}: {refused()}")


if __name__ == "__main__":
    main()

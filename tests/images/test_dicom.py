"""DICOM in physical units, against values worked out from the tags."""

from pathlib import Path
from typing import Any

import numpy as np
import pydicom
import pytest
from numpy.typing import NDArray
from pydicom.data import get_testdata_file
from pydicom.dataset import Dataset
from pydicom.pixels.decoders.base import get_decoder
from pydicom.sequence import Sequence
from pydicom.uid import JPEGLSLossless

from korisk.errors import KoriskError, KoriskWarning
from korisk.images import read_images, relative


def bundled(name: str) -> Path:
    """A file that comes with pydicom; none is fetched."""
    path = get_testdata_file(name, download=False)
    assert isinstance(path, str)
    return Path(path)


def ct(values: NDArray[Any] | None = None, **tags: Any) -> Dataset:
    """pydicom's CT slice with other pixels and tags; None takes a tag away."""
    dataset: Dataset = pydicom.dcmread(bundled("CT_small.dcm"))
    if values is not None:
        dataset.Rows, dataset.Columns = values.shape[-2:]
        if values.ndim == 3:
            dataset.NumberOfFrames = len(values)
        dataset.PixelRepresentation = int(values.dtype.kind == "i")
        dataset.BitsAllocated = dataset.BitsStored = 8 * values.dtype.itemsize
        dataset.HighBit = dataset.BitsStored - 1
        dataset.PixelData = values.tobytes()
        dataset["PixelData"].VR = "OW"
        for name in ("SmallestImagePixelValue", "LargestImagePixelValue"):
            if name in dataset:
                del dataset[name]
    for name, value in tags.items():
        if value is None:
            if name in dataset:
                del dataset[name]
        else:
            setattr(dataset, name, value)
    return dataset


def saved(folder: Path, dataset: Dataset, name: str = "a.dcm") -> Path:
    dataset.save_as(folder / name)
    return folder / name


SIGNED = np.array([[-2000, -1500, 24], [1024, 1040, 3000]], dtype=np.int16)


def test_the_bundled_slice_is_in_physical_units() -> None:
    # Worked out by hand from the tags: 128 x 128 little-endian int16, HU = value - 1024.
    dataset = pydicom.dcmread(bundled("CT_small.dcm"))
    stored = np.frombuffer(dataset.PixelData, dtype="<i2").astype(float).reshape(128, 128)
    assert (float(dataset.RescaleSlope), float(dataset.RescaleIntercept)) == (1, -1024)
    assert (stored.min(), stored.max()) == (128, 2191)
    images = read_images(bundled("CT_small.dcm"))
    assert images.unit == "1/mm"
    assert images.images.shape == (1, 128, 128)
    np.testing.assert_allclose(images[0], 0.0192 * (1 + (stored - 1024) / 1000), rtol=1e-6)
    assert images.images.min() == pytest.approx(0.0192 * (1 - 0.896), rel=1e-6)
    assert images.images.max() == pytest.approx(0.0192 * (1 + 1.167), rel=1e-6)
    assert relative(images).max() == pytest.approx(2.167, rel=1e-6)
    assert images.spacing == (0.661468, 0.661468)
    assert images.patients == ("1CT1",)
    small = read_images(bundled("CT_small.dcm"), side=50)
    assert small.spacing == pytest.approx((0.661468 * 128 / 50,) * 2)
    assert small.images.mean() == pytest.approx(images.images.mean(), rel=1e-6)


def test_slope_padding_and_air(tmp_path: Path) -> None:
    padded = saved(tmp_path, ct(SIGNED, RescaleSlope=2, RescaleIntercept=-1000))
    expected = 2 * SIGNED.astype(float) - 1000
    expected[0, :2] = -1000  # -2000 is PixelPaddingValue, -1500 lies below air
    np.testing.assert_allclose(
        read_images(padded, crop="none").images[0], 0.0192 * (1 + expected / 1000), rtol=1e-6
    )
    several = ct(SIGNED, PixelPaddingValue=24)
    several.add_new("PixelPaddingRangeLimit", "SS", 1030)
    path = saved(tmp_path, several)
    assert (read_images(path, crop="none").images[0] > 0).tolist() == [
        [False] * 3,
        [False, True, True],
    ]
    unsigned = ct(SIGNED + np.int16(2000), PixelPaddingValue=3024)
    path = saved(tmp_path, unsigned)
    assert read_images(path, crop="none").images[0, 1, 0] == 0
    misread = ct(SIGNED, RescaleIntercept=3000, PixelPaddingValue=None)
    misread.add_new("PixelPaddingValue", "US", 2**16 - 2000)
    path = saved(tmp_path, misread)
    assert read_images(path, crop="none").images[0, 0].tolist()[0] == 0


def test_frames_have_their_own_rescaling(tmp_path: Path) -> None:
    frames = np.stack([SIGNED, SIGNED + np.int16(5)])
    dataset = ct(frames, RescaleSlope=None, RescaleIntercept=None, PixelSpacing=None)
    dataset.PixelPaddingValue = -3000
    groups = []
    for intercept in (-1024, 0):
        values, group = Dataset(), Dataset()
        values.RescaleSlope, values.RescaleIntercept, values.RescaleType = 1, intercept, "HU"
        group.PixelValueTransformationSequence = Sequence([values])
        groups.append(group)
    measures, shared = Dataset(), Dataset()
    measures.PixelSpacing = [0.5, 0.25]
    shared.PixelMeasuresSequence = Sequence([measures])
    dataset.PerFrameFunctionalGroupsSequence = Sequence(groups)
    dataset.SharedFunctionalGroupsSequence = Sequence([shared])
    images = read_images(saved(tmp_path, dataset), crop="none")
    units = frames + np.array([-1024.0, 0])[:, None, None]
    expected = np.clip(0.0192 * (1 + units / 1000), 0, None)
    np.testing.assert_allclose(images.images, expected, rtol=1e-6)
    assert images.files == ("a.dcm#0", "a.dcm#1")
    assert images.spacing == (0.5, 0.25)


def test_dicom_is_known_by_content_and_by_patients(tmp_path: Path) -> None:
    saved(tmp_path, ct(SIGNED), "IM000001")
    saved(tmp_path, ct(SIGNED + np.int16(1), PatientID=" 7 "), "1.2.840.5")
    saved(tmp_path, ct(SIGNED + np.int16(2), PatientID=""), "c")
    saved(tmp_path, ct(SIGNED + np.int16(3)), "DICOMDIR")
    saved(tmp_path, ct(SIGNED, ImageType=["ORIGINAL", "PRIMARY", "LOCALIZER"]), "scout.dcm")
    saved(tmp_path, ct(Rows=None, PixelData=None, Modality="RTSTRUCT"), "plan.dcm")
    (tmp_path / "README").write_text("no image")
    images = read_images(tmp_path, crop="none")
    assert images.files == ("1.2.840.5", "IM000001", "c")
    assert images.patients == ("7", "1CT1", ".")
    assert [each.file for each in images.skipped] == ["plan.dcm", "scout.dcm"]
    with pytest.raises(
        KoriskError, match=r"plan.dcm: is a DICOM file without an image \(modality RTSTRUCT"
    ):
        read_images(tmp_path / "plan.dcm")


def test_values_that_are_no_hounsfield_units_are_plain_and_told(tmp_path: Path) -> None:
    stored = pydicom.dcmread(bundled("MR_small.dcm")).pixel_array
    with pytest.warns(KoriskWarning, match=r"without Hounsfield units \(modality MR\) in 1 image,"):
        images = read_images(bundled("MR_small.dcm"))
    np.testing.assert_allclose(images[0], stored / 32767, rtol=1e-6)
    assert images.unit == "plain"
    read_images(bundled("MR_small.dcm"), unit="plain")
    rescaled = ct(abs(SIGNED), Modality="PT", RescaleType="BQML", RescaleSlope=3)
    rescaled.RescaleIntercept = 0
    path = saved(tmp_path, rescaled)
    with pytest.raises(KoriskError, match=r"a.dcm: .*rescaled ones, .*give scale="):
        read_images(path, crop="none", unit="plain")
    other = saved(tmp_path, ct(abs(SIGNED), RescaleType="US", RescaleIntercept=0))
    with pytest.warns(KoriskWarning, match="modality CT, values in US"):
        assert read_images(other, crop="none", scale=3000).unit == "plain"


def test_white_may_be_zero(tmp_path: Path) -> None:
    values = np.array([[0, 1000], [3000, 4095]], dtype=np.uint16)
    tags = {"Modality": "CR", "PhotometricInterpretation": "MONOCHROME1", "BitsStored": 12}
    path = saved(tmp_path, ct(values, **tags, RescaleSlope=None, PixelPaddingValue=None))
    np.testing.assert_allclose(
        read_images(path, unit="plain")[0], (4095.0 - values) / 4095, rtol=1e-6
    )
    units = saved(tmp_path, ct(SIGNED, PhotometricInterpretation="MONOCHROME1"))
    usual = saved(tmp_path, ct(SIGNED), "b.dcm")
    one, other = read_images(units, crop="none"), read_images(usual, crop="none")
    np.testing.assert_array_equal(one.images, other.images)


def test_other_transfer_syntaxes_give_the_same_image() -> None:
    plain = read_images(bundled("MR_small.dcm"), unit="plain")
    for name in ("MR_small_RLE.dcm", "MR_small_bigendian.dcm"):
        np.testing.assert_array_equal(read_images(bundled(name), unit="plain").images, plain.images)


def test_compression_without_a_codec_that_reads_it_names_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(get_decoder(JPEGLSLossless), "_available", {})  # as where none is installed
    words = r"as JPEG-LS Lossless.*1.2.840.10008.1.2.4.80.*no .*decoder.*pip install.*gdcmconv"
    with pytest.raises(KoriskError, match=words):
        read_images(bundled("MR_small_jpeg_ls_lossless.dcm"))
    whole = pydicom.dcmread(bundled("MR_small_RLE.dcm"))
    whole.PixelData = whole.PixelData[:60] + bytes(len(whole.PixelData) - 60)
    path = saved(tmp_path, whole)
    with pytest.raises(KoriskError, match=r"^a.dcm: is compressed as RLE .*no installed decoder"):
        read_images(path, unit="plain")
    with pytest.raises(KoriskError, match=r"MR_truncated.dcm: cannot be read: ValueError"):
        read_images(bundled("MR_truncated.dcm"))


def test_incomplete_headers_are_refused(tmp_path: Path) -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"RescaleSlope": None}, "CT image without RescaleSlope"),
        ({"RescaleSlope": 0}, "the first not 0, got .*0"),
        ({"PixelData": None}, "has a header and no pixels"),
        ({"PhotometricInterpretation": "PALETTE COLOR"}, "holds colours"),
        ({"NumberOfFrames": 3}, "cannot be read"),
    ]
    for tags, reason in wrong:
        path = saved(tmp_path, ct(SIGNED, **tags))
        with pytest.raises(KoriskError, match=f"a.dcm: .*{reason}"):
            read_images(path, crop="none")
    empty = saved(tmp_path, ct(SIGNED, NumberOfFrames=0))  # an empty count means one
    assert len(read_images(empty, crop="none")) == 1

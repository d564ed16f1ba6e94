"""Reading images: formats, units, sizes, folders, and files that cannot be read."""

import os
import pickle
import runpy
import sys
from pathlib import Path
from typing import Any

import h5py  # type: ignore[import-untyped]
import numpy as np
import pytest
import tifffile
from numpy.typing import NDArray
from PIL import Image

from korisk.errors import KoriskError, KoriskWarning, MissingExtraError
from korisk.images import ImageSet, read_images, relative
from korisk.images.formats import page as image_page

RNG = np.random.default_rng(7)


def picture(*shape: int) -> NDArray[np.float64]:
    return RNG.uniform(0.1, 1, shape or (6, 6))


def integers(dtype: Any, low: int, high: int, shape: tuple[int, ...] = (6, 6)) -> NDArray[Any]:
    values = RNG.integers(low, high, shape).astype(dtype)
    values.flat[0], values.flat[1] = low, high
    return values


def refused(reason: str, source: Any, **options: Any) -> None:
    """Reading is refused in one line that has the reason in it."""
    with pytest.raises(KoriskError, match=reason) as caught:
        read_images(source, **options)
    assert "\n" not in str(caught.value)


def test_numpy_files_are_images_or_stacks(tmp_path: Path) -> None:
    one, stack = picture(), picture(3, 6, 6)
    np.save(tmp_path / "a.npy", one)
    np.save(tmp_path / "b.NPY", np.asfortranarray(stack))
    os.rename(tmp_path / "b.NPY.npy", tmp_path / "b.NPY")  # noqa: PTH104
    np.savez_compressed(tmp_path / "c.npz", only=stack)
    images = read_images(tmp_path)
    assert images.files == ("a.npy", *(f"{n}#{i}" for n in ("b.NPY", "c.npz") for i in range(3)))
    np.testing.assert_array_equal(images.images, np.array([one, *stack, *stack], np.float32))
    assert images.images.dtype == np.float32
    assert (images.unit, images.spacing, images.skipped) == ("plain", None, ())
    assert len(images) == 7


def test_pictures_are_fractions_of_their_types_maximum(tmp_path: Path) -> None:
    eight, sixteen = integers(np.uint8, 0, 255), integers(np.uint16, 0, 65535)
    signed, bits = integers(np.int16, 0, 32767), integers(bool, 0, 1)
    Image.fromarray(eight).save(tmp_path / "a.png")
    Image.fromarray(sixteen).save(tmp_path / "b.png")
    Image.fromarray(np.stack([eight] * 3, axis=-1)).save(tmp_path / "c.png")  # grey, as colours
    Image.fromarray(bits).save(tmp_path / "d.png")
    tifffile.imwrite(tmp_path / "e.tif", signed)
    tifffile.imwrite(tmp_path / "f.tiff", sixteen, compression="zlib")
    tifffile.imwrite(tmp_path / "g.tif", eight, photometric="miniswhite")
    tifffile.imwrite(tmp_path / "h.tif", (eight / 255).astype(np.float32))
    images = read_images(tmp_path)
    expected = [eight / 255, sixteen / 65535, eight / 255, bits, signed / 32767, sixteen / 65535]
    expected += [1 - eight / 255, eight / 255]
    np.testing.assert_allclose(images.images, np.array(expected), atol=1e-7)
    np.testing.assert_array_equal(relative(images), images.images)
    assert relative(images).flags.writeable
    words = images.summary()
    for scaling in ("divided by 255", "divided by 32767", "divided by 65535", "as they are"):
        assert scaling in words


def test_pages_of_a_tiff_are_images_and_previews_are_none(tmp_path: Path) -> None:
    pages = integers(np.uint16, 0, 4095, (4, 6, 6))
    with tifffile.TiffWriter(tmp_path / "pages.tif") as writer:
        for page in pages:
            writer.write(page, contiguous=False)
        writer.write(pages[0][::2, ::2], subfiletype=1)
    tifffile.imwrite(tmp_path / "volume.tif", pages, imagej=True, truncate=True)  # one header
    images = read_images(tmp_path, scale=4095)
    np.testing.assert_allclose(images.images, np.concatenate([pages, pages]) / 4095, atol=1e-7)
    assert images.files[3] == "pages.tif#3"
    assert "divided by 4095" in images.summary()


def test_signed_sixteen_bits_are_hounsfield_units_where_one_says_so(tmp_path: Path) -> None:
    values = integers(np.int16, -2000, 3000)
    tifffile.imwrite(tmp_path / "slice.tif", values)
    refused(r"slice.tif: has values below 0 .* -2000.*unit='HU'", tmp_path)
    images = read_images(tmp_path, unit="HU", mu_water=0.02)
    expected = np.where(values < -1000, 0, 0.02 * (1 + values / 1000.0))
    np.testing.assert_allclose(images.images[0], expected, rtol=1e-6)
    np.testing.assert_allclose(relative(images)[0], expected / 0.02, rtol=1e-6)
    assert images.unit == "1/mm"
    np.save(tmp_path / "a.npy", values / 2000)
    factors: dict[Any, float] = {"1/mm": 1.0, "1/cm": 0.1, "1/m": 0.001}
    for unit, factor in factors.items():
        images = read_images(tmp_path / "a.npy", unit=unit)
        expected = np.clip(values / 2000, 0, None) * factor
        np.testing.assert_allclose(images.images[0], expected, rtol=1e-6)


def test_hdf5_datasets_are_found_or_named(tmp_path: Path) -> None:
    stack, one = picture(3, 6, 6), picture()
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["group/images"] = stack
        file["weights"] = np.arange(5.0)
    with h5py.File(tmp_path / "b.hdf5", "w") as file:
        file["one"], file["two"] = one, stack
    np.testing.assert_array_equal(read_images(tmp_path / "a.h5").images, np.float32(stack))
    refused(r"b.hdf5: must hold one dataset.*got 2 \(/one, /two\)", tmp_path / "b.hdf5")
    named = read_images([f"{tmp_path}/b.hdf5:/one", f"{tmp_path}/b.hdf5:/two"])
    np.testing.assert_array_equal(named.images, np.array([one, *stack], np.float32))
    refused(r"has no dataset '/on'; did you mean '/one'", f"{tmp_path}/b.hdf5:/on")
    with h5py.File(tmp_path / "sparse.h5", "w") as file:  # 3 MB of chunks that were never written
        file.create_dataset("x", (100_000, 4096, 4096), "f4", chunks=(1, 512, 512))
        file["x"][7, :512, :512] = 1.0
    refused("sparse.h5: says that it has 100,000 x 4,096 x 4,096", tmp_path / "sparse.h5")
    np.savez(tmp_path / "c.npz", one=one, two=stack)
    refused(r"c.npz: must hold one array, got 2 \(one, two\)", tmp_path / "c.npz")
    refused(r"has no array 'tow'; did you mean 'two'", f"{tmp_path}/c.npz:tow")
    np.save(tmp_path / "d.npy", one)
    refused(r"d.npy: has no members such as 'one'", f"{tmp_path}/d.npy:one")
    np.testing.assert_array_equal(read_images(f"{tmp_path}/c.npz:one").images[0], np.float32(one))


def test_lodopab_has_attenuation_and_patients(tmp_path: Path) -> None:
    # mu_max of its paper: 3071 HU between air (0.02 1/m) and water (20 1/m).
    mu_max = 3071 * (20 - 0.02) / 1000 + 20
    data = picture(7, 10, 10).astype(np.float32)
    folder = tmp_path / "ground_truth_train"
    folder.mkdir()
    for number, part in enumerate((data[:3], data[3:6], data[6:])):
        with h5py.File(folder / f"ground_truth_train_{number:03}.hdf5", "w") as file:
            filled = np.concatenate([part, np.zeros((3 - len(part), 10, 10), np.float32)])
            file["data"] = filled
    with h5py.File(tmp_path / "observation_train_000.hdf5", "w") as file:
        file["data"] = picture(3, 5, 9)
    ids = ["12", "7", "12", "12", "3", "7", "3"]
    (tmp_path / "patient_ids_rand_train.csv").write_text("\n".join(ids) + "\n")
    images = read_images(tmp_path)
    np.testing.assert_allclose(images.images, data * mu_max / 1000, rtol=1e-6)
    assert images.patients == tuple(ids)
    assert images.unit == "1/mm"
    assert images.spacing == (26.0, 26.0)
    assert [each.file for each in images.skipped] == ["observation_train_000.hdf5"]
    half = read_images(tmp_path, side=5)
    assert half.spacing == (52.0, 52.0)
    (tmp_path / "patient_ids_rand_train.csv").write_text("\n".join(ids[:5]))
    refused(r"one whole number a slice, from line 7 on .* got 5", tmp_path)
    (tmp_path / "patient_ids_rand_train.csv").unlink()
    with pytest.warns(KoriskWarning, match="2 blank images"):
        assert set(read_images(folder).patients) == {"."}


def test_mixed_sizes_are_named_or_brought_to_one(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", picture(8, 8))
    np.save(tmp_path / "b.npy", picture(4, 4))
    np.save(tmp_path / "c.npy", picture(8, 12))
    refused(r"8 x 8 plain in 2 images such as a.npy; 4 x 4 .*give side=", tmp_path)
    images = read_images(tmp_path, side=4)
    stored = np.load(tmp_path / "c.npy")[:, 2:10]
    np.testing.assert_allclose(images[2], stored.reshape(4, 2, 4, 2).mean(axis=(1, 3)), rtol=1e-6)
    padded = read_images(tmp_path / "c.npy", side=12, crop="pad")
    np.testing.assert_array_equal(padded[0][2:10], np.float32(np.load(tmp_path / "c.npy")))
    assert padded[0][[0, 1, 10, 11]].max() == 0
    refused(r"c.npy: is 8 x 12 and would be distorted to 4 x 4", tmp_path, side=4, crop="none")
    curved = read_images(tmp_path, side=64, resample="spline").images
    assert curved.min() >= 0


def test_mixed_units_are_refused(tmp_path: Path) -> None:
    attenuation = tmp_path / "ground_truth_test_000.hdf5"
    with h5py.File(attenuation, "w") as file:
        file["data"] = picture(1, 6, 6)
    np.save(tmp_path / "a.npy", picture())
    refused(r"one unit, got 6 x 6 plain in 1 .* a.npy; 6 x 6 1/mm in 1 .*unit=", tmp_path)
    refused(r"in 1/mm, which contradicts unit='HU'", attenuation, unit="HU")
    refused("holds attenuation, and scale=2 is for plain values", attenuation, scale=2)
    assert read_images(tmp_path, unit="1/mm").unit == "1/mm"


def test_a_corrupt_file_among_many_is_named_or_left_out(tmp_path: Path) -> None:
    for number in range(100):
        folder = tmp_path / f"p{number // 10}"
        folder.mkdir(exist_ok=True)
        np.save(folder / f"{number}.npy", RNG.random((2, 2)))
    broken = tmp_path / "p3" / "31.npy"
    broken.write_bytes(broken.read_bytes()[:-5])
    refused(r"^p3/31.npy: is not a complete .npy file.*on_error='skip'", tmp_path)
    with pytest.warns(KoriskWarning, match=r"left out what cannot be read: 1, p3/31.npy \(is not"):
        images = read_images(tmp_path, on_error="skip")
    assert [each.file for each in images.skipped] == ["p3/31.npy"]
    assert "Left out: 1, p3/31.npy" in images.summary()
    assert "99 images of 2 x 2 pixels from 10 patients (9 to 10 each)" in images.summary()


def test_broken_files_of_every_kind_are_named_in_one_line(tmp_path: Path) -> None:
    png = b"\x89PNG\r\n\x1a\n"
    broken = {
        "a.npy": (b"", "is empty"),
        "b.npy": (b"\x93NUMPY" + bytes(20), "not a complete .npy file"),
        "c.npy": (pickle.dumps([1]), "not a complete .npy file"),
        "d.npz": (b"PK\x03\x04 nothing", "BadZipFile"),
        "e.png": (b"GIF89a" + bytes(40), "is not a PNG file"),
        "f.png": (png + bytes(4) + b"IHDR" + bytes([0, 0, 0, 6] * 2 + [8, 0]), "cannot be read"),
        "g.tif": (b"II*\x00" + bytes(30), "cannot be read"),
        "h.dcm": (bytes(200), "has no DICOM header"),
        "i.dcm": (bytes(128) + b"DICM" + b"\xff" * 50, "(cannot be read|without an image)"),
        "j.h5": (b"\x89HDF\r\n\x1a\n" + bytes(20), "cannot be read"),
    }
    for name, (content, reason) in broken.items():
        (tmp_path / name).write_bytes(content)
        refused(f"^{name}: .*{reason}", tmp_path / name)


def test_arrays_that_are_no_images_are_named(tmp_path: Path) -> None:
    spoiled = picture()
    spoiled[2, 3] = np.nan
    odd: list[tuple[NDArray[Any], str]] = [
        (spoiled, "has 1 values that are NaN or infinite"),
        (np.array([[1, 2], [3, 1e300]]), r"pixel value 1e\+300 does not fit single precision"),
        (np.full((6, 6), 1e39), r"pixel value 1e\+39 does not fit single precision"),
        (
            np.array([[1, 2], [3, 4]]) * 1e-60,
            "varies from 1e-60 to 4e-60, which are equal in single precision",
        ),
        (picture() - 5, "has values below 0"),
        (picture(2, 2, 6, 6), "must have 2 axes"),
        (picture(6, 6, 3), "colours in the last axis"),
        (np.zeros((0, 6, 6)), "at least one image, got the shape"),
        (picture(1, 6), "is 1 x 6, too small"),
        (picture() + 1j, "holds complex128; save real numbers"),
        (np.array([["a", "b"], ["c", "d"]]), "holds <U1; save real numbers"),
        (integers(np.int32, 0, 70000), "beyond 16 bits.*give scale="),
    ]
    for array, reason in odd:
        np.save(tmp_path / "odd.npy", array)
        refused(f"^odd.npy: .*{reason}", tmp_path)


def test_a_page_that_shows_nothing_is_left_out_alone_and_a_broken_file_whole(
    tmp_path: Path,
) -> None:
    stack = picture(4, 6, 6)
    stack[2] = 0
    np.save(tmp_path / "a.npy", stack)
    pages = picture(4, 30, 30)
    tifffile.imwrite(tmp_path / "b.tif", pages, compression="zlib", photometric="minisblack")
    with tifffile.TiffFile(tmp_path / "b.tif") as file:
        last = file.pages[3].dataoffsets[0]
    content = bytearray((tmp_path / "b.tif").read_bytes())
    content[last : last + 40] = bytes(40)
    (tmp_path / "b.tif").write_bytes(content)
    with pytest.warns(KoriskWarning) as told:
        images = read_images(tmp_path, on_error="skip")
    said = " ".join(str(each.message) for each in told)
    assert "1 blank image left out" in said
    assert "cannot be read: 1, b.tif" in said
    assert images.files == ("a.npy#0", "a.npy#1", "a.npy#3")
    assert [(each.file, each.blank) for each in images.skipped] == [
        ("b.tif", False),
        ("a.npy#2", True),
    ]
    np.save(tmp_path / "a.npy", np.full((6, 6), 0.5))
    refused(r"no images.*a.npy \(is 0.5 everywhere\)", tmp_path / "a.npy")


def test_blank_images_are_left_out_where_asked_and_faint_ones_are_not(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = rng.random((8, 16, 16))
    values[1:3] = 0.5 + 0.01 * rng.random((2, 16, 16))  # air with a little noise
    values[3] = 0
    values[3, 5:7, 5:7] = 1  # four pixels
    np.save(tmp_path / "a.npy", values)
    whole = read_images(tmp_path)
    kept = whole.without_blank()
    assert len(whole) == 8
    assert kept.files == tuple(f"a.npy#{index}" for index in (0, 3, 4, 5, 6, 7))
    assert [(each.file, each.blank) for each in kept.skipped] == [
        ("a.npy#1", True),
        ("a.npy#2", True),
    ]
    assert kept.fingerprint != whole.fingerprint
    assert kept.without_blank().files == kept.files


def test_pictures_in_colour_are_refused(tmp_path: Path) -> None:
    colours = integers(np.uint8, 0, 255, (6, 6, 3))
    Image.fromarray(colours).save(tmp_path / "a.png")
    tifffile.imwrite(tmp_path / "b.tif", colours, photometric="rgb")
    veiled = np.full((6, 6, 4), 9, np.uint8)
    Image.fromarray(veiled).save(tmp_path / "c.png")
    for name, reason in (("a.png", "colours"), ("b.tif", "colours"), ("c.png", "transparent")):
        refused(f"{name}: .*{reason}.*save it in grey", tmp_path / name)


def test_a_compressed_tiff_without_its_codec_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tifffile.imwrite(tmp_path / "a.tif", picture(), compression="zlib")

    def missing(*_: Any, **__: Any) -> None:
        raise ValueError("<COMPRESSION.LZW: 5> requires the 'imagecodecs' package")

    monkeypatch.setattr(tifffile.TiffPage, "asarray", missing)
    refused(r"a.tif: is compressed as \w+, .*pip install imagecodecs", tmp_path)


def test_nothing_left_is_an_error(tmp_path: Path) -> None:
    refused(r"no images were found, in .npy", tmp_path)
    (tmp_path / "a.nii").write_bytes(b"x")
    (tmp_path / "b.npy").write_bytes(b"")
    refused(r"no images were found, .*; left out: 1, b.npy \(is e", tmp_path, on_error="skip")
    refused(r"a.nii: is not of a supported format", tmp_path / "a.nii")
    refused(r"that match '\*.png' were found", tmp_path, pattern="*.png")
    refused("missing': does not exist", tmp_path / "missing")
    refused("empty list", [])
    refused("must be a path", [3])


def test_huge_images_are_refused_by_their_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.savez_compressed(tmp_path / "b.npz", np.zeros((100, 100, 100), np.uint8))
    monkeypatch.setattr(image_page, "SMALL", 0)
    monkeypatch.setattr("korisk._memory.free_memory", lambda _: 10**6)
    refused(r"b.npz: reading 100 x 100 x 100 pixels needs", tmp_path)
    (tmp_path / "b.npz").unlink()
    np.save(tmp_path / "c.npy", picture(50, 40, 40))
    monkeypatch.setattr("korisk._memory.free_memory", lambda _: 2 * 10**5)
    refused(r"c.npy#0: with it, a set of 50 images needs .*give side=", tmp_path, on_error="skip")


def test_folders_are_searched_in_one_order_and_loops_end(tmp_path: Path) -> None:
    for name in ("p2/s1/b.npy", "p2/s1/a.npy", "p10/x.npy", "z.npy", ".hidden/a.npy", "p2/.h.npy"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        np.save(tmp_path / name, picture())
    (tmp_path / ".DS_Store").write_bytes(b"x")
    (tmp_path / "p2" / "Thumbs.db").write_bytes(b"x")
    (tmp_path / "folder.png").mkdir()
    np.save(tmp_path / "folder.png" / "in.npy", picture())
    (tmp_path / "p10" / "loop").symlink_to(tmp_path, target_is_directory=True)
    images = read_images(tmp_path)
    order = ("folder.png/in.npy", "p10/x.npy", "p2/s1/a.npy", "p2/s1/b.npy", "z.npy")
    assert images.files == order
    assert images.patients == ("folder.png", "p10", "p2", "p2", ".")
    assert read_images(tmp_path, pattern="b*.npy").files == ("p2/s1/b.npy",)
    assert read_images(tmp_path, pattern="p2/*").files == order[2:4]
    (tmp_path / "p10" / "loop").unlink()
    twice = read_images([tmp_path / "p2", tmp_path / "p2" / "s1" / "a.npy", tmp_path / "p10"])
    assert twice.files == ("p2/s1/a.npy", "p2/s1/b.npy", "p10/x.npy")
    (tmp_path / "p2" / "gone.npy").symlink_to(tmp_path / "nowhere.npy")
    refused(r"p2/gone.npy: is .*a broken link", tmp_path)


def test_a_folder_that_cannot_be_opened_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "a.npy", picture())
    walk = os.walk

    def closed(top: Any, onerror: Any, **options: Any) -> Any:
        onerror(PermissionError(13, "Permission denied", str(tmp_path / "shut")))
        return walk(top, onerror=onerror, **options)

    monkeypatch.setattr(os, "walk", closed)
    refused(r"^shut: cannot be opened: permission denied", tmp_path)
    with pytest.warns(KoriskWarning, match="shut"):
        assert len(read_images(tmp_path, on_error="skip")) == 1


def test_the_extra_is_named_where_a_package_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Image.fromarray(integers(np.uint8, 0, 255)).save(tmp_path / "a.png")

    def missing(name: str) -> None:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(image_page, "import_module", missing)
    with pytest.raises(MissingExtraError, match=r"reading PNG needs PIL.Image.*'korisk\[io\]'"):
        read_images(tmp_path, on_error="skip")


def test_a_set_is_indexed_and_cannot_be_changed(clinic: Path) -> None:
    images = read_images(clinic)
    assert images[1].shape == (6, 6)
    part = images[[4, 1]]
    assert isinstance(part, ImageSet)
    np.testing.assert_array_equal(part.images, images.images[[4, 1]])
    assert part.patients == ("bob", "ann")
    assert part.files == (images.files[4], images.files[1])
    assert len(images[2:5]) == 3
    assert images[np.array([p == "bob" for p in images.patients])].files == images.files[4:]
    with pytest.raises(ValueError, match="read-only"):
        images.images[0] = 0
    assert "0 images" in images[:0].summary()
    with pytest.raises(KoriskError, match="images must be an ImageSet, got list"):
        relative([])  # type: ignore[arg-type]


def test_the_fingerprint_is_of_contents_patients_and_settings(clinic: Path, tmp_path: Path) -> None:
    base = read_images(clinic).fingerprint
    moved = tmp_path / "elsewhere"
    for path in sorted(clinic.rglob("*.npy")):
        copy = moved / path.relative_to(clinic)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(path.read_bytes())
    assert read_images(moved).fingerprint == base
    options: list[dict[str, Any]] = [
        *({"side": 3}, {"crop": "pad"}, {"resample": "spline"}, {"patients": "file"}, {"scale": 2}),
        *({"unit": "1/mm"}, {"unit": "1/mm", "mu_water": 0.02}),
    ]
    others = [*(read_images(clinic, **each) for each in options), read_images(clinic)[::-1]]
    values = np.load(moved / "ann" / "1.npy")
    values[0, 0, 0] += 1e-9
    np.save(moved / "ann" / "1.npy", values)
    prints = [base, read_images(moved).fingerprint, *(each.fingerprint for each in others)]
    assert len(set(prints)) == len(prints)


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ({"side": 1}, "side must be a whole number from 2"),
        ({"on_error": "ignore"}, "on_error must be one of stop, skip"),
        ({"resample": "cubic"}, "resample must be one of area, spline"),
        ({"crop": "round"}, "crop must be one of square, pad, none, got"),
        ({"unit": "mm"}, "unit must be one of HU"),
        ({"mu_water": 0}, "mu_water must be a finite number > 0"),
        ({"scale": -1}, "scale must be a finite number > 0"),
        ({"patients": "nobody"}, "patients must be one of auto, folder, file, image, a function"),
        ({"patients": "gone.csv"}, "gone.csv: no such file"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_read(
    tmp_path: Path, option: dict[str, Any], reason: str
) -> None:
    refused(reason, tmp_path / "missing", **option)


def test_the_example_makes_reads_and_splits_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(__file__).parents[2] / "examples" / "images_folder.py"
    example = runpy.run_path(str(path))

    def run(*words: str) -> str:
        monkeypatch.setattr(sys, "argv", ["images_folder.py", *words])
        example["main"]()
        return capsys.readouterr().out

    made = run()
    assert "pixels from 12 patients (3 to 8 each)" in made
    example["make_folder"](tmp_path)
    assert run(str(tmp_path), "--unit", "HU") == made
    assert read_images(tmp_path, side=32, unit="HU").fingerprint in made
    with pytest.raises(SystemExit, match=r"error: .*unit='HU'"):
        run(str(tmp_path))

"""Changes inside what a check sum guards: PNG and zip files that are wrong and yet add up."""

import io
import random
import struct
import zipfile
import zlib
from contextlib import suppress

from benchmarks.quality.fuzz.mutations import bytes_changed, near_start

_PNG = b"\x89PNG\r\n\x1a\n"
_NUMBERS = (0, 1, 2, 7, 8, 16, 255, 4_000, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF)
_KINDS = (b"IHDR", b"IDAT", b"PLTE", b"tRNS", b"IEND", b"iCCP", b"zTXt", b"acTL", b"xxxx")

Chunk = tuple[bytes, bytes]  # its kind and its content


def png_mended(rng: random.Random, content: bytes) -> bytes:
    """Chunks of a PNG changed, each with the check sum that belongs to it."""
    chunks = _chunks(content)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(chunks))
        match rng.randrange(8):
            case 0 | 1:
                chunks[0] = (b"IHDR", _header_changed(rng, chunks[0][1]))
            case 2 | 3:
                chunks[at] = (chunks[at][0], bytes_changed(rng, chunks[at][1]))
            case 4 | 5:
                chunks = [_pixels_changed(rng, chunk) for chunk in chunks]
            case 6:
                chunks.insert(at, (rng.choice(_KINDS), rng.choice(chunks)[1]))
            case _:
                chunks[at] = (rng.choice(_KINDS), chunks[at][1])
    return _PNG + b"".join(_chunk(*each) for each in chunks)


def _chunks(content: bytes) -> list[Chunk]:
    found = []
    at = len(_PNG)
    while at < len(content):
        (size,) = struct.unpack_from(">I", content, at)
        found.append((content[at + 4 : at + 8], content[at + 8 : at + 8 + size]))
        at += 12 + size
    return found


def _chunk(kind: bytes, content: bytes) -> bytes:
    whole = kind + content
    return struct.pack(">I", len(content)) + whole + struct.pack(">I", zlib.crc32(whole))


def _header_changed(rng: random.Random, header: bytes) -> bytes:
    """Width, height, depth, colours, filters or interlacing as something else."""
    data = bytearray(header.ljust(13, b"\0"))
    at = rng.choice((0, 4, 8, 9, 10, 11, 12))
    if at < 8:
        data[at : at + 4] = struct.pack(">I", rng.choice(_NUMBERS))
    else:
        data[at] = rng.choice((0, 1, 2, 3, 4, 6, 8, 16, 255))
    return bytes(data)


def _pixels_changed(rng: random.Random, chunk: Chunk) -> Chunk:
    """The rows of pixels changed and packed again."""
    kind, content = chunk
    with suppress(zlib.error):  # what was changed before need not unpack
        if kind == b"IDAT":
            return kind, zlib.compress(bytes_changed(rng, zlib.decompress(content)))
    return chunk


def zip_packed_again(rng: random.Random, content: bytes) -> bytes:
    """A member of an archive changed, and all packed again."""
    members = _members(content)
    at = rng.randrange(len(members))
    name, inner = members[at]
    members[at] = (name, rng.choice((bytes_changed, near_start))(rng, inner))
    if rng.random() < 0.1:
        members.append((rng.choice((name, "../x.npy", "x.npy", "x")), inner))
    made = io.BytesIO()
    how = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(made, "w", how) as archive:
        for name, inner in dict(members).items():
            archive.writestr(name, inner)
    return made.getvalue()


def _members(content: bytes) -> list[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return [(name, archive.read(name)) for name in archive.namelist()]


def zip_mended(rng: random.Random, content: bytes) -> bytes:
    """Bytes of an archive's members changed in place, with check sums that belong to them."""
    data = bytearray(content)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        infos = archive.infolist()
        directory = archive.start_dir
    for info in infos:
        start = info.header_offset
        names, extra = struct.unpack_from("<HH", data, start + 26)
        first = start + 30 + names + extra
        for _ in range(rng.randrange(4)):
            data[first + rng.randrange(info.compress_size)] = rng.randrange(256)
        unpacked = _unpacked(bytes(data[first : first + info.compress_size]), info)
        total = struct.pack("<I", zlib.crc32(unpacked))
        data[start + 14 : start + 18] = total
        data[directory + 16 : directory + 20] = total
        directory += 46 + sum(struct.unpack_from("<HHH", data, directory + 28))
    return bytes(data)


def _unpacked(packed: bytes, info: zipfile.ZipInfo) -> bytes:
    if info.compress_type == zipfile.ZIP_STORED:
        return packed
    with suppress(zlib.error):
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(packed, info.file_size)
    return b""

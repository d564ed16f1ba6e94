"""Builds a release and tries it as a user would: `make release-check`.

    python -m benchmarks.quality.release [--only core,io] [--out FOLDER] [--json FILE]

The wheel and the source archive are built and looked into (release_contents.py). Then, for the core
and each extra, the wheel is installed into an environment of its own, with the versions of
constraints.txt, and asked what it does (release_smoke.py); the source archive is installed once.
It tells what each brings: packages, megabytes of files without bytecode, CPU seconds of installing
(with pip's cache as it is), and CPU time of `import korisk` in fresh processes, in turn
with the NumPy and SciPy that it stands on; wall time would tell of the machine's other work. Needs
pip's index, or its cache and links.
"""

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.quality.release_contents import WrongContents, check_same, check_sdist, check_wheel
from korisk import __version__
from korisk.store.usage import machine

ROOT = Path(__file__).parents[2]
EXTRAS = ("report", "torch", "dask", "io", "mri")
INCLUDES = {"mri": ("torch", "mri")}  # extras that bring another one
MEGABYTE = 1e6
ROUNDS = 5
BASE = "import numpy, scipy.special"
OURS = "import korisk"


@dataclass(frozen=True, kw_only=True)
class Installed:
    """What one environment took and holds."""

    what: str  # "core", an extra, "all" or "source archive"
    packages: int
    megabytes: float
    largest: dict[str, float]  # megabytes of the three largest folders
    install_cpu_seconds: float
    import_ms: float
    base_ms: float  # NumPy and SciPy alone
    modules: int  # loaded by `import korisk`
    tried: list[str]


def build(source: Path, out: Path, *kinds: str) -> None:
    """`python -m build`, with an environment of its own for the build backend."""
    command = [sys.executable, "-m", "build", *kinds, "--outdir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(
            f"error: the build of {source} failed:\n{done.stdout[-3000:]}{done.stderr}"
        )


def built(out: Path, scratch: Path) -> tuple[Path, Path]:
    """Wheel and source archive, looked into; the archive builds the same wheel."""
    build(ROOT, out, "--sdist", "--wheel")
    wheel, sdist = (
        out / f"korisk-{__version__}-py3-none-any.whl",
        out / f"korisk-{__version__}.tar.gz",
    )
    try:
        sizes = check_wheel(wheel, ROOT), check_sdist(sdist, ROOT)
        with tarfile.open(sdist) as archive:
            archive.extractall(scratch / "source", filter="data")
        build(scratch / "source" / f"korisk-{__version__}", scratch / "again", "--wheel")
        check_same(wheel, scratch / "again" / wheel.name)
    except WrongContents as wrong:
        raise SystemExit(f"error: {wrong}") from None
    for path, size in zip((wheel, sdist), sizes, strict=True):
        packed = path.stat().st_size
        print(
            f"{path.name}: {packed / 1e6:.2f} MB, {size / 1e6:.2f} MB unpacked; contents as wanted"
        )
    return wheel, sdist


def tried(what: str, archive: Path, extras: tuple[str, ...], scratch: Path) -> Installed:
    """Install into a clean environment, measure, and run the smoke test there."""
    home = scratch / what.replace(" ", "-")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home / "venv")], check=True)
    python = home / "venv" / "bin" / "python"
    asked = f"{archive}[{','.join(extras)}]" if extras else str(archive)
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-qq", "--no-compile"]
    before = cpu_of_children()
    subprocess.run([*pip, "-c", str(ROOT / "constraints.txt"), asked], check=True, env=clean())
    seconds = cpu_of_children() - before
    (site,) = (home / "venv" / "lib").glob("python*/site-packages")
    megabytes, folders = size(site), largest(site)
    lines = smoke(python, extras, home)
    base, ours = import_times(python)
    found = Installed(
        what=what,
        packages=len(list(site.glob("*.dist-info"))),
        megabytes=megabytes,
        largest=folders,
        install_cpu_seconds=seconds,
        import_ms=ours,
        base_ms=base,
        modules=int(said(python, f"{OURS}, sys; print(len(sys.modules))")),
        tried=lines,
    )
    shutil.rmtree(home)
    return found


def cpu_of_children() -> float:
    """CPU seconds of the processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def clean() -> dict[str, str]:
    """The environment without what would let Python find other packages."""
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def smoke(python: Path, extras: tuple[str, ...], home: Path) -> list[str]:
    """The lines that the smoke test prints; it must pass."""
    shutil.copytree(ROOT / "examples", home / "examples")
    script = str(Path(__file__).with_name("release_smoke.py"))
    done = subprocess.run(
        [str(python), script, __version__, *extras],
        cwd=home,
        env=clean(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    if done.returncode:
        raise SystemExit(f"error: the smoke test failed:\n{done.stdout}{done.stderr}")
    return done.stdout.splitlines()


def said(python: Path, code: str) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run(
        [str(python), "-c", code], env=clean(), capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def import_times(python: Path) -> tuple[float, float]:
    """CPU milliseconds of both imports, medians of fresh processes in turn."""
    timed = "import time; t = time.process_time(); {}; print(1e3 * (time.process_time() - t))"
    rounds = [
        [float(said(python, timed.format(code))) for code in (BASE, OURS)] for _ in range(ROUNDS)
    ]
    base, ours = (statistics.median(times) for times in zip(*rounds, strict=True))
    return base, ours


def size(folder: Path) -> float:
    """Megabytes (10^6 bytes) of the files below a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file()) / MEGABYTE


def largest(site: Path) -> dict[str, float]:
    """The three largest packages by their folders, what auditwheel put beside them included."""
    sizes: dict[str, float] = {}
    for folder in site.iterdir():
        if folder.is_dir():
            name = folder.name.removesuffix(".libs")
            sizes[name] = sizes.get(name, 0.0) + size(folder)
    names = sorted(sizes, key=lambda name: -sizes[name])[:3]
    return {name: round(sizes[name], 1) for name in names}


def main() -> None:
    """Build, look, install, try, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--only", default="", help="core, all, 'source archive', or extras")
    parser.add_argument("--out", type=Path, help="keep wheel and source archive in this folder")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    begun, load, rows = time.perf_counter(), os.getloadavg()[0], []
    extras = {name: INCLUDES.get(name, (name,)) for name in EXTRAS}
    wanted = {"core": (), **extras, "all": EXTRAS, "source archive": ()}
    only = given.only.split(",") if given.only else list(wanted)
    if not set(only) <= set(wanted):
        parser.error(f"--only takes some of {', '.join(wanted)}; got {given.only}")
    with tempfile.TemporaryDirectory(prefix="korisk-release-") as folder:
        scratch = Path(folder)
        wheel, sdist = built((given.out or scratch / "dist").resolve(), scratch)
        for what in only:
            archive = sdist if what == "source archive" else wheel
            found = tried(what, archive, wanted[what], scratch)
            print(
                f"\n{what}: {found.packages} packages, {found.megabytes:.0f} MB, "
                f"{found.install_cpu_seconds:.0f} CPU s, {found.import_ms:.0f} ms to import",
                *found.tried,
                sep="\n  ",
            )
            rows.append(asdict(found))
    seconds = time.perf_counter() - begun
    cpu = cpu_of_children()
    print(
        f"\nversion {__version__}: built, installed and tried in {seconds:.0f} s, {cpu:.0f} of CPU"
    )
    if given.json:
        content = {
            "version": __version__,
            "machine": machine(),
            "load_before": load,
            "seconds": seconds,
            "rounds": ROUNDS,
            "installs": rows,
        }
        given.json.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()

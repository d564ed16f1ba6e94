"""Profiles of jobs: what is refused, and the script that each batch system would get."""

import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from korisk.errors import KoriskError
from korisk.files import write_yaml
from korisk.studies.run.clusters import job_script
from korisk.studies.run.job_profile import JobProfile

EXAMPLE = Path(__file__).parents[2] / "examples" / "slurm_profile.yaml"
LEAST: dict[str, Any] = {"jobs": 2, "cores": 4, "memory": "16 GB", "walltime": "02:30:30"}


def read(folder: Path, **changes: Any) -> JobProfile:
    path = folder / "profile.yaml"
    write_yaml(path, {**LEAST, **changes})
    return JobProfile.read(path)


def directives(script: str, prefix: str) -> list[str]:
    return re.findall(rf"^#{prefix} (.*)$", script, re.MULTILINE)


def command(script: str) -> list[str]:
    """The worker's, which is the last line."""
    return shlex.split(script.strip().splitlines()[-1])


def option(words: list[str], name: str) -> str:
    return words[words.index(name) + 1]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"wall_time": "1:00:00"}, "unknown key 'wall_time'; did you mean 'walltime'?"),
        ({"system": "sge"}, "system must be 'slurm', 'pbs' or 'lsf', got 'sge'"),
        ({"jobs": 0}, "jobs must be from 1 to 10000, got 0"),
        ({"cores": -1}, "cores must be from 1 to 4096, got -1"),
        ({"gpus": 2}, "gpus must be 0 or 1, got 2; a job has one worker: ask for more jobs of one"),
        ({"memory": "16"}, "memory must be a size with its unit, got '16'; write 16 GB"),
        ({"memory": "0 GB"}, "memory must be a size with its unit"),
        ({"walltime": "2h"}, "walltime must be HH:MM:SS or D-HH:MM:SS, a minute or more, got"),
        ({"walltime": "00:00:30"}, "a minute or more, got '00:00:30'"),
        ({"walltime": 43200}, "walltime must be a text, got 43200; quote it"),
        ({"queue": "a\nb"}, "queue must be one line of text"),
        ({"directives": ["--x\n#SBATCH --y"]}, "directives must be one line of text"),
        ({"prologue": "module load"}, "prologue must be a list, got 'module load'"),
    ],
)
def test_wrong_profiles_are_refused_in_one_line(
    tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(KoriskError) as caught:
        read(tmp_path, **changes)
    assert str(caught.value).startswith(f"{tmp_path / 'profile.yaml'}: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "size"), [("16 GB", 16 * 10**9), ("16GiB", 2**34), ("1.5 TB", 1.5e12), ("8 MB", 8e6)]
)
def test_sizes_are_decimal_unless_they_say_binary(tmp_path: Path, text: str, size: float) -> None:
    assert read(tmp_path, memory=text).memory_bytes == size


@pytest.mark.parametrize(
    ("text", "seconds"), [("00:01:00", 60), ("100:00:01", 360001), ("2-01:00:00", 176400)]
)
def test_walltimes_may_have_days(tmp_path: Path, text: str, seconds: int) -> None:
    assert read(tmp_path, walltime=text).walltime_seconds == seconds


def test_the_script_for_slurm(tmp_path: Path) -> None:
    script = job_script(read(tmp_path, queue="fast", account="us", gpus=1))
    asked = directives(script, "SBATCH")
    assert {"-J korisk", "-p fast", "-A us", "-n 1", "--cpus-per-task=4"} <= set(asked)
    assert {"--mem=15G", "-t 02:30:30", "--gres=gpu:1"} <= set(asked)  # 16 GB are 14.9 GiB
    words = command(script)
    assert "tcp://ADDRESS-OF-THE-SCHEDULER" in words
    assert option(words, "--nthreads") == "4"
    assert option(words, "--resources") == "GPU=1"
    assert "export OMP_NUM_THREADS=4\n" in script


def test_the_script_for_pbs(tmp_path: Path) -> None:
    script = job_script(read(tmp_path, system="pbs", queue="fast", account="us", gpus=1))
    asked = directives(script, "PBS")
    assert {"-N korisk", "-q fast", "-A us", "-l walltime=02:30:30"} <= set(asked)
    [select] = [line.removeprefix("-l ") for line in asked if "select" in line]
    parts = dict(part.split("=") for part in select.split(":"))
    assert parts == {"select": "1", "ncpus": "4", "mem": "15259mb", "ngpus": "1"}
    assert 15258 * 2**20 < 16e9 <= 15259 * 2**20  # PBS counts in binary units


def test_the_script_for_lsf(tmp_path: Path) -> None:
    script = job_script(read(tmp_path, system="lsf", queue="fast", account="us", gpus=1))
    asked = directives(script, "BSUB")
    assert {"-J korisk", "-q fast", '-P "us"', "-n 4", '-gpu "num=1"'} <= set(asked)
    assert "-W 02:31" in asked  # whole minutes, and never less than asked


@pytest.mark.parametrize(
    ("system", "line"),
    [
        ("slurm", "#SBATCH -o logs/korisk-%j.log"),
        ("pbs", "#PBS -o logs/"),
        ("lsf", "#BSUB -o logs/korisk-%J.log"),
    ],
)
def test_a_script_asks_for_no_gpu_by_itself_and_makes_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    script = job_script(read(tmp_path, system=system, log_directory="logs"))
    assert "gpu" not in script.lower()
    assert line in script.splitlines()
    assert not (tmp_path / "logs").exists()


def test_the_example_is_complete_and_its_lines_are_in_the_script() -> None:
    profile = JobProfile.read(EXAMPLE)
    assert profile.model_fields_set == set(JobProfile.model_fields)
    script = job_script(profile)
    lines = script.splitlines()
    assert all(f"#SBATCH {line}" in lines for line in profile.directives)
    started = next(i for i, line in enumerate(lines) if "distributed.cli.dask_worker" in line)
    assert all(line in lines[:started] for line in profile.prologue)
    words = command(script)
    assert words[0] == profile.python
    assert option(words, "--interface") == profile.interface
    assert option(words, "--local-directory") == profile.local_directory


def test_a_python_in_a_folder_with_blanks_stays_one_word(tmp_path: Path) -> None:
    python = "/my env/bin/python"
    assert command(job_script(read(tmp_path, python=python)))[0] == python

"""What korisk does where the core alone is installed: every command and every public name.

    cd FOLDER && ENVIRONMENT/bin/python core_commands.py < NAMES.json > ROWS.json

benchmarks/quality/core_alone.py runs it, in a folder with a study, its results and copies of
examples/ and of some tables; NAMES.json lists [module, name] of what the API pages name. Each row
is what was tried, its exit code (0 and 2 for names, too) and a line: the first of what was printed,
or the one line that says what to install. A traceback, or a refusal that does not fit on one line,
ends it with an AssertionError.
"""

import doctest
import inspect
import io
import json
import os
import sys
import traceback
from contextlib import redirect_stdout
from importlib import import_module
from tempfile import TemporaryFile

import scipy.optimize  # once for all commands
import scipy.special  # noqa: F401

from korisk.cli.app import run

PILOT = "examples/pilot_h8.csv"
COMMANDS = f"""
--version
--help
plan {PILOT} --model FC --target 0.003
plan {PILOT} --at 512 --json
plan {PILOT} --model FC --target 0.003 --plot plan.png
plan {PILOT} --model FC --target 0.003 --html plan.html
plan tables/models.xlsx --at 512
plan study --target 0.003
compare {PILOT} --target 0.006
compare {PILOT} --target 0.006 --plot compare.png
compare study --target 0.006 --json
rehearse study.yaml
rehearse study.yaml --plot rehearse.png
calibrate {PILOT} --target 0.008 --network examples/ct_h8_ko.yaml
bound examples/ct_h128_ko.yaml
bound examples/ct_h128_fc.yaml --target 0.5
bound --network examples/describe_unet.py:factory
reproduce
reproduce --published
run study.yaml
run study.yaml --scheduler tcp://127.0.0.1:8786
report study
report study --only page
report study --only figures
report study --only tables
export study
export study --format json
"""
LONGEST = 120  # characters of a line that was printed


def tried(command: str) -> tuple[str, int, str]:
    """A command's exit code and line; in a process of its own, with the same imports for all."""
    with TemporaryFile("w+") as output, TemporaryFile("w+") as errors:
        child = os.fork()
        if not child:
            os.dup2(output.fileno(), 1)
            os.dup2(errors.fileno(), 2)
            code = 1
            try:
                code = run(command.split())
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        for each in (output, errors):
            each.seek(0)
        said, told = output.read(), errors.read()
    lines = [
        " ".join(line.split()) for line in (told if code else said).splitlines() if line.strip()
    ] or [""]
    shown = f"korisk {command}: exit code {code}: {told}"
    assert code in (0, 2), shown
    if code == 2:
        assert len(lines) == 1, shown
        assert "pip install " in lines[0], shown
    line = lines[0] if code or len(lines[0]) <= LONGEST else lines[0][:LONGEST] + "..."
    return f"korisk {command}", code, line.removeprefix("korisk: ")


def named(module: str, name: str) -> tuple[str, int, str]:
    """A public name: its own example runs, or it says in one line what to install."""
    from korisk.errors import KoriskError, MissingExtraError

    what = f"{module}.{name}"
    try:
        value = getattr(import_module(module), name)
        if inspect.isfunction(value) and value.__doc__ is None:
            value()  # a stand-in, which says what its original needs
        of_type = inspect.isclass(value) or inspect.isfunction(value)
        examples = doctest.DocTestParser().get_examples(value.__doc__ if of_type else "")
        space: dict[str, object] = {"__name__": "example"}
        for each in examples:
            try:
                exec(compile(each.source, what, "single"), space)  # our own docstrings
            except KoriskError as error:
                if isinstance(error, MissingExtraError) or not each.exc_msg:
                    raise
            except ModuleNotFoundError:  # the example's own import, of what the function needs too
                assert "import" in each.source, what
                wanted = inspect.signature(value).parameters.values()
                value(**{one.name: None for one in wanted if one.default is one.empty})
                raise AssertionError(
                    f"{what}: goes through without what its example imports"
                ) from None
    except MissingExtraError as missing:
        line = str(missing)
        assert "\n" not in line, line
        assert "pip install " in line, line
        return what, 2, line
    return what, 0, "its example runs" if examples else "is there"


def main() -> None:
    """Try everything and print the rows."""
    names = json.load(sys.stdin)
    rows = [tried(command) for command in COMMANDS.strip().splitlines()]
    with redirect_stdout(io.StringIO()):
        rows += [named(module, name) for module, name in names]
    print(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()

"""`korisk export`: the results of a study for other programs."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from korisk._checks import one_of
from korisk.cli.common.messages import tell
from korisk.cli.common.options import Folder
from korisk.files import write_text
from korisk.store.store import Store, store_path
from korisk.studies import results
from korisk.texts import counted

_FORMATS = "csv or json. [default: as FILE is named, else csv]"


def export(
    path: Folder,
    kind: Annotated[str | None, typer.Option("--format"), "FORMAT", _FORMATS] = None,
    output: Annotated[Path | None, "FILE", "The file to write. [default: stdout]"] = None,
    metric: Annotated[str | None, "Only this metric, as a pilot for korisk plan."] = None,
    point: Annotated[str | None, "Only this point. [default: all]"] = None,
) -> None:
    """Write the results of a study as a table, one row for each point, seed, model and n."""
    if kind is None:
        suffix = output.suffix.removeprefix(".").lower() if output else "csv"
        kind = suffix if suffix in results.FORMATS else "csv"
    one_of("--format", kind, results.FORMATS)
    with Store.read(store_path(path)) as store:
        failures = len(store.failures())
        if metric is None:
            table = results.results_table(store, point=point)
        else:
            table = results.pilot_table(store, metric, point=point)
    text = results.json_text(table) if kind == "json" else results.csv_text(table)
    if output is None:
        sys.stdout.write(text)
    else:
        write_text(output, text)
        tell(f"wrote {output}")
    if failures:  # which have no rows, so that the table looks complete
        tell(f"{counted(failures, 'failed cell')} not in the table")

"""`korisk export`: the results of a study for other programs."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from korisk import _checks
from korisk.errors import KoriskError
from korisk.files import write_bytes, write_text
from korisk.store.store import Store, store_path
from korisk.studies.results import (
    FORMATS,
    csv_text,
    json_text,
    parquet_bytes,
    pilot_table,
    results_table,
)


def export(
    path: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of a study, or its store.")
    ],
    kind: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="csv, json or parquet (needs korisk[io]). [default: as FILE is named, else csv]",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The file to write. [default: stdout]")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Only this metric, as a pilot for korisk plan."),
    ] = None,
    point: Annotated[
        str | None, typer.Option(metavar="NAME", help="Only this point. [default: all]")
    ] = None,
) -> None:
    """Write the results of a study as a table, one row for each point, seed, model and n."""
    if kind is None:
        suffix = output.suffix.removeprefix(".").lower() if output else "csv"
        kind = suffix if suffix in FORMATS else "csv"
    _checks.one_of("--format", kind, FORMATS)
    if kind == "parquet" and output is None:
        raise KoriskError("--format parquet writes a binary file; name it with --output FILE")
    with Store.read(store_path(path)) as store:
        failures = len(store.failures())
        if metric is None:
            table = results_table(store, point=point)
        else:
            table = pilot_table(store, metric, point=point)
    if kind == "parquet" and output is not None:
        write_bytes(output, parquet_bytes(table))
    else:
        text = csv_text(table) if kind == "csv" else json_text(table)
        if output is None:
            sys.stdout.write(text)
        else:
            write_text(output, text)
    if output is not None:
        typer.echo(f"korisk: wrote {output}", err=True)
    if failures:
        some = "cell failed and is" if failures == 1 else "cells failed and are"
        typer.echo(f"korisk: {failures} {some} not in the table", err=True)

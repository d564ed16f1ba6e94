"""`korisk export`: the figures of a study for other programs."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from korisk.errors import KoriskError, did_you_mean
from korisk.files import write_bytes, write_text
from korisk.studies.export import (
    FORMATS,
    csv_text,
    json_text,
    parquet_bytes,
    pilot_table,
    results_table,
)
from korisk.studies.store.store import Store, store_path


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
        Path | None, typer.Option(metavar="FILE", help="Where to write. [default: stdout]")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="One metric alone, as a pilot for korisk plan."),
    ] = None,
    point: Annotated[
        str | None, typer.Option(metavar="NAME", help="One point alone. [default: every one]")
    ] = None,
) -> None:
    """Write the figures of a study as a table, one row for each point, seed, model and n."""
    chosen = _format(kind, output)
    with Store.read(store_path(path)) as store:
        failures = len(store.failures())
        table = (
            results_table(store, point=point)
            if metric is None
            else pilot_table(store, metric, point=point)
        )
    if chosen == "parquet":
        assert output is not None
        write_bytes(output, parquet_bytes(table))
    else:
        text = csv_text(table) if chosen == "csv" else json_text(table)
        if output is None:
            sys.stdout.write(text)
        else:
            write_text(output, text)
    if output is not None:
        typer.echo(f"korisk: wrote {output}", err=True)
    if failures:
        some = "cell has failed and is" if failures == 1 else "cells have failed and are"
        typer.echo(f"korisk: {failures} {some} not in the table", err=True)


def _format(kind: str | None, output: Path | None) -> str:
    if kind is None:
        suffix = output.suffix.removeprefix(".").lower() if output else "csv"
        kind = suffix if suffix in FORMATS else "csv"
    if kind not in FORMATS:
        raise KoriskError(
            f"--format must be csv, json or parquet, got {kind!r}{did_you_mean(kind, FORMATS)}"
        )
    if kind == "parquet" and output is None:
        raise KoriskError("--format parquet writes a binary file; name it with --output FILE")
    return kind

"""Options that only the command line has, or that several commands share; see `command.Command`."""

from pathlib import Path
from typing import Annotated

Json = Annotated[bool, "Print JSON instead."]
Plot = Annotated[
    Path | None, "FILE", "Draw a figure: FILE.png, .svg or .pdf (needs korisk[report])."
]
Html = Annotated[
    Path | None,
    "FILE",
    "Write a page on which the target can be changed: FILE.html (needs korisk[report]).",
]
Target = Annotated[float | None, "E"]
Unit = Annotated[str | None, "UNIT"]
Column = Annotated[
    list[str] | None,
    "OURS=YOURS",
    "Name a column: --column n=train_size --column error=test_mse. Repeatable.",
]
Training = Annotated[list[str] | None, "KEY=VALUE"]
Folder = Annotated[Path, "DIR", "The folder of a study, or its store."]

# --- Where and how a study runs ---
Device = Annotated[str, "NAME"]
Workers = Annotated[int | None, "W"]
Wait = Annotated[float, "SECONDS", "How long to wait while another run uses the store."]
Full = Annotated[bool, "Print the tables as well."]
WithPage = Annotated[bool, "Write report.html into the folder too (needs korisk[report])."]
Live = Annotated[
    bool,
    "Serve the page while it runs, at http://127.0.0.1 (this machine alone), and write it at the "
    "end as --page does.",
]
Port = Annotated[int | None, "PORT", "Port of --live. [default: a free one]"]

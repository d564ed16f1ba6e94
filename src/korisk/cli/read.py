"""`korisk read`: how a table is interpreted, and the command that reads it that way."""

from pathlib import Path
from shlex import quote
from typing import Annotated

from korisk.cli.common.command import command
from korisk.cli.common.options import Json, Reading
from korisk.cli.common.output import in_options, print_json, show
from korisk.curves.curve import Curve
from korisk.errors import Absent, Argument, KoriskError, Message


@command("curves.curve.Curve.read", "curves.columns.Options", columns="column")
def read(
    path: Annotated[Path, "TABLE"],
    reading: Reading,
    json: Json = False,
) -> None:
    """Show how a table is interpreted: models, sizes, seeds, unit, and rows left out.

    If it is ambiguous, show the question, with a command for each answer.
    """
    preview = Curve.preview(path, **reading.arguments())
    if json:
        print_json(preview.to_dict())
    elif not preview.question:
        show(preview.table(), *preview.sentences())
        show(f"To plan with it: korisk plan {_options(path, reading)} --target E", whole_lines=True)
    elif isinstance(preview.question, Message):
        # One command for each answer to the question, to copy and run.
        for element in preview.question.parts:
            if isinstance(element, Argument) and element.value is not Absent:
                option = in_options(Message(element)) + " ..." * (element.value is ...)
                show(f"korisk read {_options(path, reading)} {option}", whole_lines=True)
    # An ambiguous table is an error: exit code 2, with the question on stderr.
    if preview.question:
        message = preview.question
        parts = message.parts if isinstance(message, Message) else (message,)
        raise KoriskError(*parts)


def _options(path: Path, reading: Reading) -> str:
    """The path and the options of this call, quoted for a shell."""
    words = [quote(str(path))]
    for name, value in vars(reading).items():
        values = value if isinstance(value, list) else [] if value is None else [value]
        words += [f"--{name} {quote(str(text))}" for text in values]
    return " ".join(words)

"""The command line as a page: every command, argument, option and default, from the program.

A page says where, with a block ```` ```{commands} ````; what stands there is Markdown that is made
when the page is read.
"""

import re
from typing import Any

import typer
from sphinx.application import Sphinx

from korisk.cli.app import app as korisk

_BLOCK = re.compile(r"^```\{commands\}\n```$", re.MULTILINE)
_CODE = re.compile(
    r"(?<![\w`-])(--?[a-z][\w-]*(?: \w+=\w+| [A-Z][\w.=]*)?"
    r"|[\w/]+\.(?:csv|db|html|json|md|npy|pdf|png|svg|yaml)\b)"
)
_DEFAULT = re.compile(r"\s*\[default: ([^]]+)\]")


def commands_text() -> str:
    """All commands in Markdown."""
    group: Any = typer.main.get_command(korisk)
    return "\n\n".join(command_text(name, each) for name, each in group.commands.items())


def command_text(name: str, command: Any) -> str:
    """One command: what it is for, how it is called, what it takes."""
    context = typer.Context(command, info_name=f"korisk {name}")
    usage = command.get_usage(context).removeprefix("Usage: ")
    parts = [
        f"## korisk {name}",
        _prose(command.help),
        f"```\n{re.sub('[{}]', '', usage)}\n```",
    ]
    arguments = [each for each in command.params if each.param_type_name == "argument"]
    options = [each for each in command.params if each.param_type_name == "option"]
    if arguments:
        parts.append(_table("argument", [_row(each, context) for each in arguments]))
    if options:
        parts.append(_table("option", [_row(each, context) for each in options]))
    return "\n\n".join(parts)


def _table(first: str, rows: list[tuple[str, str, str]]) -> str:
    lines = [f"| {first} | means | default |", "| --- | --- | --- |"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def _row(parameter: Any, context: typer.Context) -> tuple[str, str, str]:
    told, help_text = parameter.get_help_record(context) or ("", "")
    name = told.partition(" <")[0] if parameter.param_type_name == "argument" else told
    meaning = re.sub(r"\s*\[(?:default: [^]]+|required)\]", "", help_text)
    return f"`{name.replace('|', chr(92) + '|')}`", _prose(meaning), _default(parameter, help_text)


def _default(parameter: Any, help_text: str) -> str:
    if parameter.required:
        return "needed"
    told = _DEFAULT.search(help_text)
    if told:
        return _prose(told[1])
    if getattr(parameter, "is_flag", False):
        return "on" if parameter.default else "off"
    return ""


def _prose(text: str | None) -> str:
    """Plain words in Markdown: what looks like code is code, and nothing is markup by chance."""
    if not text:
        return ""
    plain = text.strip()
    for mark in ("\\", "*", "<", "|", "$"):
        plain = plain.replace(mark, "\\" + mark)
    plain = re.sub(r"\bdocs/((?:[\w-]+/)*([\w-]+\.md))\b", r"[\2](/\1)", plain)
    return "".join(
        part if part.startswith("[") else _CODE.sub(r"`\1`", part)
        for part in re.split(r"(\[[^]]+\]\(/[^)]+\))", plain)
    )


def _read(app: Sphinx, docname: str, source: list[str]) -> None:
    if _BLOCK.search(source[0]):
        source[0] = _BLOCK.sub(lambda _: commands_text(), source[0])


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the block."""
    app.connect("source-read", _read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

"""Write docs/commands.md from the command line itself: `make docs`."""

import inspect
from collections.abc import Iterator
from pathlib import Path

import click
from rooflens.cli.main import app
from rooflens.cli.shared.options import setting_rows

PAGE = Path(__file__).resolve().parent / "commands.md"
INTRODUCTION = """# Commands

<!-- docs/command_reference.py (`make docs`) generates this page from the commands in cli/: edit them. -->

What `rooflens COMMAND --help` prints, for all commands. `python -m rooflens` is the same as `rooflens`.

| exit code | meaning |
|---|---|
| 0 | success |
| 1 | error: one line on stderr says what, where, and what to do; `rooflens --debug COMMAND` adds the traceback |
| 2 | usage: a wrong name, option or file content; nothing was run |
| 3 | a verified regression |
| 4 | incomplete: a cell failed or was not measured, under `--strict` |
| 5 | a wrong output; from commands other than `compare` and `bench` only under `--strict` |
| 130 | interrupted; what was finished is stored |
"""


def page() -> str:
    """Return the whole page."""
    return INTRODUCTION + "".join(_described(app, click.Context(app, info_name="rooflens"), level=1))


def _described(command: click.Command, context: click.Context, level: int) -> Iterator[str]:
    """Yield the parts of a command and of those inside of it; the group itself has no heading."""
    if level > 1:
        usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
        yield f"\n{'#' * level} {context.command_path}\n\n```text\n{usage}\n```\n"
        yield from _paragraphs(inspect.cleandoc(command.help or ""))
    records = [one.get_help_record(context) or ("", "") for one in command.get_params(context)] + setting_rows(command)
    options = [f"| `{_cell(names)}` | {_cell(text)} |\n" for names, text in records if text and "--help" not in names]
    if level > 1 and options:
        yield from ("\n| option | meaning |\n|---|---|\n", *options)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from _described(inner, click.Context(inner, info_name=name, parent=context), level + 1)


def _paragraphs(text: str) -> Iterator[str]:
    r"""Yield the paragraphs of a help text; one that begins with \b keeps its lines, and is a block of code."""
    for paragraph in text.split("\n\n"):
        if paragraph.startswith("\b\n"):
            title, *lines = paragraph.splitlines()[1:]
            yield f"\n{title}\n\n```text\n{inspect.cleandoc(chr(10).join(lines))}\n```\n"
        else:
            yield f"\n{paragraph}\n"


def _cell(text: str) -> str:
    """Keep a text inside of one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")

"""Tables and JSON on stdout: width, pipes, colours, unknown values."""

import dataclasses
import json
import math
import os
import pty
import re
import subprocess
import sys
from enum import StrEnum
from pathlib import Path

import pytest
from rooflens.cli.output import plain, print_json, print_table


class Colour(StrEnum):
    RED = "red"


@dataclasses.dataclass(frozen=True, slots=True)
class Thing:
    colour: Colour
    sizes: tuple[int, ...]
    time_s: float


class NumpyLike:
    def item(self) -> float:
        return 2.5


def test_plain_reduces_values_to_json(capsys):
    thing = Thing(Colour.RED, (1, 2), math.nan)
    assert plain(thing) == {"colour": "red", "sizes": [1, 2], "time_s": None}
    assert plain({1: Path("a") / "b", "x": NumpyLike(), "inf": math.inf}) == {"1": "a/b", "x": 2.5, "inf": None}
    print_json([thing])
    assert json.loads(capsys.readouterr().out) == [{"colour": "red", "sizes": [1, 2], "time_s": None}]


def test_plain_refuses_what_json_does_not_know():
    with pytest.raises(TypeError, match="object"):
        plain(object())


def test_table_in_a_pipe_is_plain_aligned_and_unwrapped(capsys):
    long = "x" * 300
    print_table(("name", "count", "text"), [("a", 1, long), ("[b]", None, "")])
    assert capsys.readouterr().out.splitlines() == [f"name  count  {'text'}", f"a         1  {long}", "[b]"]


def test_table_without_rows_still_has_its_header(capsys):
    print_table(("name", "count"), [])
    assert capsys.readouterr().out.split() == ["name", "count"]


def on_terminal(code: str, columns: int, **environment: str) -> str:
    """Run `code` with stdout on a pseudo-terminal of the given width and return what arrived there."""
    main_end, terminal = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    kept |= {"TERM": "xterm-256color", "COLUMNS": str(columns), **environment}
    process = subprocess.Popen([sys.executable, "-c", code], stdout=terminal, env=kept)
    os.close(terminal)
    shown = b""
    while True:
        try:
            chunk = os.read(main_end, 4096)
        except OSError:  # Linux reports the closed terminal as an error
            break
        if not chunk:
            break
        shown += chunk
    os.close(main_end)
    assert process.wait(timeout=60) == 0
    return shown.decode()


TABLE = "from rooflens.cli.output import print_table\nprint_table(('name', 'text'), [('abc', 'word ' * 30)])"


def test_table_on_a_terminal_has_a_bold_header_and_wraps_within_the_width():
    shown = on_terminal(TABLE, columns=40)
    assert "\x1b[1m" in shown
    lines = re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()
    assert max(map(len, lines)) <= 40
    assert "".join(lines).count("word") == 30


def test_no_color_leaves_no_escape_codes():
    shown = on_terminal(TABLE, columns=40, NO_COLOR="1")
    assert "\x1b" not in shown
    assert shown.count("word") == 30

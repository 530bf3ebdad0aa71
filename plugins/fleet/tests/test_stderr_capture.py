"""What is written to stderr below Python is held back, what Python says there is not."""

import subprocess
import sys
from textwrap import indent

import pytest

SCRIPT = """
import os, sys
from rooflens.plugins.fleet.ray_environment import captured_stderr
print("before", file=sys.stderr)
try:
    with captured_stderr() as said:
        os.write(2, b"noise of a library\\n")
        print("ours", file=sys.stderr)
        assert said() == "noise of a library\\n", said()
        {more}
except ValueError:
    print("raised", file=sys.stderr)
os.write(2, b"after\\n")
print("last", file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("more", "heard"),
    [
        ("pass", ["before", "ours", "after", "last"]),
        ("raise ValueError", ["before", "ours", "raised", "after", "last"]),
        ("os._exit(0)", ["before", "ours"]),
    ],
)
def test_only_what_python_says_is_heard(more, heard):
    done = subprocess.run([sys.executable, "-c", SCRIPT.format(more=more)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == heard


def test_it_is_heard_through_the_stream_of_the_command_line():
    """Which makes escapes visible, and looks like a stream without being one of `io`."""
    said = SCRIPT.format(more=r"print('a\x07', file=sys.stderr)")
    script = "from rooflens.cli.shared.terminal import visible_streams\nwith visible_streams():\n" + indent(
        said, "    "
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == ["before", "ours", "a[U+0007]", "after", "last"]


def test_a_stream_that_is_not_stderr_stays(capsys):
    from rooflens.plugins.fleet.ray_environment import captured_stderr

    before = sys.stderr
    with captured_stderr():
        assert sys.stderr is before
        print("ours", file=sys.stderr)
    assert capsys.readouterr().err == "ours\n"

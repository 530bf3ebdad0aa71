"""Bash completes the command line, with the script that users read into their shell."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest


def completed(*words: str) -> list[str]:
    """Return what bash offers for the last of the words."""
    script = f"""
eval "$(_ROOFLENS_COMPLETE=bash_source rooflens)"
[[ $(complete -p rooflens) == *" -F _rooflens_completion rooflens" ]]
COMP_WORDS=({shlex.join(words)})
COMP_CWORD={len(words) - 1}
_rooflens_completion rooflens
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize(
    "words, offered",
    [
        (("rooflens", "ro"), ["roofline"]),
        (("rooflens", "list", "dev"), ["devices"]),
        (("rooflens", "run", "--cal"), ["--calibrate"]),
        (("rooflens", "run", "llm4bit", "--timer", "p"), ["profiler"]),
    ],
)
def test_bash_completes_commands_options_and_their_values(words, offered):
    assert completed(*words) == offered

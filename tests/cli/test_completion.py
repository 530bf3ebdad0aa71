"""Bash completes the command line, with the script that users read into their shell."""

import os
import shlex
import sys
from pathlib import Path

from ..environments import printed_by

OFFERED = {
    ("rooflens", "ro"): ["roofline"],
    ("rooflens", "list", "dev"): ["devices"],
    ("rooflens", "run", "--cal"): ["--calibrate"],
    ("rooflens", "run", "llm4bit", "--set", "timer=p"): ["timer=profiler"],
}


def test_bash_completes_commands_options_and_their_values():
    script = """eval "$(_ROOFLENS_COMPLETE=bash_source rooflens)"
[[ $(complete -p rooflens) == *" -F _rooflens_completion rooflens" ]]
"""
    for words in OFFERED:
        script += f"COMP_WORDS=({shlex.join(words)})\nCOMP_CWORD={len(words) - 1}\nCOMPREPLY=()\n"
        script += "_rooflens_completion rooflens\necho ${COMPREPLY[@]}\n"
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = printed_by("bash", "-euo", "pipefail", "-c", script, env=os.environ | {"PATH": path})
    assert done.returncode == 0, done.stderr
    assert [line.split() for line in done.stdout.splitlines()] == list(OFFERED.values())

"""Run a script of cases in Triton's interpreter: in a child, since it must be chosen before Triton is imported."""

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def interpret(script, cases):
    """Return what `script` prints for `cases` (JSON both ways).

    A script that fails is a failure, unless this interpreter cannot even run a loop: then the test is skipped.
    """
    child = _child(script.parent, str(script), input=json.dumps(cases))
    if child.returncode and not _runs_loops():
        pytest.skip("this Triton's interpreter cannot run a loop with this numpy (Triton 3.6 with numpy 2.4)")
    assert child.returncode == 0, child.stderr[-3000:]
    return json.loads(child.stdout)


@cache
def _runs_loops():
    """Whether the least kernel with a loop runs, which none of ours has a part in."""
    return not _child(
        HERE, "-c", "import torch, triton_probes; triton_probes.loop_kernel[(1,)](torch.empty(1), 5)"
    ).returncode


def _child(folder, *arguments, **pipes):
    path = os.pathsep.join(filter(None, (str(folder), str(HERE), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=300, check=False, **pipes
    )

"""Run a script of cases in Triton's interpreter: in a child, since it must be chosen before Triton is imported."""

import atexit
import inspect
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import traceback
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

HERE = Path(__file__).parent
TIMEOUT_S = 300


def interpret(script, cases):
    """Return what `script` prints for `cases` (JSON both ways).

    A script that fails is a failure, unless this interpreter cannot even run a loop: then the test is skipped.
    """
    code, output, messages = _run(script, json.dumps(cases))
    if code and not _runs_loops():
        pytest.skip("this Triton's interpreter cannot run a loop with this numpy (Triton 3.6 with numpy 2.4)")
    assert code == 0, messages[-3000:]
    return json.loads(output)


@cache
def _runs_loops():
    """Whether the least kernel with a loop runs, which none of ours has a part in."""
    return not _run(HERE / "interpret_loop.py", "")[0]


def _run(script, text):
    """Run a script in a fork of the server; return its exit code and what it wrote."""
    server = _server()
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "in").write_text(text)
        print(json.dumps([str(script), folder]), file=server.stdin, flush=True)
        answer = server.stdout.readline()
        assert answer, "the interpreter's process ended"
        return int(answer), Path(folder, "out").read_text(), Path(folder, "err").read_text()


@cache
def _server():
    """Start the process that imports torch and Triton once, for all scripts."""
    path = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    server = subprocess.Popen(
        [sys.executable, str(HERE / "interpreter.py")],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    atexit.register(server.communicate)  # closes its stdin, which ends it
    return server


def _serve():
    """Run each script that a line names in a fork, with the pipes of a process of its own as files."""
    import torch  # noqa: F401
    from triton.runtime import interpreter

    interpreter.inspect = SimpleNamespace(**{**vars(inspect), "getmembers": _builtins})
    for line in sys.stdin:
        script, folder = json.loads(line)
        child = os.fork()
        if not child:
            _become(Path(script), Path(folder))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


@cache
def _names_of_builtins(where):
    import triton.language as tl

    return [name for name, member in inspect.getmembers(where) if tl.core.is_builtin(member)]


def _builtins(where):
    """Return the members that the interpreter looks for at every call of a device function, a third of its time."""
    return [(name, getattr(where, name)) for name in _names_of_builtins(where)]


def _become(script, folder):
    signal.alarm(TIMEOUT_S)
    for number, (name, flags) in enumerate(
        (("in", os.O_RDONLY), ("out", os.O_WRONLY | os.O_CREAT), ("err", os.O_WRONLY | os.O_CREAT))
    ):
        os.dup2(os.open(folder / name, flags), number)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.path.insert(0, str(script.parent))
    code = 1
    try:
        runpy.run_path(str(script), run_name="__main__")
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve()

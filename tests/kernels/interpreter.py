"""Tests whose body runs in Triton's interpreter: in a child, since it must be chosen before Triton is imported."""

import importlib
import inspect
import os
import pickle
import signal
import sys
import tempfile
from functools import cache, wraps
from pathlib import Path
from types import SimpleNamespace

import pytest

HERE = Path(__file__).parent
TIMEOUT_S = 300


def interpreted(test):
    """Decorate a test whose body runs in the interpreter; its parameters go there, and nothing comes back.

    What fails there fails here, unless this interpreter cannot even run a loop: then the test is skipped.
    """

    @wraps(test)
    def run(**parameters):
        code, messages = _run(test, parameters)
        if code and _run(_loop, {})[0]:
            pytest.skip("this Triton's interpreter cannot run a loop with this numpy (Triton 3.6 with numpy 2.4)")
        assert code == 0, messages[-3000:]

    return run


def _loop():
    """Run the least kernel with a loop, which none of ours has a part in."""
    import torch

    from . import triton_probes

    triton_probes.loop_kernel[(1,)](torch.empty(1), 5)


def _run(function, parameters):
    """Run a function in a fork of the server; return its exit code and what it printed."""
    with tempfile.TemporaryFile("w+") as output:
        told = function.__module__, function.__name__, pickle.dumps(parameters)
        process = _server().fork(f"import interpreter\ninterpreter.become(*{told})", *2 * [output.fileno()])
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        output.seek(0)
        return code, output.read()


@cache
def _server():
    """Start the process that imports torch and Triton once, for all tests."""
    path = os.pathsep.join(filter(None, (str(HERE), os.environ.get("PYTHONPATH"))))
    from ..forks import Server  # which the process itself does not need

    variables = {"TRITON_INTERPRET": "1", "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    return Server("import interpreter\ninterpreter.prepare()", **variables)


def prepare():
    import interpreter_repairs
    from triton.runtime import interpreter

    interpreter.inspect = SimpleNamespace(**{**vars(inspect), "getmembers": _builtins})
    interpreter_repairs.repair()
    sys.path.insert(0, str(HERE.parents[1]))


@cache
def _names_of_builtins(where):
    import triton.language as tl

    return [name for name, member in inspect.getmembers(where) if tl.core.is_builtin(member)]


def _builtins(where):
    """Return the members that the interpreter looks for at every call of a device function, a third of its time."""
    return [(name, getattr(where, name)) for name in _names_of_builtins(where)]


def become(module, name, parameters):
    signal.alarm(TIMEOUT_S)
    inspect.unwrap(getattr(importlib.import_module(module), name))(**pickle.loads(parameters))
    sys.stdout.flush()
    os._exit(0)

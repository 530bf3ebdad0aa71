"""Processes that are forked from one that has imported torch, which takes each of them seconds otherwise.

They are children of this process: an orphan goes to the next subreaper. Commands in a process of their own
(`tiny_runs.fresh`, `start`) start their workers as users' do; so does whoever gives them another environment, changes
variables that libraries read when they are imported, or where modules are imported from.
"""

import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
from functools import cache
from itertools import takewhile
from pathlib import Path

READ_AT_IMPORT = ("OMP_", "KMP_", "MKL_", "ATEN_", "ONEDNN_", "DNNL_", "LD_", "PYTHON", "TORCH_", "TRITON_", "CUDA_")
SET_SUBREAPER = 36
LOCK = threading.Lock()


def serve(handle):
    """Fork for each message, which says what to run, and for whom; a fork returns it when it is that child."""
    asked = socket.socket(fileno=handle)
    while (received := socket.recv_fds(asked, 1 << 20, 3))[0]:
        if not (middle := os.fork()):
            if os.fork():
                os._exit(0)
            return become(asked, received[1], **json.loads(received[0]))
        os.waitpid(middle, 0)
        list(map(os.close, received[1]))
    os._exit(0)  # without a word of what bindings leak


def become(asked, handles, parent, folder, cores, variables, code):
    """Run the code as a child of `parent`, on these cores, with this output, and a pipe or none."""
    while os.getppid() != parent:
        os.sched_yield()
    for number, one in enumerate(handles[:2], 1):
        os.dup2(one, number)
        os.close(one)
    os.chdir(folder)
    os.sched_setaffinity(0, cores)
    os.environ.clear()
    os.environ.update(variables)
    asked.send(str(os.getpid()).encode())
    asked.close()
    sys.argv = ["-c", *map(str, handles[2:])]
    exec(code, {"__name__": "__main__"})


class Server:
    """A process that has run `prepare`, with these variables."""

    def __init__(self, prepare, **variables):
        self._variables, (self._asked, theirs) = variables, socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            code = f"{Path(__file__).read_text()}\n{prepare}\nserve({theirs.fileno()})"
            how = {"pass_fds": [theirs.fileno()], "env": os.environ | variables, "process_group": 0}
            self._process = subprocess.Popen([sys.executable, "-P", "-c", code], stdin=subprocess.DEVNULL, **how)

    def fork(self, code, *handles):
        """Return the process that runs the code; `handles`: where it prints, and what warns, and a pipe."""
        told = {"parent": os.getpid(), "folder": os.getcwd(), "cores": [*os.sched_getaffinity(0)], "code": code}
        told["variables"] = os.environ | self._variables
        with LOCK:
            ctypes.CDLL(None).prctl(SET_SUBREAPER, 1, 0, 0, 0)
            socket.send_fds(self._asked, [json.dumps(told).encode()], handles)
            pid = int(self._asked.recv(20))
            ctypes.CDLL(None).prctl(SET_SUBREAPER, 0, 0, 0, 0)
        return pid


def workers():
    """The one server of workers, whichever thread asks first."""
    with LOCK:
        return server_of_workers()


@cache
def server_of_workers():
    """The first decomposition of torch imports torch._dynamo."""
    return Server("import numpy, torch._dynamo, rooflens.harness.sweep.supervisor, rooflens.harness.worker.worker")


def settings_of_libraries():
    read = {name: value for name, value in os.environ.items() if name.startswith(READ_AT_IMPORT)}
    # What is imported later, of ray say, appends places of its own, behind those of all packages.
    return read, [*takewhile(lambda place: "-packages" not in str(place), sys.path)], [*sys.warnoptions]


class Forked(subprocess.Popen):
    """A worker; no two draw the same random numbers."""

    began_as = None

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *others):
        if env is not None or settings_of_libraries() != self.began_as:
            return super()._execute_child(args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *others)
        code = f"import random, numpy\nrandom.seed()\nnumpy.random.seed()\n{args[-2]}"
        self.pid, self._child_created = workers().fork(code, 1, 2, *pass_fds), True
        return self._close_pipe_fds(*others[3:9])

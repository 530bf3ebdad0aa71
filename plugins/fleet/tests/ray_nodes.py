"""Real nodes of Ray on 127.0.0.1, each in a session of its own, so that all of it can be ended whatever it does."""

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager, suppress
from pathlib import Path

LAUNCHER = Path(__file__).with_name("loopback_node.py")

PLANTED = Path(__file__).parent / "planted_node"
"""On the PYTHONPATH of a node, this makes it say other things of its machine."""

FAST_DEATH = {
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "3000",
    "RAY_health_check_failure_threshold": "3",
    "RAY_health_check_initial_delay_ms": "1000",
}
"""Ray takes a minute to call a node dead that does not answer; tests do not wait for so long."""

STORE_BYTES = 80_000_000
"""The least that Ray takes for its object store."""

START_S = 90.0

OWN = ("RAY_ADDRESS", "PYTHONPATH", "OMP_NUM_THREADS", "ROCR_VISIBLE_DEVICES")


class Node:
    """One node. `processes` are all of it: the raylet, its helpers, the workers and what they started."""

    def __init__(self, command, environment):
        self.folder = Path(tempfile.mkdtemp(prefix="rl-", dir="/tmp"))  # a path that is longer has no room for sockets
        self.log = self.folder / "start.log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(LAUNCHER), "start", "--block", *command, "--temp-dir", str(self.folder / "t")],
                cwd=self.folder,
                env={"TMPDIR": str(self.folder), **environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self):
        """Return once the node has joined its cluster."""
        until = time.monotonic() + START_S
        while b"Ray runtime started" not in self.log.read_bytes():
            assert self._process.poll() is None, self.log.read_text()
            assert time.monotonic() < until, self.log.read_text()
            time.sleep(0.02)

    def processes(self, *words):
        """Pids whose command line has all of `words`."""
        wanted = [word.encode() for word in words]
        return [pid for pid, line in _session(self._process.pid).items() if all(word in line for word in wanted)]

    def actors(self):
        """Pids of the actors that start workers."""
        return self.processes("ray::RayHost")

    def measuring(self):
        """Pids of the workers that measure."""
        return self.processes("child_process")

    def lose(self, process="raylet/raylet"):
        """Kill what stands for the node; everything else of it goes by itself, as on a machine that is switched off."""
        (pid,) = self.processes(process)
        os.kill(pid, signal.SIGKILL)

    def end(self):
        """Kill everything of it, until nothing is left, and remove its files."""
        until = time.monotonic() + 20
        while alive := _session(self._process.pid):
            assert time.monotonic() < until, alive
            for pid in alive:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.poll()
            time.sleep(0.02)
        self._process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class RayNodes:
    """A cluster: its head, which offers nothing unless told, and the nodes that were added."""

    def __init__(self, slots=0):
        self.environment = {name: value for name, value in os.environ.items() if name not in OWN}
        self.environment |= FAST_DEATH | {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": secrets.token_hex(16),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_worker_niceness": "0",
            "RAY_worker_oom_score_adjustment": "0",
            "RAY_memory_monitor_refresh_ms": "0",
            "RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE": "1",
        }
        with socket.create_server(("127.0.0.1", 0)) as server:
            self.address = f"127.0.0.1:{server.getsockname()[1]}"
        port = self.address.rpartition(":")[2]
        head = ("--head", "--port", port, "--include-dashboard=false", "--disable-usage-stats")
        self.nodes = []
        try:
            self.head = self._start(head, {cpu_arch(): slots} if slots else {}, {})
            self.head.wait()
        except BaseException:
            self.end()
            raise

    def begin(self, offers=None, **environment):
        """Start a node that offers one slot of this CPU, or `offers`; `wait` on what is returned."""
        node = self._start(("--address", self.address), offers or {cpu_arch(): 1}, environment)
        self.nodes.append(node)
        return node

    @contextmanager
    def added(self, offers=None, **environment):
        """Add a node that has joined, and end it with the block."""
        node = self.begin(offers, **environment)
        try:
            node.wait()
            yield node
        finally:
            node.end()
            self.nodes.remove(node)

    def end(self):
        """End all nodes, the head last."""
        for node in [*reversed(self.nodes), *([self.head] if hasattr(self, "head") else [])]:
            node.end()

    def _start(self, arguments, offers, environment):
        command = (*arguments, "--node-ip-address", "127.0.0.1", "--num-cpus", "1", "--num-gpus", "0")
        resources = ("--resources", json.dumps(offers), "--object-store-memory", str(STORE_BYTES))
        return Node((*command, *resources), self.environment | environment)


@contextmanager
def cluster(nodes=2):
    """Run a head and `nodes` nodes with a slot each until the block ends."""
    found = RayNodes()
    try:
        for node in [found.begin() for _ in range(nodes)]:
            node.wait()
        yield found
    finally:
        found.end()


def cpu_arch():
    """Return what the CPU of this machine is called, as `rooflens fleet resources` prints it."""
    from rooflens.harness.machine.device import find_device

    return find_device("cpu").arch


def _session(leader):
    """Map the pids of a session to their command lines; who is gone and not reaped is not among them."""
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal():
            continue
        with suppress(OSError):
            state, _, _, session = entry.joinpath("stat").read_bytes().rpartition(b") ")[2].split()[:4]
            if int(session) == leader and state not in (b"Z", b"X"):
                found[int(entry.name)] = entry.joinpath("cmdline").read_bytes()
    return found

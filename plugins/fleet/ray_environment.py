"""Prepares the environment before Ray is imported; finds the clusters of this machine; captures Ray's C++ logs.

Ray's own search for a cluster may wait for minutes. This module imports no Ray.
"""

import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ...shapes.errors import RooflensError, UsageError

STDERR = 2

MOST_BYTES = 1 << 20
"""Most captured output that is read back."""


@contextmanager
def captured_stderr() -> Iterator[Callable[[], str]]:
    """Capture what is written to the descriptor of stderr, but not by Python; yields a function that returns it."""
    with tempfile.TemporaryFile() as file:
        handle = os.dup(STDERR)
        _let_python_write_to(handle)
        os.dup2(file.fileno(), STDERR)
        try:
            yield lambda: os.pread(file.fileno(), MOST_BYTES, 0).decode(errors="replace")
        finally:
            os.dup2(handle, STDERR)
            _let_python_write_to(STDERR)
            os.close(handle)


def _let_python_write_to(descriptor: int) -> None:
    """Turn the stream of stderr to a descriptor, in place: others hold it, and wrap it."""
    with suppress(AttributeError, ValueError, OSError):  # there is none, or it is closed
        stream: Any = sys.__stderr__
        stream.flush()
        getattr(stream.buffer, "raw", stream.buffer).__init__(descriptor, "wb", closefd=False)


_ADDRESS = b"--gcs-address="


def addresses(proc: Path = Path("/proc")) -> list[str]:
    """Return HOST:PORT of the head of each cluster that has a node here; processes of other users are skipped."""
    return sorted(set(_addresses(proc)))


def _addresses(proc: Path) -> Iterator[str]:
    for process in proc.iterdir():
        if not process.name.isdecimal():
            continue
        with suppress(OSError, UnicodeDecodeError):
            arguments = (process / "cmdline").read_bytes().split(b"\0")
            if os.path.basename(arguments[0]) != b"raylet":
                continue
            yield from (one.removeprefix(_ADDRESS).decode() for one in arguments if one.startswith(_ADDRESS))


EXTRA = "pip install 'rooflens[fleet]'"

_LOOPBACK_ONLY = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""0 keeps Ray on 127.0.0.1; otherwise it uses the address of a network interface, regardless of its settings."""

# A thread that is late must not make Ray start a cluster of its own.
_ALWAYS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0", "RAY_ENABLE_AUTO_CONNECT": "0"}

_OF_A_NODE = {
    # As under `rooflens run`: by default, Ray's workers have nice 15, and are killed first when memory is short.
    "RAY_worker_niceness": "0",
    "RAY_worker_oom_score_adjustment": "0",
    "RAY_memory_monitor_refresh_ms": "0",
    # A small /dev/shm, as in containers, is sufficient for our messages.
    "RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE": "1",
}

# Ray ends a process, silently, whose head has not answered for a minute, by a clock that may jump; and one that leaves
# a dead node, if this pid is of no process, or, without a pid, if the process is a child of init.
_OF_A_DRIVER = {"RAY_gcs_rpc_server_reconnect_timeout_s": "1000000000", "RAY_RAYLET_PID": "1"}

TOKEN = Path(".ray") / "auth_token"
"""Where Ray keeps the token of a user, below the home directory."""

CONNECT_S = 5.0
"""Timeout of our own connection; Ray would try for minutes."""


def for_address(address: str) -> str:
    """Prepare to join the cluster at `address`, HOST:PORT or "auto" for the one of this machine; return HOST:PORT.

    Raises where there is none, or nothing answers.
    """
    refuse_without_ray()
    os.environ |= _ALWAYS | os.environ | _OF_A_DRIVER
    if has_token():  # a cluster without tokens accepts one
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    found = _local_address() if address == "auto" else address
    if is_loopback(refuse_silent(found)):
        os.environ.setdefault(_LOOPBACK_ONLY, "0")
    return found


def _local_address() -> str:
    """Return HOST:PORT of the cluster that this machine is a node of."""
    named = os.environ.get("RAY_ADDRESS", "auto")
    found = addresses() if named == "auto" else [named]
    if not found:
        raise RooflensError(
            "no Ray cluster runs on this machine: start one with rooflens fleet start, name --address HOST:PORT, or "
            "use --jobs local for the GPUs of this machine alone"
        )
    if len(found) > 1:
        raise UsageError(f"this machine is in several Ray clusters: name one of --address {', '.join(found)}")
    return found[0]


def for_node(address: str) -> None:
    """Prepare to start a node of a cluster: its head with "", else one that joins at `address`.

    The processes of Ray inherit the variables; one that is set already stays. Raises when a joining node has no token,
    or nothing answers.
    """
    refuse_without_ray()
    os.environ |= _ALWAYS | _OF_A_NODE | {"RAY_AUTH_MODE": "token"} | os.environ
    if not address:
        return
    refuse_silent(address)
    if os.environ["RAY_AUTH_MODE"] == "token" and not has_token():
        raise RooflensError(
            f"there is no token in ~/{TOKEN}: copy that file from the head, which made it with rooflens fleet start"
        )


def refuse_silent(address: str) -> str:
    """Return the host of HOST:PORT. Raises UsageError for any other form, and RooflensError when nothing answers.

    Ray itself would try for minutes.
    """
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or "/" in address:
        raise UsageError(f"--address {address!r}: write HOST:PORT of the head, such as 10.0.0.7:6379, or auto")
    if not answers(host, int(port)):
        raise RooflensError(
            f"no Ray cluster answers at {address}: start one there with rooflens fleet start, or name another --address"
        )
    return host


def refuse_taken(port: int) -> None:
    """Raise UsageError when a head could not listen at this port: Ray itself would print a traceback."""
    head = next((found for found in addresses() if found.endswith(f":{port}")), None)
    if head:
        raise UsageError(
            f"this machine is in the Ray cluster at {head} already: end it with ray stop, or choose a --port"
        )
    if answers("127.0.0.1", port):
        raise UsageError(f"port {port} of this machine is taken by another program: choose a --port")


def answers(host: str, port: int) -> bool:
    """Tell whether something accepts connections there."""
    with suppress(OSError), socket.create_connection((host, port), CONNECT_S):
        return True
    return False


def is_loopback(host: str) -> bool:
    """Tell whether a host is the loopback interface."""
    return host == "localhost" or host.startswith("127.")


def has_token() -> bool:
    """Tell whether this user has a token for a cluster."""
    named = any(os.environ.get(name) for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"))
    return named or Path(os.path.expanduser("~"), TOKEN).is_file()


def refuse_without_ray() -> None:
    """Raise RooflensError when Ray is not installed, or would refuse to start."""
    import importlib.util

    if importlib.util.find_spec("ray") is None:
        raise RooflensError(f"a cluster requires Ray, which is not installed: {EXTRA}")
    if os.environ.get("ROCR_VISIBLE_DEVICES") and not os.environ.get("HIP_VISIBLE_DEVICES"):
        raise RooflensError(
            "Ray rejects ROCR_VISIBLE_DEVICES: unset it, and select AMD GPUs with HIP_VISIBLE_DEVICES instead"
        )

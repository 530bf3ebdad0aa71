"""Around Ray, before it is imported: what it reads from the environment, the clusters that this machine belongs to
(Ray's own search may wait for minutes), and its C++ logs, kept from stderr. This module imports no Ray.
"""

import io
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from ...shapes.errors import RooflensError, UsageError

STDERR = 2

MOST_BYTES = 1 << 20
"""So much of what was held back is told."""


@contextmanager
def muffled() -> Iterator[Callable[[], str]]:
    """Let `sys.stderr` go on, and nothing else get there; yields what returns the text that was held back so far."""
    with tempfile.TemporaryFile() as held:
        sys.stderr.flush()
        handle, mine = os.dup(STDERR), None
        # A stream that passes on to another keeps its place: it is the other that is exchanged.
        holder, name = (sys.stderr, "stream") if hasattr(sys.stderr, "stream") else (sys, "stderr")
        stream: TextIO = getattr(holder, name)
        if _descriptor(stream) == STDERR:
            mine = open(handle, "w", buffering=1, encoding=stream.encoding, errors=stream.errors, closefd=False)  # noqa: SIM115
            setattr(holder, name, mine)
        os.dup2(held.fileno(), STDERR)
        try:
            yield lambda: os.pread(held.fileno(), MOST_BYTES, 0).decode(errors="replace")
        finally:
            os.dup2(handle, STDERR)
            if mine is not None:
                mine.close()
                setattr(holder, name, stream)
            os.close(handle)


def _descriptor(stream: object) -> int | None:
    try:
        return stream.fileno() if isinstance(stream, io.IOBase) else None
    except OSError:  # a stream in memory has none
        return None


LOCAL = "ROOFLENS_LOCAL_CLUSTER"
"""Variable of the processes of a cluster that a sweep started for itself: nobody else joins it."""

_ADDRESS = b"--gcs-address="


def addresses(proc: Path = Path("/proc")) -> list[str]:
    """Return HOST:PORT of the head of each cluster that has a node here, without those of `rooflens run --jobs`.

    What belongs to another user, or ends meanwhile, is left out.
    """
    return sorted(set(_addresses(proc)))


def _addresses(proc: Path) -> Iterator[str]:
    for process in proc.iterdir():
        if not process.name.isdecimal():
            continue
        with suppress(OSError, UnicodeDecodeError):
            arguments = (process / "cmdline").read_bytes().split(b"\0")
            if os.path.basename(arguments[0]) != b"raylet":
                continue
            variables = (process / "environ").read_bytes().split(b"\0")
            if any(one.startswith(f"{LOCAL}=".encode()) for one in variables):
                continue
            yield from (one.removeprefix(_ADDRESS).decode() for one in arguments if one.startswith(_ADDRESS))


EXTRA = "pip install 'rooflens[fleet]'"

_LOOPBACK_ONLY = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""0 keeps Ray on 127.0.0.1; otherwise it replaces that by the address of a network interface, whatever it is told."""

_ALWAYS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}

_OF_A_NODE = {
    # Workers as `rooflens run` has them: Ray's own are at nice 15, and the first to go when memory is short.
    "RAY_worker_niceness": "0",
    "RAY_worker_oom_score_adjustment": "0",
    "RAY_memory_monitor_refresh_ms": "0",
    # A small /dev/shm, as in containers, is no obstacle to parcels of some MB.
    "RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE": "1",
}

TOKEN = Path(".ray") / "auth_token"
"""Where Ray keeps the token of a user, below the home directory."""

CONNECT_S = 5.0
"""Ray tries for minutes to reach what does not answer; this long is enough to tell."""


def for_local_cluster() -> None:
    """Prepare for a cluster on this machine alone: on the loopback, with a token that only its processes know."""
    refuse_without_ray()
    os.environ.update(_ALWAYS | _OF_A_NODE | {_LOOPBACK_ONLY: "0", LOCAL: "1"})
    os.environ.pop("RAY_ADDRESS", None)
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))


def for_address(address: str) -> str:
    """Prepare to join the cluster at `address`, HOST:PORT or "auto" for the one of this machine; return HOST:PORT.

    Raises where there is none, or nothing answers.
    """
    refuse_without_ray()
    for name, value in _ALWAYS.items():
        os.environ.setdefault(name, value)
    if has_token():  # a cluster without tokens does not mind one
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    found = _the_one_here() if address == "auto" else address
    if is_loopback(refuse_silent(found)):
        os.environ.setdefault(_LOOPBACK_ONLY, "0")
    return found


def _the_one_here() -> str:
    """Return HOST:PORT of the cluster that this machine is a node of."""
    named = os.environ.get("RAY_ADDRESS", "auto")
    found = addresses() if named == "auto" else [named]
    if not found:
        raise RooflensError(
            "no Ray cluster runs on this machine: start one with rooflens fleet start, name --address HOST:PORT, or "
            "leave --address out to use this machine alone"
        )
    if len(found) > 1:
        raise UsageError(f"this machine is in several Ray clusters: name one of --address {', '.join(found)}")
    return found[0]


def for_node(address: str) -> None:
    """Prepare to start a node of a cluster: its head with "", else one that joins at `address`.

    The variables go to the processes of Ray; one that is set already stays. Raises where there is no token for a node
    that joins, or nothing answers.
    """
    refuse_without_ray()
    for name, value in (_ALWAYS | _OF_A_NODE | {"RAY_AUTH_MODE": "token"}).items():
        os.environ.setdefault(name, value)
    if not address:
        return
    refuse_silent(address)
    if os.environ["RAY_AUTH_MODE"] == "token" and not has_token():
        raise RooflensError(
            f"there is no token in ~/{TOKEN}: copy that file from the head, which made it with rooflens fleet start"
        )


def refuse_silent(address: str) -> str:
    """Return the host of HOST:PORT. Raises UsageError for what is none, and RooflensError when nothing answers there.

    Ray itself goes on trying for minutes.
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
    """Raise UsageError when a head could not listen at this port here: Ray itself would say so in a traceback."""
    head = next((found for found in addresses() if found.endswith(f":{port}")), None)
    if head:
        raise UsageError(
            f"this machine is in the Ray cluster at {head} already: end it with ray stop, or choose a --port"
        )
    if answers("127.0.0.1", port):
        raise UsageError(f"port {port} of this machine is taken by another program: choose a --port")


def answers(host: str, port: int) -> bool:
    """Tell whether something takes connections there."""
    try:
        socket.create_connection((host, port), CONNECT_S).close()
    except OSError:
        return False
    return True


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine, by a name that nobody else knows it by."""
    return host == "localhost" or host.startswith("127.")


def has_token() -> bool:
    """Tell whether there is a token by which this user could be known to a cluster."""
    named = any(os.environ.get(name) for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"))
    return named or Path(os.path.expanduser("~"), TOKEN).is_file()


def refuse_without_ray() -> None:
    """Raise RooflensError that names the extra where Ray is not installed, or refuses to be imported."""
    import importlib.util

    if importlib.util.find_spec("ray") is None:
        raise RooflensError(f"a fleet runs on Ray, which is not here: {EXTRA}")
    if os.environ.get("ROCR_VISIBLE_DEVICES") and not os.environ.get("HIP_VISIBLE_DEVICES"):
        raise RooflensError(
            "Ray takes no ROCR_VISIBLE_DEVICES: unset it, and choose AMD GPUs by HIP_VISIBLE_DEVICES instead"
        )

"""What Ray reads from the environment when it is imported. This module imports no Ray: it comes first."""

import os
import secrets
import socket
from pathlib import Path

from ...shapes.errors import RooflensError, UsageError

EXTRA = "pip install 'rooflens[fleet]'"

_LOOPBACK_ONLY = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
"""0 keeps Ray on 127.0.0.1; otherwise it replaces that by the address of a network interface, whatever it is told."""

_ALWAYS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "0"}

_LOCAL = {
    _LOOPBACK_ONLY: "0",
    # Workers as `rooflens run` has them: Ray's own are at nice 15, and the first to go when memory is short.
    "RAY_worker_niceness": "0",
    "RAY_worker_oom_score_adjustment": "0",
    "RAY_memory_monitor_refresh_ms": "0",
    # A small /dev/shm, as in containers, is no obstacle to parcels of some MB.
    "RAY_OBJECT_STORE_ALLOW_SLOW_STORAGE": "1",
}

CONNECT_S = 5.0
"""Ray tries for minutes to reach what does not answer; this long is enough to tell."""


def for_local_cluster() -> None:
    """Prepare for a cluster on this machine alone: on the loopback, with a token that only its processes know."""
    refuse_without_ray()
    os.environ.update(_ALWAYS | _LOCAL)
    os.environ.pop("RAY_ADDRESS", None)
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32))


def for_address(address: str) -> None:
    """Prepare to join the cluster at `address`, "auto" or HOST:PORT. Raises where nothing answers there."""
    refuse_without_ray()
    for name, value in _ALWAYS.items():
        os.environ.setdefault(name, value)
    if address == "auto":
        return
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or "/" in address:
        raise UsageError(f"--address {address!r}: write auto, or HOST:PORT as ray start --head printed it")
    if is_loopback(host):
        os.environ.setdefault(_LOOPBACK_ONLY, "0")
    if not answers(host, int(port)):
        raise RooflensError(
            f"no Ray cluster answers at {address}: start one there with ray start --head, or name another --address"
        )


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
    return named or (Path.home() / ".ray" / "auth_token").is_file()


def refuse_without_ray() -> None:
    """Raise RooflensError that names the extra where Ray is not installed, or refuses to be imported."""
    import importlib.util

    if importlib.util.find_spec("ray") is None:
        raise RooflensError(f"a fleet runs on Ray, which is not here: {EXTRA}")
    if os.environ.get("ROCR_VISIBLE_DEVICES") and not os.environ.get("HIP_VISIBLE_DEVICES"):
        raise RooflensError(
            "Ray takes no ROCR_VISIBLE_DEVICES: unset it, and choose AMD GPUs by HIP_VISIBLE_DEVICES instead"
        )

"""The Ray clusters that this machine is a node of, read from its processes. Ray's own search may wait for minutes."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

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

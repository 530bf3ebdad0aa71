"""Scratch folders of stations, and what killed ones leave of them on their machine."""

import fcntl
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from ..lock import LOCK, locked
from ..tables import reported

PREFIX = "rooflens-"

YOUNG_S = 60.0
"""A folder that is younger may be one whose station has not yet taken its lock."""


def claim(scratch: Path) -> None:
    """Make the scratch folder of a station its own until its process ends; remove those of killed ones beside it.

    Raises RooflensError when the disk refuses.
    """
    for other in scratch.parent.glob(f"{PREFIX}*/{LOCK}"):
        with suppress(OSError):  # of another user, or it has gone meanwhile
            if time.time() - other.stat().st_mtime >= YOUNG_S and _is_free(other):
                shutil.rmtree(other.parent, ignore_errors=True)
    with reported(scratch):
        scratch.mkdir(parents=True, exist_ok=True)
    locked(scratch)


def _is_free(lock: Path) -> bool:
    handle = os.open(lock, os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True

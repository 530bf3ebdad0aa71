"""Folders for temporary files: private to the user, and each marked by the process that made it.

Only folders with such a marker are ever removed, and of these only those whose process has ended: it holds a lock on
its marker until then, however it ends. A lock, because containers with process numbers of their own may share a disk.
"""

import fcntl
import json
import os
import secrets
import shutil
import socket
from contextlib import suppress
from pathlib import Path

from ...kernels.cache_folder import make_private, temporary_folder
from ...shapes.errors import UsageError
from .tables import reported

MARKER = ".rooflens-scratch"


def new_scratch(name: str) -> Path:
    """Path of a scratch folder in the user's temporary folder that nothing else uses; `open_scratch` makes it."""
    return temporary_folder() / f"{name}-{secrets.token_hex(4)}"


def open_scratch(folder: Path) -> int:
    """Make a folder of `new_scratch`, after removing those of ended processes beside it; see `make_scratch`."""
    remove_abandoned(make_private(folder.parent, "TMPDIR"))
    return make_scratch(folder)


def make_scratch(folder: Path) -> int:
    """Make a folder that belongs to this process until it ends; return the handle that holds its marker.

    What a process that has ended left at that very place is removed first. Raises UsageError when anything else is
    there, and RooflensError when the disk refuses.
    """
    with reported(folder):
        if folder.exists() and not _remove_if_abandoned(folder):
            raise UsageError(f"{folder} is in use by another rooflens, or not made by one: wait, or move it away")
        folder.mkdir(mode=0o700, parents=True)
        handle = os.open(folder / MARKER, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with suppress(OSError):  # without locks (some network disks) it is never removed by another process
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            said = {"folder": folder.name, "host": socket.gethostname(), "uid": os.getuid(), "pid": os.getpid()}
            os.write(handle, json.dumps(said).encode())
    return handle


def remove_scratch(folder: Path, handle: int) -> None:
    """Remove a folder of this process. What cannot be removed yet keeps its marker, and is abandoned."""
    try:
        for path in folder.iterdir():
            with suppress(OSError):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                elif path.name != MARKER:
                    path.unlink()
        if [path.name for path in folder.iterdir()] == [MARKER]:
            shutil.rmtree(folder, ignore_errors=True)
    except FileNotFoundError:  # who cleans temporary files was faster
        pass
    finally:
        os.close(handle)


def remove_abandoned(parent: Path) -> None:
    """Remove the scratch folders in `parent` whose processes have ended."""
    for marker in parent.glob(f"*/{MARKER}"):
        _remove_if_abandoned(marker.parent)


def _remove_if_abandoned(folder: Path) -> bool:
    """Remove a folder if this user made it on this machine by `make_scratch`, in a process that has ended."""
    try:
        handle = os.open(folder / MARKER, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:  # none, of another user, or it has gone meanwhile
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Another process may have removed the folder, and a third one made it anew, before the lock was ours.
        if not os.path.samestat(os.fstat(handle), os.lstat(folder / MARKER)):
            return False
        said = json.loads(os.read(handle, 4096))
        expected = {"folder": folder.name, "host": socket.gethostname(), "uid": os.getuid()}
        if folder.is_symlink() or not isinstance(said, dict) or not expected.items() <= said.items():
            return False
        shutil.rmtree(folder, ignore_errors=True)
        return True
    except (OSError, ValueError):  # locked, or not written by us
        return False
    finally:
        os.close(handle)

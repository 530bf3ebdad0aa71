"""The lock of a run folder: one writer, or any number of readers, and the kernel lets go of it when a process ends.

Only its owner can open the file: who can read a file can lock it, and so keep its owner from writing.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ...shapes.errors import RooflensError, UsageError
from .tables import disk_error

LOCK = ".lock"


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Keep writers out of a run while it is read, and change nothing in its folder.

    Raises UsageError when one is in. A folder without a lock file (a copy of a run) has no writer. The run of another
    user is only checked for one.
    """
    written = UsageError(f"{folder} is being written by a rooflens run: wait until that has ended")
    try:
        handle = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        if isinstance(error, PermissionError) and _is_held(folder / LOCK):
            raise written from None
        yield
        return
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise written from None
        except OSError as error:
            raise RooflensError(f"cannot lock {folder}: {error.strerror or error}; copy it to another disk") from error
        yield
    finally:
        os.close(handle)


def locked(folder: Path) -> int:
    """Take the folder's lock; the kernel releases it when the process ends, however it ends.

    Raises UsageError for a folder that holds a link, through which something else would be written, and where another
    process has the lock; RooflensError where there are no locks.
    """
    try:
        for path in folder.iterdir():
            if path.is_symlink():
                raise UsageError(f"{path} is a link, and this would write over {os.readlink(path)}: copy that here")
        handle = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise disk_error(folder, error) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.read(handle, 64).decode(errors="replace").strip() or "unknown"
        os.close(handle)
        raise UsageError(
            f"{folder} is being written by another rooflens run (process {owner}): wait, or choose another -o"
        ) from None
    except OSError as error:  # a network file system without locks
        os.close(handle)
        raise disk_error(folder, error) from error
    with suppress(PermissionError):  # root, in a container where it owns nothing
        os.fchmod(handle, 0o600)  # older versions made it readable
    os.ftruncate(handle, 0)
    os.pwrite(handle, str(os.getpid()).encode(), 0)
    return handle


def _is_held(path: Path) -> bool:
    """Look for a file among all locks of this system: proc(5)."""
    try:
        found, locks = path.stat(), Path("/proc/locks").read_text(encoding="utf-8")
    except OSError:
        return False
    where = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    return any({"FLOCK", where} <= set(line.split()) for line in locks.splitlines())

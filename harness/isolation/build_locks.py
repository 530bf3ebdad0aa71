"""Locks that are left when builds of torch extensions are killed: every later build of the extension waits for them.

`torch.utils.cpp_extension` builds under a file `lock`, which its maker holds open and removes at the end. Nobody else
removes it, nor looks whether its maker still lives (torch/utils/file_baton.py).
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from .descendants import numbers

_NAME = "lock"


def left_locks(variables: Mapping[str, str] = os.environ) -> list[str]:
    """Say of each lock of this user that no process in sight has open what to do; `variables` are those of the builds.

    The processes of another machine or container are not in sight, and none are where /proc does not tell.
    """
    locks = {lock: identity for lock in _locks(variables) if (identity := _identity(lock))}
    if not locks or not Path("/proc/self/fd").is_dir():
        return []
    held = {_identity(descriptor) for descriptor in _descriptors()}
    return [
        f"no process here holds {lock}, for which every build of that extension waits: remove it, unless another "
        "machine or container builds there"
        for lock, identity in locks.items()
        if identity not in held and _identity(lock) == identity
    ]


def _locks(variables: Mapping[str, str]) -> Iterator[Path]:
    """Yield the locks where torch builds extensions: in a folder for each, below one for the kind of torch."""
    with suppress(OSError):  # it cannot be listed
        if own := variables.get("TORCH_EXTENSIONS_DIR"):
            yield from Path(own).glob(f"*/{_NAME}")
        else:
            # As torch has it: of a user without a home it is a folder called "~".
            cache = variables.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
            yield from Path(cache, "torch_extensions").glob(f"*/*/{_NAME}")


def _identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a file of this user, None for anything else."""
    with suppress(OSError):
        found = path.stat()
        if found.st_uid == os.geteuid():
            return found.st_dev, found.st_ino
    return None


def _descriptors() -> Iterator[Path]:
    """Yield the descriptors of all processes in sight that are of a file with the name of a lock."""
    for pid in numbers("/proc"):
        for number in numbers(f"/proc/{pid}/fd"):
            descriptor = Path(f"/proc/{pid}/fd/{number}")
            with suppress(OSError):  # it has ended
                if descriptor.readlink().name == _NAME:
                    yield descriptor

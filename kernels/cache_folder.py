"""Where rooflens keeps its caches and temporary files."""

import os
import pwd
import stat
import tempfile
import threading
from contextlib import suppress
from pathlib import Path

from ..shapes.errors import RooflensError


def cache_folder() -> Path:
    """Return $ROOFLENS_CACHE, else $XDG_CACHE_HOME/rooflens, else ~/.cache/rooflens.

    A relative path in the latter two is ignored (XDG Base Directory Specification): it would be another cache
    in every working directory. For a user without a home, and where that is a folder of another user (but root), whose
    files would be loaded and run, it is a private temporary folder. Raises RooflensError if another user owns that.
    """
    named = _named()
    return named if named and not _is_foreign(named) else private_temporary() / "cache"


def _named() -> Path | None:
    if own := os.environ.get("ROOFLENS_CACHE"):
        return Path(own)
    if os.path.isabs(base := os.environ.get("XDG_CACHE_HOME", "")):
        return Path(base) / "rooflens"
    home = _home()
    return Path(home) / ".cache" / "rooflens" if home else None


def _is_foreign(folder: Path) -> bool:
    """Tell whether another user owns the folder, or what it would be made in."""
    for place in (folder, *folder.absolute().parents):
        try:
            return place.stat().st_uid not in (os.getuid(), 0)
        except PermissionError:
            return True
        except OSError:  # missing, or below a file: writing there reports it
            continue
    return False


def _home() -> str:
    """Return $HOME, else what the table of users says; "" for a user who has none."""
    if os.path.isabs(named := os.environ.get("HOME", "")):
        return named
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""


def temporary_folder() -> Path:
    """Path of a user's folder for temporary files: rooflens-UID in $TMPDIR."""
    return Path(tempfile.gettempdir()) / f"rooflens-{os.getuid()}"


def private_temporary() -> Path:
    """Return `temporary_folder`, created if it is missing; raises RooflensError as `make_private` does."""
    return make_private(temporary_folder(), "TMPDIR")


def make_private(folder: Path, variable: str) -> Path:
    """Create `folder` if it is missing, check that only this user can enter it, and return it.

    Raises RooflensError, with the `variable` that chooses another, when it belongs to another user, or is open to
    others: they could read and replace files.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
    except OSError as error:
        raise RooflensError(
            f"cannot make {folder}: {error.strerror or error}; set {variable} to another folder"
        ) from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise RooflensError(f"{folder} is not a folder that only you can enter: chmod 700 it, or set {variable}")
    return folder


def keep_whole(path: Path, content: bytes) -> None:
    """Write a file of a cache whole or not at all: others may read it meanwhile, and the disk may be full."""
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
        partial.write_bytes(content)
        partial.replace(path)

"""Two users of one machine share $TMPDIR, and by a wrong setting a cache: neither is in the other's way."""

import os
import pickle
import shutil
import tempfile
from pathlib import Path

import pytest
from rooflens.harness.compare.spec import scratch_of
from rooflens.harness.storage.lock import LOCK, locked, reading
from rooflens.harness.storage.scratch import new_scratch, open_scratch, remove_abandoned
from rooflens.kernels.cache_folder import make_private
from rooflens.kernels.fourbit import cpu_library
from rooflens.shapes.errors import RooflensError

FIRST, SECOND = 65533, 65534

COMPILER = """#!/bin/sh
case "$*" in *--version*) echo "fake 1.0"; exit 0;; esac
while [ $# -gt 1 ]; do [ "$1" = -o ] && id -u > "$2"; shift; done
"""

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="to become other users takes root")


def as_user(user, work):
    """Return what `work()` returns, or the RooflensError that it raises, in a forked process of `user`."""
    ours, theirs = os.pipe()
    if (child := os.fork()) == 0:
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            os.umask(0o022)
            try:
                found = work()
            except RooflensError as error:
                found = error
            os.write(theirs, pickle.dumps(found))
        finally:
            os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, "rb") as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return pickle.loads(said)


@pytest.fixture
def shared(monkeypatch):
    """Return a folder as /tmp is, which is $TMPDIR; all users have one HOME, as after sudo without -H."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o1777)
    compiler = folder / "g++"
    compiler.write_text(COMPILER)
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.delenv("ROOFLENS_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    home = folder / "home"
    home.mkdir()
    os.chown(home, FIRST, FIRST)
    monkeypatch.setenv("HOME", str(home))
    yield folder
    shutil.rmtree(folder)


@pytest.mark.parametrize("variable", ["HOME", "XDG_CACHE_HOME", "ROOFLENS_CACHE"])
@pytest.mark.parametrize("mode", [0o700, 0o755])
def test_each_builds_and_loads_a_library_of_its_own(shared, monkeypatch, variable, mode):
    monkeypatch.setenv(variable, str(shared / "home"))
    (shared / "home").chmod(mode)
    built = {user: as_user(user, cpu_library.build) for user in (FIRST, SECOND)}
    assert built[FIRST].is_relative_to(shared / "home")
    assert built[SECOND].parent == shared / f"rooflens-{SECOND}" / "cache"
    for user, library in built.items():
        assert library.read_text() == f"{user}\n", "the library is of the user who loads it"
        assert as_user(user, cpu_library.build) == library, "and is not built again"
    assert (shared / f"rooflens-{SECOND}").stat().st_mode & 0o777 == 0o700


def test_what_root_has_built_for_all_is_loaded(shared, monkeypatch):
    monkeypatch.setenv("ROOFLENS_CACHE", str(shared / "of-root"))
    library = cpu_library.build()
    assert as_user(SECOND, cpu_library.build) == library


def test_checkouts_and_environments_of_another_are_never_run(shared):
    """The same folder of a comparison gives the same place, in which a stamp says that all is prepared."""
    places = [as_user(user, lambda: scratch_of(shared / "both")) for user in (FIRST, SECOND)]
    assert [place.parts[3] for place in places] == ["home", f"rooflens-{SECOND}"]
    theirs = shared / "planted"
    as_user(FIRST, theirs.mkdir)
    refused = as_user(SECOND, lambda: make_private(theirs, "ROOFLENS_CACHE"))
    assert str(refused) == f"{theirs} is not a folder that only you can enter: chmod 700 it, or set ROOFLENS_CACHE"


def test_neither_holds_the_lock_of_a_run_that_the_other_writes(shared):
    run = shared / "run"
    as_user(FIRST, run.mkdir)
    (run / LOCK).touch(0o644)  # of an older version
    os.chown(run / LOCK, FIRST, FIRST)
    as_user(FIRST, lambda: os.close(locked(run)))
    assert as_user(SECOND, lambda: os.access(run, os.R_OK) and not os.access(run / LOCK, os.R_OK))


def test_a_run_that_another_writes_is_not_read_meanwhile(shared):
    def read():
        with reading(shared / "run"):
            return True

    (shared / "run").mkdir()
    writer = locked(shared / "run")
    assert "is being written by a rooflens run" in str(as_user(SECOND, read))
    os.close(writer)
    assert as_user(SECOND, read) is True


def test_neither_removes_what_the_other_has_left_in_the_temporary_folder(shared):
    def left_behind():
        folder = new_scratch("fleet")
        open_scratch(folder)
        return folder

    left = {user: as_user(user, left_behind) for user in (FIRST, SECOND)}
    for user in (FIRST, SECOND, 0):
        others = {owner: folder for owner, folder in left.items() if owner != user}
        for folder in others.values():
            as_user(user, lambda folder=folder: remove_abandoned(folder.parent))
        assert all(folder.is_dir() for folder in others.values()), f"user {user}"
    as_user(FIRST, left_behind)
    assert not left[FIRST].exists(), "its own is removed by the next one of the same user"

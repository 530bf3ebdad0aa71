"""Scratch folders: what ended processes left is removed, what anything else made never is."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import pytest
from rooflens.harness.storage.scratch import (
    MARKER,
    make_scratch,
    new_scratch,
    open_scratch,
    remove_abandoned,
    remove_scratch,
)
from rooflens.harness.storage.store import RunStore
from rooflens.kernels.cache_folder import private_temporary
from rooflens.shapes.errors import RooflensError, UsageError
from rooflens.shapes.run_folder.manifest import Manifest

MAKE = """
import sys
from pathlib import Path
from rooflens.harness.storage.scratch import make_scratch
handle = make_scratch(Path(sys.argv[1]))
print("made", flush=True)
sys.stdin.read()
"""


def process(folder):
    """Start a process that makes a scratch folder, and ends when its input does."""
    started = subprocess.Popen(
        [sys.executable, "-c", MAKE, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert started.stdout.readline() == "made\n"
    return started


def killed(folder):
    """Make a scratch folder whose process was killed."""
    with process(folder) as started:
        started.kill()
    (folder / "tree").mkdir()
    return folder


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_folders_of_killed_processes_go_and_those_in_use_stay(temporary):
    place = private_temporary()
    killed(place / "killed")
    with process(place / "used"):
        mine = new_scratch("mine")
        handle = open_scratch(mine)
        assert {path.name for path in place.iterdir()} == {"used", mine.name}
        (mine / "of").mkdir()
        (mine / "of" / "file").touch()
        remove_scratch(mine, handle)
        assert [path.name for path in place.iterdir()] == ["used"]


def test_what_is_made_anew_while_it_is_looked_at_stays(tmp_path, monkeypatch):
    """Two processes find a folder of one that ended; the first removes it and makes its own, which the second sees."""
    folder, lock, made = killed(tmp_path / "merging"), fcntl.flock, []

    def late(handle, operation):
        monkeypatch.setattr(fcntl, "flock", lock)
        made.append(make_scratch(folder))
        (folder / "precious").touch()
        lock(handle, operation)

    monkeypatch.setattr(fcntl, "flock", late)
    remove_abandoned(tmp_path)
    assert made
    assert (folder / "precious").exists()
    remove_scratch(folder, *made)
    assert not folder.exists()


def test_what_has_gone_already_is_no_error(tmp_path):
    handle = make_scratch(tmp_path / "mine")
    shutil.rmtree(tmp_path / "mine")
    remove_scratch(tmp_path / "mine", handle)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handle)


def of_another(folder, **said):
    """Leave a scratch folder whose marker says something else."""
    killed(folder)
    found = json.loads((folder / MARKER).read_text())
    (folder / MARKER).write_text(json.dumps(found | said))


def test_nothing_is_removed_that_was_not_made_as_a_scratch_folder(tmp_path):
    """A run folder that a user put there; a copy; folders of other machines and users; markers that say nothing."""
    with RunStore.create(tmp_path / "rooflens-run") as store:
        store.write_manifest(Manifest(id="run"))
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / MARKER).touch()
    (tmp_path / "list").mkdir()
    (tmp_path / "list" / MARKER).write_text("[]")
    of_another(tmp_path / "host", host="another")
    of_another(tmp_path / "user", uid=-1)
    elsewhere = killed(tmp_path / "there" / "elsewhere")
    (tmp_path / "elsewhere").symlink_to(elsewhere)
    shutil.copytree(elsewhere, tmp_path / "copy")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / MARKER).symlink_to(elsewhere / MARKER)
    before = sorted(tmp_path.rglob("*"))
    remove_abandoned(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before
    for folder in ("rooflens-run", "empty", "host", "elsewhere"):
        with pytest.raises(UsageError, match="move it away"):
            make_scratch(tmp_path / folder)
    assert sorted(tmp_path.rglob("*")) == before


def a_link(place):
    (place.parent / "real").mkdir(mode=0o700)
    place.symlink_to(place.parent / "real")


@pytest.mark.parametrize("foreign", [partial(Path.mkdir, mode=0o755), a_link, Path.touch], ids=["open", "link", "file"])
def test_a_temporary_folder_that_somebody_else_could_have_made_is_refused(temporary, foreign):
    place = private_temporary()
    place.rmdir()
    foreign(place)
    with pytest.raises(RooflensError, match="TMPDIR"):
        private_temporary()

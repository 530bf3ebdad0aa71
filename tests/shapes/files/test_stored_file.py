"""Files of run folders that somebody else has made: no pipe is waited for, and no archive fills the memory."""

import gzip
import lzma
import os
import signal
import tracemalloc
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooflens.analysis.frames.load import table_content
from rooflens.api.run_folders import stored_runs
from rooflens.harness.storage.tables import count_rows
from rooflens.shapes.errors import UsageError
from rooflens.shapes.files.json_file import read_object
from rooflens.shapes.files.stored_file import COLUMNS, by_columns, open_table, read_stored
from rooflens.shapes.run_folder.columns import CELLS


@pytest.fixture
def alarm():
    """End what waits for ever."""
    signal.signal(signal.SIGALRM, lambda *_: pytest.fail("waits"))
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


@pytest.mark.usefixtures("alarm")
def test_no_pipe_and_no_device_is_waited_for(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("run.json", "cells.csv"):
        os.mkfifo(folder / name)
    with pytest.raises(UsageError, match=r"cannot read .*run\.json: not a regular file"):
        read_object(folder / "run.json")
    with pytest.raises(UsageError, match=r"cannot read .*cells\.csv: not a regular file"):
        table_content(folder, CELLS)
    assert count_rows(folder) is None
    assert stored_runs(tmp_path) == []
    (folder / "run.json").unlink()
    (folder / "run.json").symlink_to("/dev/zero")
    with pytest.raises(UsageError, match="not a regular file"):
        read_object(folder / "run.json")


def test_a_table_that_unpacks_to_too_much_is_refused_before_it_is_read(tmp_path):
    (tmp_path / "cells.csv.xz").write_bytes(lzma.compress(bytes(256 << 20), preset=0))
    tracemalloc.start()
    try:
        with pytest.raises(UsageError, match=r"cells\.csv\.xz unpacks to more than 100 times its size"):
            table_content(tmp_path, CELLS)
        assert count_rows(tmp_path) is None
        assert tracemalloc.get_traced_memory()[1] < (200 << 20)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("suffix", "pack"), [(".xz", lzma.compress), (".gz", gzip.compress)])
def test_whatever_else_is_compressed_comes_back(tmp_path, suffix, pack):
    path = tmp_path / f"cells.csv{suffix}"
    for content in (b"", b"a,b\n1,2\n", b"0" * (8 << 20)):
        path.write_bytes(pack(content))
        assert read_stored(path) == content
    path.write_bytes(pack(b"a\n") + pack(b"1\n"))  # of several members, as parallel packers write
    assert read_stored(path) == b"a\n1\n"


@given(st.lists(st.lists(st.text("0123456789.e-", max_size=9), min_size=3, max_size=3), min_size=1))
def test_a_table_stored_by_columns_is_the_table_that_it_was(rows):
    content = "".join(",".join(row) + "\n" for row in rows).encode()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "samples.csv"
        (path.parent / f"{path.name}{COLUMNS}").write_bytes(lzma.compress(by_columns(content), preset=0))
        assert open_table(path).read() == content


@pytest.mark.parametrize("content", [b"a\n1\fb", b"\f" * (16 << 20)], ids=["of different lengths", "too many"])
def test_columns_that_are_no_table_are_damage(tmp_path, content):
    (tmp_path / f"samples.csv{COLUMNS}").write_bytes(lzma.compress(content, preset=0))
    with pytest.raises(UsageError, match=r"samples\.csv\.columns\.xz is damaged .*restore it from a copy"):
        open_table(tmp_path / "samples.csv")


def test_samples_of_a_stored_run_are_a_third_smaller_by_columns():
    stored = Path(__file__).parents[3] / "docs" / "results" / "h200-w4a16-peers" / "samples.csv"
    content = open_table(stored).read()
    rows, columns = (len(lzma.compress(one, preset=lzma.PRESET_EXTREME | 9)) for one in (content, by_columns(content)))
    assert 0.55 < columns / rows < 0.7

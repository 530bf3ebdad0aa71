"""The run folder survives torn lines, orphans, a second writer and a full disk."""

import os
import resource
from pathlib import Path

import numpy as np
import pytest
from rooflens.harness.storage.store import RunStore
from rooflens.harness.storage.tables import replace
from rooflens.harness.telemetry.reading import Reading
from rooflens.harness.timing.samples import Samples
from rooflens.shapes.errors import RooflensError, UsageError
from rooflens.shapes.run_folder.columns import CANARY, CELLS
from rooflens.shapes.run_folder.manifest import Manifest

from ..sharded import read_rows


def taken(*times_s, **more):
    return Samples(times_s, **more)


def row(cell="c0", number=0, verdict="passed", **columns):
    return {"cell_id": cell, "round": number, "order": 0, "process": 0, "verdict": verdict} | columns


@pytest.fixture
def folder(tmp_path):
    with RunStore.create(tmp_path / "run") as store:
        store.write_manifest(Manifest(id="run"))
        store.commit(row("c0", 0), taken(1e-3, 2e-3))
        store.commit(row("c1", 0), taken(3e-3))
    return tmp_path / "run"


@pytest.mark.parametrize("place, ignored", [("runs/a", True), ("results/a", False)])
def test_a_new_folder_of_runs_is_kept_out_of_git(tmp_path, place, ignored):
    RunStore.create(tmp_path / place).close()
    assert (tmp_path / place).parent.joinpath(".gitignore").exists() == ignored


def test_a_folder_of_runs_that_was_there_stays_as_it_is(tmp_path):
    (tmp_path / "runs").mkdir()
    RunStore.create(tmp_path / "runs" / "a").close()
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["a"]


@pytest.mark.parametrize("name", [".lock", "events.log", "samples.csv", "worker.log"])
def test_nothing_is_written_through_a_link(folder, name):
    """A folder that somebody else has packed may hold links to files of whoever unpacks it."""
    precious = folder.parent / "precious"
    precious.write_text("precious")
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(precious)
    with pytest.raises(UsageError, match=rf"run/{name} is a link, and this would write over .*precious"):
        RunStore.reopen(folder)
    assert precious.read_text() == "precious"
    (folder / name).unlink()
    linked = folder.parent / "linked"
    linked.symlink_to(folder)
    if name != "samples.csv":  # which has gone
        RunStore.reopen(linked).close()  # the folder itself may be elsewhere


def test_a_replaced_file_is_synced_before_its_name_and_the_folder_after_it(tmp_path, monkeypatch):
    """The rename itself is only in the memory of the machine until the folder is synced."""
    path, synced, sync = tmp_path / "run.json", [], os.fsync

    def watched(handle):
        synced.append((Path(f"/proc/self/fd/{handle}").resolve().name, path.exists()))
        sync(handle)

    monkeypatch.setattr(os, "fsync", watched)
    replace(path, "{}\n")
    assert path.read_text() == "{}\n"
    assert synced == [(".run.json.partial", False), (tmp_path.name, True)]


def read(folder, name):
    return read_rows(folder / name)


@pytest.mark.parametrize(
    "step_s, first",
    [(1e-9, 1_000), (1e-9, 100_000_000), (32e-9, 100), (10e-9, 123_456), (1e-6, 7), (32e-9 / 200, 31_250)],
    ids=["CUPTI", "0.1 s of CUPTI", "events of an H200", "of an MI300X", "of HIP", "mean of 200 in a graph"],
)
def test_times_lose_less_than_a_tenth_of_what_their_timer_counts(folder, step_s, first):
    """Ticks reach Python as differences of large readings, or as float32 milliseconds."""
    ticks = [first + number % 50 for number in range(100)]
    noisy = [float(np.float32(tick * step_s * 1e3)) / 1e3 if tick < 1 << 20 else tick * step_s for tick in ticks]
    with RunStore.reopen(folder) as store:
        store.commit(row("c2", 0), taken(*noisy, host_s=tuple(noisy), event_s=tuple(noisy), kernels_s=tuple(noisy)))
    rows = read(folder, "samples.csv")[-100:]
    times = np.array([float(one["time_s"]) for one in rows])
    assert [[one[name] for name in ("host_time_s", "event_time_s", "kernels_s")] for one in rows] == [
        [one["time_s"]] * 3 for one in rows
    ], "equal times stay equal"
    lost = np.abs(times - np.array(ticks) * step_s)
    assert (lost <= 0.0501e-9 + 6e-8 * times).all()
    if step_s >= 1e-9:
        assert len(set(times)) == 50, "ticks stay apart, and ties stay ties"
    assert max(len(one["time_s"]) for one in rows) <= 12
    with RunStore.reopen(folder) as store:
        store.commit(row("c3", 0), taken(*times))
    assert [one["time_s"] for one in read(folder, "samples.csv")[-100:]] == [one["time_s"] for one in rows]


def test_a_short_mean_keeps_five_digits_and_no_time_becomes_zero(folder):
    with RunStore.reopen(folder) as store:
        store.commit(row("c2", 0), taken(1.234567e-8, 9.87654321e-7, 1e-29, -3.21234567e-8, 0.0))
    stored = [sample["time_s"] for sample in read(folder, "samples.csv")[-5:]]
    assert stored == ["1.2346e-08", "9.8765e-07", "1e-29", "-3.2123e-08", "0.0"]


def test_a_retried_unit_leaves_the_tables_for_the_events_and_comes_back_once(tmp_path):
    with RunStore.create(tmp_path / "run") as store:
        store.write_manifest(Manifest(id="run"))
        store.commit(row("c0", 0, model="=1+1"), taken(1e-3))
        readings = ((0, Reading(busy_elsewhere=0.5)),)
        store.commit(row("c1", 0, "timeout", provider="p", M=4, reason="=no, end"), taken(readings=readings))
        store.commit(row("c2", 1, "oom"), taken())
    before = (tmp_path / "run" / "cells.csv").read_text().splitlines()
    with RunStore.reopen(tmp_path / "run") as store:
        assert store.ended_with(["crashed"]) == set()
        assert store.ended_with(["timeout", "crashed"]) == {("c1", 0)}
        table = tmp_path / "run" / "cells.csv"
        written = table.stat().st_ino
        store.retry(set())
        assert table.stat().st_ino == written, "nothing is rewritten for nothing"
        store.retry({("c1", 0)})
        assert store.verdicts == {("c0", 0): "passed", ("c2", 1): "oom"}
        assert (tmp_path / "run" / "cells.csv").read_text().splitlines() == [*before[:2], before[3]]
        store.commit(row("c1", 0), taken(2e-3, readings=readings))
    assert len(read(tmp_path / "run", "telemetry.csv")) == 1
    (event,) = (tmp_path / "run" / "events.log").read_text().splitlines()
    assert event.partition(" ")[2] == "retry round 0 of 4 p: timeout: =no, end"


def test_a_torn_commit_row_is_cut_and_so_are_its_samples(folder):
    before = {name: (folder / name).read_bytes() for name in ("cells.csv", "samples.csv")}
    with RunStore.reopen(folder) as store:
        store.commit(row("c2", 0), taken(4e-3, 5e-3))
    torn = (folder / "cells.csv").read_bytes()
    for cut in range(len(before["cells.csv"]) + 1, len(torn)):
        (folder / "cells.csv").write_bytes(torn[:cut])
        with RunStore.reopen(folder) as store:
            assert ("c2", 0) not in store.verdicts
        assert (folder / "cells.csv").read_bytes() == before["cells.csv"]
        assert (folder / "samples.csv").read_bytes() == before["samples.csv"]
        (folder / "samples.csv").write_bytes(before["samples.csv"] + b"c2,0,0,0.004,\nc2,0,1,0.0")


def test_what_does_not_count_says_why_and_telemetry_belongs_to_its_unit(folder):
    readings = ((0, Reading(clock_hz=1.98e9, slowdown=("power_cap",))),)
    with RunStore.reopen(folder) as store:
        samples = Samples((4e-3, -1.0), ("", "negative time"), (9e-3,), (5e-3, 6e-3), (3e-3,), readings=readings)
        store.commit(row("c2", 0), samples)
        assert store.rows(CANARY) == []
        assert not (folder / "canary.csv").exists()  # which not every run has
        store.append(CANARY, [{"at": "now", "process": 0, "gemm_s": 1e-3, "copy_s": 2e-3}])
        assert [reading["gemm_s"] for reading in store.rows(CANARY)] == ["0.001"]
    stored = read(folder, "samples.csv")[-2:]
    assert [sample["discarded"] for sample in stored] == ["", "negative time"]
    beside = [(sample["host_time_s"], sample["event_time_s"], sample["kernels_s"]) for sample in stored]
    assert beside == [("0.009", "0.005", "0.003"), ("", "0.006", "")]
    (reading,) = read(folder, "telemetry.csv")
    assert (reading["cell_id"], reading["clock_hz"], reading["power_w"]) == ("c2", "1980000000.0", "")
    lines = (folder / "cells.csv").read_text().splitlines(keepends=True)
    (folder / "cells.csv").write_text("".join(lines[:-1]))  # as if it had been killed before the commit row
    with RunStore.reopen(folder) as store:
        assert read(folder, "telemetry.csv") == []
        assert len(store.rows(CANARY)) == 1


def test_a_unit_is_never_stored_twice(folder):
    with RunStore.reopen(folder) as store, pytest.raises(ValueError, match="stored already"):
        store.commit(row("c0", 0), taken(1.0))


def test_line_breaks_in_reasons_do_not_break_rows(folder):
    with RunStore.reopen(folder) as store:
        store.commit(row("c3", 0, "runtime_error", reason='two\nlines, "quoted"'), taken())
    assert read(folder, "cells.csv")[-1]["reason"] == 'two lines, "quoted"'


def test_two_writers_and_a_folder_without_a_run_are_refused(folder):
    with RunStore.reopen(folder), pytest.raises(UsageError, match="being written by another"):
        RunStore.reopen(folder)
    with pytest.raises(UsageError, match="no run to resume"):
        RunStore.reopen(folder.parent)


@pytest.mark.parametrize(
    ("name", "line", "words"),
    [
        ("cells.csv", None, "line 1"),  # another schema
        ("cells.csv", b"c7,0\n", "cells.csv line 4"),
        ("cells.csv", b"c7,0,0,0,fine\n", "cells.csv line 4"),
        ("cells.csv", b"\xff\xfe\n", "cells.csv line 4"),
        ("samples.csv", b"nonsense\n", "samples.csv line 5"),
        ("samples.csv", b"\xff,0,1,2\n", "samples.csv line 5"),
    ],
)
def test_a_damaged_table_is_named_by_file_and_line(folder, name, line, words):
    path = folder / name
    before = path.read_bytes()
    path.write_bytes(before.replace(b"verdict", b"result", 1) if line is None else before + line)
    with pytest.raises(UsageError, match=words):
        RunStore.reopen(folder)
    RunStore.create(folder.parent / "other").close()  # the lock of the damaged one is not what is in the way


@pytest.mark.parametrize("content", [None, b"", b"ceiling,level,pattern,dtype,value,unit,kind,source\nbandwidth,dr"])
def test_ceilings_that_are_lost_or_torn_are_measured_again(folder, content):
    path = folder / "ceilings.csv"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with RunStore.reopen(folder) as store:
        store.add_ceilings([ceiling(10.0)])
    assert [row["value"] for row in read(folder, "ceilings.csv")] == ["10.0"]


def test_a_start_without_manifest_is_no_run(tmp_path):
    RunStore.create(tmp_path / "run").close()
    with RunStore.create(tmp_path / "run") as store:
        store.commit(row("c0", 0), taken(1e-3))
    with pytest.raises(UsageError, match="holds a run already"):
        RunStore.create(tmp_path / "run")


def test_columns_outside_the_schema_are_a_mistake(folder):
    with RunStore.reopen(folder) as store, pytest.raises(ValueError, match="colour"):
        store.commit(row("c9", 0, colour="red"), taken())
    assert "colour" not in CELLS.names


def ceiling(value, what="bandwidth", **other):
    return {
        "ceiling": what,
        "level": "dram",
        "pattern": "read",
        "dtype": "",
        "value": value,
        "unit": "",
        "kind": "measured",
        "source": f"run {value}",
    } | other


def test_the_better_measurement_of_a_ceiling_stays(folder):
    with RunStore.reopen(folder) as store:
        store.add_ceilings([ceiling(10.0), ceiling(5e-6, "launch"), ceiling(99.0, kind="spec")])
        store.add_ceilings([ceiling(9.0), ceiling(3e-6, "launch"), ceiling(8.0, level="llc")])
    kept = [(row["ceiling"], row["level"], row["kind"], float(row["value"])) for row in read(folder, "ceilings.csv")]
    assert kept == [
        ("bandwidth", "dram", "measured", 10.0),
        ("launch", "dram", "measured", 3e-6),
        ("bandwidth", "dram", "spec", 99.0),
        ("bandwidth", "llc", "measured", 8.0),
    ]


def test_a_full_disk_is_one_line_and_loses_nothing(folder):
    before = read(folder, "samples.csv")
    unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
    with RunStore.reopen(folder) as store:
        resource.setrlimit(resource.RLIMIT_FSIZE, ((folder / "samples.csv").stat().st_size + 1000, unlimited[1]))
        try:
            with pytest.raises(RooflensError, match=r"cannot write to .*--resume") as raised:
                store.commit(row("big"), taken(*[1e-3] * 1000))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    assert raised.value.exit_code == 1
    with RunStore.reopen(folder) as store:
        assert ("big", 0) not in store.verdicts
    assert read(folder, "samples.csv") == before


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RooflensError, match="cannot write to"):
        RunStore.create(tmp_path / "file" / "run")


def test_a_run_that_never_began_leaves_what_was_there_and_nothing_else(tmp_path):
    """No manifest, no row."""
    with RunStore.create(tmp_path / "runs" / "idle"):
        pass
    assert not (tmp_path / "runs" / "idle").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    (tmp_path / "mine" / "worker.log").write_text("")
    with RunStore.create(tmp_path / "mine") as store:
        store.keep("tuned.csv", "notes")
    assert sorted(path.name for path in (tmp_path / "mine").iterdir()) == ["notes.txt", "worker.log"]


@pytest.mark.parametrize("name", ["cells.csv", "samples.csv", "ceilings.csv", "tuning.csv", "canary.csv"])
def test_files_of_somebody_else_are_never_overwritten(tmp_path, name):
    (tmp_path / name).write_text("precious\n")
    with pytest.raises(UsageError, match=f"{name} would be overwritten: move it away"):
        RunStore.create(tmp_path)
    assert {path.name: path.read_text() for path in tmp_path.iterdir() if path.name != ".lock"} == {name: "precious\n"}


def test_samples_whose_row_was_deleted_go_wherever_they_stand(folder):
    path = folder / "cells.csv"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text(lines[0] + lines[2])  # of the first unit, in the middle of samples.csv
    with RunStore.reopen(folder) as store:
        assert store.verdicts == {("c1", 0): "passed"}
    assert [sample["cell_id"] for sample in read(folder, "samples.csv")] == ["c1"]


def test_a_row_whose_samples_never_reached_the_disk_is_no_commit(folder):
    with RunStore.reopen(folder) as store:
        store.commit(row("c2", 0, samples=3), taken(1.0, 2.0, 3.0))
    path = folder / "samples.csv"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))
    with RunStore.reopen(folder) as store:
        assert ("c2", 0) not in store.verdicts
    assert {sample["cell_id"] for sample in read(folder, "samples.csv")} == {"c0", "c1"}

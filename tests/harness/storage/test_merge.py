"""Shards of one sweep join to the run that was split, whatever the split; what does not belong together is refused."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rooflens.analysis.frames.load import load_run
from rooflens.harness.storage.shards import opened
from rooflens.harness.storage.store import RunStore
from rooflens.shapes.errors import RooflensError, UsageError

from ...analysis.run_files import compress
from ...analysis.synthetic import CPU, write_run
from ..sharded import SMALL, edit_manifest, edit_row, join, manifest_of, read_rows, split, unit, write_rows


def content(folder, table="cells.csv", without=("process",)):
    return sorted(tuple(value for key, value in row.items() if key not in without) for row in read_rows(folder / table))


@settings(max_examples=25)
@given(st.lists(st.integers(0, 4), min_size=14, max_size=14), st.randoms(use_true_random=False))
def test_any_partition_in_any_order_joins_to_the_run_that_was_split(parts, random):
    with tempfile.TemporaryDirectory() as place:
        whole = write_run(Path(place) / "whole", **SMALL)
        position = {unit(row): at for at, row in enumerate(read_rows(whole / "cells.csv"))}
        shards = split(whole, Path(place), lambda row: parts[position[unit(row)]])
        random.shuffle(shards)
        merged = join(shards, Path(place) / "merged")
        assert content(merged) == content(whole)
        assert content(merged, "samples.csv") == content(whole, "samples.csv")
        assert content(merged, "ceilings.csv") == content(whole, "ceilings.csv")
        loaded = load_run(merged)
        assert loaded.coverage.rounds == 16
        assert loaded.missing_units == 0
        # The samples of a round stay together and in order.
        assert [int(row["index"]) for row in read_rows(merged / "samples.csv")] == [0, 1, 2] * 12


def files_of(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_shards_stay_as_they_are_and_neither_their_order_nor_compression_changes_the_run(halves, tmp_path):
    before = files_of(tmp_path)
    plain, turned = (join(order, tmp_path / name / "all") for name, order in (("x", halves), ("y", halves[::-1])))
    assert {
        path: content for path, content in files_of(tmp_path).items() if path.parent not in (plain, turned)
    } == before
    for half in halves:
        compress(half)
    packed = join(halves, tmp_path / "z" / "all")
    assert manifest_of(plain)["folder"] == str(plain)
    for path in plain.iterdir():
        for other in (turned, packed):
            assert (other / path.name).read_text() == path.read_text().replace(str(plain), str(other)), path.name


def test_what_an_interrupted_writer_left_is_not_seen_and_not_cut(whole, halves, tmp_path):
    orphan = "c8,0,0,0.5" + "," * (len(read_rows(whole / "samples.csv")[0]) - 4) + "\n"
    left = {"cells.csv": "c9,0,0,0,pas", "samples.csv": orphan + orphan + "c9,0,0,0.", "ceilings.csv": "bandwidth,dr"}
    for name, torn in left.items():
        with (halves[1] / name).open("a") as file:
            file.write(torn)
    before = {name: (halves[1] / name).read_bytes() for name in left}
    merged = join(halves, tmp_path / "merged")
    for name in left:
        assert content(merged, name) == content(whole, name)
        assert (halves[1] / name).read_bytes() == before[name]


def test_time_limits_decide_on_no_time_and_may_differ(halves, tmp_path):
    changed = {"timeout_s": 7.0, "build_timeout_s": 8.0}
    edit_manifest(halves[0], lambda manifest: manifest | {"protocol": manifest["protocol"] | changed})
    assert len(content(join(halves, tmp_path / "merged"))) == 14


def test_processes_of_the_shards_stay_apart(halves, tmp_path):
    edit_manifest(halves[0], lambda manifest: manifest | {"processes": 3})
    edit_row(halves[1] / "cells.csv", 0, process="4")  # a run that does not say how many it had
    merged = join(halves, tmp_path / "merged")
    by_m = {}
    for row in read_rows(merged / "cells.csv"):
        by_m.setdefault(row["M"], set()).add(int(row["process"]))
    assert by_m == {"1": {0}, "8": {3, 7}}
    manifest = manifest_of(merged)
    assert manifest["processes"] == 8
    assert [(part["id"], part["first_process"], part["units"]) for part in manifest["shards"]] == [
        ("1", 0, 8),
        ("8", 3, 6),
    ]


def test_of_each_ceiling_the_better_one_stays(halves, tmp_path):
    read, launch = 1, 7  # rows as synthetic.ceiling_rows orders them
    before = read_rows(halves[0] / "ceilings.csv")
    assert (before[read]["pattern"], before[launch]["ceiling"]) == ("read", "launch")
    edit_row(halves[0] / "ceilings.csv", read, value="49000000000.0", source="in the first job")
    edit_row(halves[1] / "ceilings.csv", launch, value="1e-06", source="in the second job")
    after = read_rows(join(halves, tmp_path / "merged") / "ceilings.csv")
    assert [row["source"] for row in after if "job" in row["source"]] == ["in the first job", "in the second job"]
    assert len(after) == len(before)
    kept = [(old, new) for at, (old, new) in enumerate(zip(before, after, strict=True)) if at not in (read, launch)]
    assert all(old == new for old, new in kept)


def on_device(shard, device, host="", **more):
    """Say in a shard's run.json where it was measured."""
    edit_manifest(
        shard,
        lambda manifest: (
            manifest
            | {"device": CPU.device | device, "environment": manifest["environment"] | ({"host": host} if host else {})}
            | more
        ),
    )


def test_a_fleet_of_one_model_is_listed_and_what_differs_is_unknown(halves, tmp_path):
    for number, shard in enumerate(halves):
        on_device(shard, {"uuid": f"GPU-{number}", "index": number}, f"node{number}")
    manifest = manifest_of(join(halves, tmp_path / "merged"))
    assert [(one["uuid"], one["host"]) for one in manifest["devices"]] == [("GPU-0", "node0"), ("GPU-1", "node1")]
    assert manifest["device"]["name"] == CPU.device["name"]
    assert "uuid" not in manifest["device"]
    assert manifest["environment"]["host"] == "node0; node1"
    assert manifest["environment"]["torch"] == "2.13.0"
    assert [part["device"]["uuid"] for part in manifest["shards"]] == ["GPU-0", "GPU-1"]


def devices_of(folders, output, *names):
    return [
        tuple(one.get(name) for name in (*names, "processes")) for one in manifest_of(join(folders, output))["devices"]
    ]


@pytest.fixture
def quarters(whole, tmp_path):
    """Shards by provider and M, in the order of their names; the third one had three workers: processes 2, 3 and 4."""
    shards = sorted(split(whole, tmp_path, lambda row: row["provider"] + row["M"]), key=lambda shard: shard.name)
    edit_manifest(shards[2], lambda manifest: manifest | {"processes": 3})
    return shards


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (("A n0", "B n0", "A n0", "A n1"), [("A", "n0", [0, 2, 3, 4]), ("B", "n0", [1]), ("A", "n1", [5])]),
        # Without a UUID they are one where they say the same.
        (("", "", "n1", ""), [(None, "n0", [0, 1, 5]), (None, "n1", [2, 3, 4])]),
    ],
)
def test_shards_of_one_device_are_one_device_with_all_their_processes(quarters, tmp_path, said, found):
    """To its own process each GPU was the first one, or another: indices tell nothing."""
    for number, (shard, words) in enumerate(zip(quarters, said, strict=True)):
        uuid, _, host = words.rpartition(" ")
        on_device(shard, {"uuid": uuid, "index": number % 2} if uuid else {}, host or "n0")
    assert devices_of(quarters, tmp_path / "merged", "uuid", "host") == found
    assert load_run(tmp_path / "merged").several_devices


def test_devices_of_a_merged_run_keep_their_processes(quarters, tmp_path):
    for shard, uuid in zip(quarters, "ABAB", strict=True):
        on_device(shard, {"uuid": uuid})
    at_once = devices_of(quarters, tmp_path / "at_once", "uuid")
    first_two = join(quarters[:2], tmp_path / "before the others by name")
    in_turn = devices_of([first_two, *quarters[2:]], tmp_path / "in_turn", "uuid")
    assert in_turn == at_once
    assert sorted(number for _, own in in_turn for number in own) == list(range(6))


def test_the_devices_of_a_fleet_are_taken_over(halves, tmp_path):
    slots = [{"slot": slot, "host": "n0", "processes": own} for slot, own in ((0, [0, 2]), (1, [1]))]
    on_device(halves[0], {}, devices=slots, processes=3)
    on_device(halves[1], {}, "n0")
    assert devices_of(halves, tmp_path / "merged", "slot") == [(0, [0, 2]), (1, [1]), (None, [3])]
    shards = manifest_of(tmp_path / "merged")["shards"]
    assert not any("devices" in shard for shard in shards), "their numbers are others"


def test_what_an_older_merged_run_does_not_tell_stays_unknown(halves, tmp_path):
    on_device(halves[0], {}, devices=[{"uuid": "A", "host": "n0"}, {"uuid": "B", "host": "n0"}], processes=2)
    on_device(halves[1], {"uuid": "B"}, "n0")
    assert devices_of(halves, tmp_path / "merged", "uuid") == [("A", None), ("B", None)]


def test_events_say_which_shard_they_are_of(halves, tmp_path):
    (halves[0] / "events.log").write_text("2026-01-02T03:04:05Z restart the worker: a fault\n")
    (halves[1] / "events.log").write_text("2026-01-02T04:04:05Z interrupted\n2026-01-02T05:04:05Z stopped")
    assert (join(halves, tmp_path / "merged") / "events.log").read_text() == (
        "2026-01-02T03:04:05Z 1: restart the worker: a fault\n"
        "2026-01-02T04:04:05Z 8: interrupted\n"
        "2026-01-02T05:04:05Z 8: stopped\n"
    )


def test_a_merged_run_merges_on(whole, tmp_path):
    parts = split(whole, tmp_path, lambda row: row["provider"] + row["M"])
    assert len(parts) == 4
    three = join(parts[:3], tmp_path / "three")
    four = join([three, parts[3]], tmp_path / "four")
    assert content(four) == content(whole)
    shards = manifest_of(four)["shards"]
    assert {shard["folder"] for shard in shards} == set(map(str, parts))
    processes = {shard["folder"]: shard["first_process"] for shard in shards}
    assert sorted(processes.values()) == [0, 1, 2, 3]
    for row in read_rows(four / "cells.csv"):
        assert int(row["process"]) == processes[str(tmp_path / (row["provider"] + row["M"]))]
    assert load_run(four).missing_units == 0


def test_plans_add_up_and_a_cell_that_is_stored_in_both_counts_once(whole, tmp_path):
    rounds = split(
        whole, tmp_path, lambda row: row["round"]
    )  # every cell in the first, those that passed in the second
    assert [manifest_of(shard)["planned_units"] for shard in rounds] == [16, 12]
    assert manifest_of(join(rounds, tmp_path / "merged"))["planned_units"] == 16


def test_a_shard_without_a_finished_unit_adds_its_plan(whole, halves, tmp_path):
    write_rows(halves[1] / "cells.csv", list(read_rows(whole / "cells.csv")[0]), [])
    merged = join(halves, tmp_path / "merged")
    assert {row["M"] for row in read_rows(merged / "cells.csv")} == {"1"}
    assert len(read_rows(merged / "samples.csv")) == 8 * 3
    assert load_run(merged).missing_units == 8


def test_a_table_that_may_be_absent_is_joined_where_it_is_there(halves, tmp_path):
    join(halves, tmp_path / "without")
    assert not (tmp_path / "without" / "canary.csv").exists()
    (halves[1] / "canary.csv").write_text("at,process,gemm_s,copy_s\n2026-01-02T03:04:05Z,0,0.5,0.25\n2026-01-02T0")
    merged = join(halves, tmp_path / "merged")
    assert (merged / "canary.csv").read_text() == "at,process,gemm_s,copy_s\n2026-01-02T03:04:05Z,1,0.5,0.25\n"


def test_a_shard_that_is_being_written_is_refused(halves, tmp_path):
    store = RunStore(halves[1])
    try:
        with pytest.raises(UsageError, match=f"{halves[1]} is being written"):
            join(halves, tmp_path / "merged")
    finally:
        store.close()
    join(halves, tmp_path / "merged")


def test_a_shard_cannot_be_resumed_while_it_is_merged(halves):
    RunStore(halves[0]).close()  # there is a lock file now, as in a run that was measured here
    with opened(halves), pytest.raises(UsageError, match="being written"):
        RunStore.reopen(halves[0])
    RunStore.reopen(halves[0]).close()


def test_an_output_that_exists_is_refused(halves, tmp_path):
    (tmp_path / "merged").mkdir()
    with pytest.raises(UsageError, match="merged exists already: choose another -o"):
        join(halves, tmp_path / "merged")
    assert not list((tmp_path / "merged").iterdir())


def test_an_output_that_cannot_be_written_is_one_line(halves, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(RooflensError, match=r"cannot write .*merged: .*; free some space or choose another -o"):
        join(halves, tmp_path / "file" / "merged")


@pytest.mark.parametrize(
    ("name", "old", "new", "words"),
    [
        ("cells.csv", "verdict", "result", "cells.csv line 1: its columns are not those of this rooflens version"),
        ("run.json", '"rounds"', '"round"', "run.json: key 'rounds' is missing"),
        ("run.json", '"source"', '"sauce"', "run.json: role or source of provider '.*' is missing"),
        ("ceilings.csv", "48000000000.0", "fast", "ceilings.csv line 3, column value: not a number"),
        ("samples.csv", "", None, "/8: samples.csv is missing"),
    ],
)
def test_what_cannot_be_read_is_named(halves, tmp_path, name, old, new, words):
    path = halves[1] / name
    assert old in path.read_text()
    path.unlink() if new is None else path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(UsageError, match=words):
        join(halves, tmp_path / "merged")
    assert not (tmp_path / "merged").exists()


def test_a_merged_run_is_not_resumed(halves, tmp_path):
    for shard in halves:
        edit_manifest(shard, lambda manifest: manifest | {"request": {"suite": "llm4bit-quick"}})
    merged = join(halves, tmp_path / "merged")
    assert "request" not in manifest_of(merged)  # that of a shard is not that of all
    assert [shard["request"] for shard in manifest_of(merged)["shards"]] == [{"suite": "llm4bit-quick"}] * 2
    with pytest.raises(UsageError, match=f"merged was merged: resume its shards .{halves[0]}, {halves[1]}."):
        RunStore.reopen(merged)
    RunStore(merged).close()  # and its lock is free again

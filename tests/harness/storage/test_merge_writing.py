"""The merged folder appears whole or not at all, whatever ends the merge; two merges into one folder do not meet."""

import json
import os
from itertools import count
from signal import SIGKILL

import pytest
from rooflens.analysis.frames.load import load_run
from rooflens.harness.storage.scratch import make_scratch, remove_scratch
from rooflens.shapes.errors import UsageError

from .test_merge import content, join


def merged_until(left, output, shards):
    """Merge in a child that is killed in place of a write once there were `left`; return how it ended."""
    if not (child := os.fork()):
        writes = count()

        def counted(write):
            return lambda *arguments: os.kill(os.getpid(), SIGKILL) if next(writes) == left else write(*arguments)

        try:
            os.fsync, os.replace = counted(os.fsync), counted(os.replace)
            join(shards, output)
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_killed_at_any_moment_it_leaves_a_whole_run_or_none(whole, halves, tmp_path):
    output = tmp_path / "runs" / "merged"
    outcomes = []
    for left in range(99):
        ended = merged_until(left, output, halves)
        # What the killed one left is not taken for a run: cli.runs finds runs by this pattern.
        assert [path.parent for path in output.parent.glob("*/run.json")] == ([output] if output.exists() else [])
        outcomes.append((ended, output.exists()))
        if output.exists():
            assert content(output) == content(whole)
            assert content(output, "samples.csv") == content(whole, "samples.csv")
            assert load_run(output).missing_units == 0
            if ended == 0:
                break
            for path in output.iterdir():
                path.unlink()
            output.rmdir()
    # Killed before each of the writes, then once between the rename and its sync, then not at all.
    assert len(outcomes) >= 8
    assert outcomes[:-2] == [(-9, False)] * (len(outcomes) - 2)
    assert outcomes[-2:] == [(-9, True), (0, True)]
    assert [path.name for path in output.parent.iterdir()] == ["merged"]


def test_two_merges_into_one_folder_do_not_meet(halves, tmp_path):
    staging = tmp_path / ".merged.merging"
    handle = make_scratch(staging)
    with pytest.raises(UsageError, match="in use by another rooflens"):
        join(halves, tmp_path / "merged")
    remove_scratch(staging, handle)
    assert json.loads((join(halves, tmp_path / "merged") / "run.json").read_text())["id"] == "merged"


def test_a_folder_where_merges_keep_their_parts_is_left_alone_when_a_user_made_it(halves, tmp_path):
    mine = tmp_path / ".merged.merging" / "merged" / "mine.txt"
    mine.parent.mkdir(parents=True)
    mine.touch()
    with pytest.raises(UsageError, match="move it away"):
        join(halves, tmp_path / "merged")
    assert mine.exists()

"""Loading what a folder may lack: tables, and the columns that older versions did not write."""

from pathlib import Path

import pandas as pd
import pytest
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.summarize import summarize
from rooflens.shapes.errors import UsageError
from rooflens.shapes.run_folder.columns import CANARY, CELLS, SAMPLES, TABLES, TELEMETRY, TUNING, ColumnType

from ..run_files import CANARY_ROW, ONE, drop_columns
from ..synthetic import write_run, write_table

NEW_IN_CELLS = (
    *("cold_by", "copies", "launches_per_sample", "discarded", "disturbed", "tuning", "candidates", "tuning_s"),
)


def test_a_file_of_an_older_version_lacks_columns_that_are_then_unknown(tmp_path):
    whole = load_run(write_run(tmp_path, **ONE))
    drop_columns(tmp_path / "cells.csv", *NEW_IN_CELLS)
    drop_columns(tmp_path / "samples.csv", "event_time_s", "kernels_s", "discarded")
    old = load_run(tmp_path)
    assert list(old.cells.columns) == list(CELLS.names)
    assert list(old.samples.columns) == list(SAMPLES.names)
    for name in NEW_IN_CELLS:
        unknown = old.cells[name] == "" if CELLS[name].kind is ColumnType.TEXT else old.cells[name].isna()
        assert unknown.all(), name
        assert old.cells[name].dtype == whole.cells[name].dtype
    assert old.samples[["event_time_s", "kernels_s"]].isna().all(axis=None)
    assert (old.samples["discarded"] == "").all()
    columns = ["cell_id", "time_s", "time_low_s", "time_high_s", "samples", "flops_per_s", "note"]
    assert summarize(old)[columns].equals(summarize(whole)[columns])
    assert summarize(old)["discarded"].isna().all()  # unknown, not 0
    assert (summarize(whole)["discarded"] == 0).all()


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_a_required_column_may_not_be_absent(tmp_path, table):
    folder = write_run(tmp_path, **ONE, telemetry=lambda cell, round_: [{}], canary=CANARY_ROW)
    write_table(folder, TUNING, [])
    required = next(column.name for column in reversed(table.columns) if column.required)
    drop_columns(folder / table.file, required)
    with pytest.raises(UsageError, match=rf"{table.file} line 1: column '{required}' is missing"):
        load_run(folder)


@pytest.mark.parametrize(("folder", "timed"), [("docs/results/cpu-llm4bit-quick", 216), ("tests/data/older-run", 6)])
def test_stored_runs_load(folder, timed):
    """The older one has no columns of later versions, and no telemetry and canary."""
    run = load_run(Path(__file__).parents[3] / folder)
    assert run.missing_units == 0
    assert len(run.samples) == run.cells["samples"].sum()
    assert summarize(run)["time_s"].notna().sum() == timed


def test_columns_of_an_earlier_version_are_not_read_and_others_stand_in_any_order(tmp_path):
    whole = load_run(write_run(tmp_path, **ONE))
    samples = pd.read_csv(tmp_path / "samples.csv", dtype=str, keep_default_na=False)
    samples[samples.columns[::-1]].assign(span_s="0.5").to_csv(
        tmp_path / "samples.csv", index=False, lineterminator="\n"
    )
    assert load_run(tmp_path).samples.equals(whole.samples)


def test_tables_that_a_folder_may_lack_are_empty_then(tmp_path):
    run = load_run(write_run(tmp_path, **ONE))
    for table, frame in ((TELEMETRY, run.telemetry), (CANARY, run.canary), (TUNING, run.tuning)):
        assert not (tmp_path / table.file).exists()
        assert len(frame) == 0
        assert list(frame.columns) == list(table.names)
        write_table(tmp_path, table, [])
    again = load_run(tmp_path)
    assert again.telemetry.dtypes.equals(run.telemetry.dtypes)
    assert again.canary.dtypes.equals(run.canary.dtypes)
    assert again.tuning.dtypes.equals(run.tuning.dtypes)


def test_telemetry_and_canary_come_back_as_they_were_written(tmp_path):
    readings = [{"clock_hz": 1.98e9, "slowdown": "power_cap"}, {"clock_hz": 1.9e9, "other_processes": 3}]
    run = load_run(write_run(tmp_path, **ONE, telemetry=lambda cell, round_: readings, canary=CANARY_ROW))
    assert len(run.telemetry) == 12 * 2
    assert run.telemetry["clock_hz"].tolist()[:2] == [1.98e9, 1.9e9]
    assert run.telemetry["slowdown"].tolist()[:2] == ["power_cap", ""]
    assert run.telemetry["other_processes"].isna().tolist()[:2] == [True, False]
    assert run.telemetry["power_w"].isna().all()
    assert run.canary.to_dict("records") == CANARY_ROW

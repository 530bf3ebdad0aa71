"""Loading: what is kept, what is forgiven, and that every fault is named by file, line and column."""

import gzip
import json
import tracemalloc

import pandas as pd
import pytest
from rooflens.analysis.frames.load import _units, load_run
from rooflens.analysis.frames.tables import parse_table
from rooflens.shapes.errors import UsageError
from rooflens.shapes.files.csv_file import csv_text
from rooflens.shapes.run_folder.columns import CELLS, SAMPLES

from .. import synthetic
from ..run_files import CANARY_ROW, ONE, edit, set_field
from ..synthetic import H200, PlantedCell, write_run


def test_tables_come_back_as_they_were_written(tmp_path):
    run = load_run(write_run(tmp_path / "run", **ONE, run_id="r1"))
    assert (run.id, run.baseline, run.challengers) == ("r1", "dequant_blas", ("simt_4bit",))
    assert len(run.cells) == run.planned_units == 12
    assert run.missing_units == 0
    assert len(run.samples) == 120
    assert list(run.cells.columns) == list(CELLS.names)
    assert run.cells["flops"].unique().tolist() == [2 * 64 * 96, 4 * 64 * 96]
    assert run.samples["time_s"].min() > 0
    assert json.loads(run.cells["config"].iloc[0]) == {"BLOCK_N": 64, "num_warps": 4}


def test_names_that_pandas_would_read_as_missing_stay_names(tmp_path):
    shapes = (("NA", "null", 64, 96), ("nan", 'a,"b" <c>', 32, 96))
    run = load_run(write_run(tmp_path, shapes=shapes, Ms=(1,), providers=("None", "dequant_blas")))
    assert set(run.cells["provider"]) == {"None", "dequant_blas"}
    assert set(run.cells["model"]) == {"NA", "nan"}
    assert set(run.cells["layer"]) == {"null", 'a,"b" <c>'}
    assert (run.cells["reason"] == "").all()


@pytest.mark.parametrize(
    "name, stored, role",
    [
        ("blas", "blas", "reference"),
        ("their_gemm", "blas", "reference"),
        ("stock_triton", "stock_triton", "reference"),
        ("stock_triton_ao", "stock_triton", "reference"),
        ("stock_triton_mx", "stock_triton", "stock_triton"),  # decodes in its call
        ("simt_4bit", "candidate", "candidate"),
    ],
)
def test_references_of_older_runs_are_known_by_role_and_name(tmp_path, monkeypatch, name, stored, role):
    monkeypatch.setitem(synthetic.ROLES, name, stored)
    options = ONE | {"providers": (name, "dequant_blas"), "challengers": (name,)}
    run = load_run(write_run(tmp_path, **options))
    assert f'"role": "{stored}"' in (tmp_path / "run.json").read_text()
    assert run.role(name) == role
    assert set(run.cells.loc[run.cells["provider"] == name, "role"]) == {role}
    assert run.challengers == (() if role == "reference" else (name,))


def test_unknown_values_are_missing_and_booleans_are_booleans(tmp_path):
    run = load_run(write_run(tmp_path, **ONE))
    assert run.samples["host_time_s"].isna().all()
    assert run.cells["blocked"].isna().all()
    gpu = load_run(write_run(tmp_path / "gpu", **ONE, machine=H200))
    assert gpu.samples["host_time_s"].notna().all()
    assert gpu.cells["blocked"].dtype == "boolean"
    assert gpu.cells["blocked"].all()


def test_what_an_interrupted_writer_left_is_ignored(tmp_path):
    folder = write_run(tmp_path, **ONE)
    whole = load_run(folder)
    with (folder / "samples.csv").open("a") as file:
        file.write("0123456789abcdef,0,0,0.001,,,,\n" * 3)  # samples whose commit row was never written
        file.write("0123456789abcdef,0,3,0.0")
    with (folder / "cells.csv").open("a") as file:
        file.write('0123456789abcdef,0,0,0,passed,"torn')
    again = load_run(folder)
    assert again.cells.equals(whole.cells)
    assert again.samples.equals(whole.samples)


@pytest.mark.parametrize("name", ["cells.csv", "samples.csv", "ceilings.csv", "run.json"])
def test_a_missing_file_is_named(tmp_path, name):
    folder = write_run(tmp_path, **ONE)
    (folder / name).unlink()
    with pytest.raises(UsageError, match=name.replace(".", r"\.")):
        load_run(folder)


def test_a_key_of_the_manifest_that_is_needed_is_named(tmp_path):
    path = write_run(tmp_path, **ONE) / "run.json"
    path.write_text(path.read_text().replace('"baseline":', '"base":'))
    with pytest.raises(UsageError, match=r"run\.json: key 'baseline' is missing"):
        load_run(tmp_path)


def test_compressed_tables_are_read_like_others(tmp_path):
    folder = write_run(tmp_path, **ONE, machine=H200, telemetry=lambda cell, round_: [{"temperature_c": 40.0}])
    whole = load_run(folder)
    for path in folder.glob("*.csv"):
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    run = load_run(folder)
    for table in ("cells", "samples", "ceilings", "telemetry"):
        assert getattr(run, table).equals(getattr(whole, table))
        assert len(getattr(run, table))
    assert run.digests == whole.digests


@pytest.mark.parametrize("damage", [lambda packed: packed[:-9], lambda packed: b"no gzip", lambda packed: packed[:20]])
def test_a_damaged_compressed_table_is_named(tmp_path, damage):
    folder = write_run(tmp_path, **ONE)
    packed = gzip.compress((folder / "samples.csv").read_bytes())
    (folder / "samples.csv").unlink()
    (folder / "samples.csv.gz").write_bytes(damage(packed))
    with pytest.raises(UsageError, match=r"samples\.csv\.gz is no whole gzip file .*restore it from a copy"):
        load_run(folder)


def test_a_tuned_table_is_no_run(tmp_path):
    folder = write_run(tmp_path / "run", **ONE)
    manifest = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps(manifest | {"tune": {}}))
    with pytest.raises(UsageError, match=rf"is a tuned table: use it with rooflens run SUITE --tuned {folder}"):
        load_run(folder)


def test_a_run_without_a_finished_cell_says_how_to_go_on(tmp_path):
    folder = write_run(tmp_path, **ONE, rounds=0)
    with pytest.raises(UsageError, match=r"no cell is finished; resume with: rooflens run -o .* --resume"):
        load_run(folder)


@pytest.mark.parametrize(
    ("file", "line", "column", "text", "complaint"),
    [
        ("cells.csv", 3, "M", "two", "'two' is not a whole number"),
        ("cells.csv", 3, "M", "1.5", "'1.5' is not a whole number"),
        ("cells.csv", 4, "M", "0", "0 is not positive"),
        ("cells.csv", 5, "N", "", "is empty"),
        ("cells.csv", 5, "provider", "", "is empty"),
        ("cells.csv", 13, "verdict", "pased", "unknown word 'pased' .known: passed, incorrect"),
        ("cells.csv", 2, "cache", "tepid", "unknown word 'tepid'"),
        ("cells.csv", 2, "blocked", "maybe", "'maybe' is neither true nor false"),
        ("cells.csv", 6, "elapsed_s", "fast", "'fast' is not a number"),
        ("samples.csv", 7, "time_s", "-1e-3", "-1e-3 is not positive"),
        ("samples.csv", 7, "kernels_s", "1e-999999999", "1e-999999999 is not positive"),
        ("samples.csv", 7, "time_s", "1e300", "1e300 is too small or too large to be measured"),
        ("cells.csv", 3, "N", "9" * 5000, "'9999.*9999' is not a whole number"),
        ("cells.csv", 3, "config", "[1]", "'.1.' is not a JSON object"),
        ("samples.csv", 7, "time_s", "nan", "'nan' is not a number"),
        ("samples.csv", 121, "time_s", "", "is empty"),
        ("samples.csv", 9, "host_time_s", "1 ms", "'1 ms' is not a number"),
        ("samples.csv", 9, "round", "first", "'first' is not a whole number"),
        ("ceilings.csv", 2, "ceiling", "roof", "unknown word 'roof'"),
        ("ceilings.csv", 3, "value", "0", "0 is not positive"),
        ("telemetry.csv", 3, "clock_hz", "fast", "'fast' is not a number"),
        ("telemetry.csv", 3, "batch", "", "is empty"),
        ("canary.csv", 2, "gemm_s", "0", "0 is not positive"),
        ("canary.csv", 2, "at", "", "is empty"),
    ],
)
def test_a_wrong_field_is_named_by_file_line_and_column(tmp_path, file, line, column, text, complaint):
    folder = write_run(tmp_path, **ONE, telemetry=lambda cell, round_: [{"clock_hz": 1e9}], canary=CANARY_ROW)
    set_field(folder / file, line, column, text)
    with pytest.raises(UsageError, match=rf"{file} line {line}, column {column}: .*{complaint}") as caught:
        load_run(folder)
    assert "--resume" in str(caught.value)  # the way out
    assert "\n" not in str(caught.value)


def _line(number, change):
    """Change one line of a table, the header being line 1."""
    return lambda lines: lines.__setitem__(number - 1, change(lines[number - 1]))


@pytest.mark.parametrize("file", ["cells.csv", "samples.csv"])
@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        (_line(5, lambda line: line.split(",", 1)[1]), r"line 5: \d+ fields instead of"),
        (_line(5, lambda line: f"x,{line}"), r"line 5: \d+ fields instead of"),
        (lambda lines: lines.insert(4, "\n"), r"line 5: 0 fields instead of"),
        (lambda lines: lines.__setitem__(slice(None), ["cell_id,rou"]), r"is empty"),
    ],
    ids=["less", "more", "blank", "empty"],
)
def test_a_line_with_a_field_less_or_more_is_named(tmp_path, file, damage, complaint):
    edit(write_run(tmp_path, **ONE) / file, damage)
    with pytest.raises(UsageError, match=rf"{file} {complaint}"):
        load_run(tmp_path)


@pytest.mark.parametrize(
    ("file", "damage", "complaint"),
    [
        ("cells.csv", _line(3, lambda line: line.replace(",{},", ",{,")), r"line 3, column config: '\{' is not JSON"),
        ("cells.csv", _line(6, lambda line: line.replace(",passed,", ',passed,"')), "line 6: ',' expected after"),
        ("cells.csv", _line(1, lambda line: line.replace("round", "rond", 1)),
         "line 1: unknown column 'rond': did you mean round"),
        ("ceilings.csv", _line(1, lambda line: line.replace("level", "ceiling")),
         "line 1: column 'ceiling' appears twice"),
        ("cells.csv", lambda lines: lines.append(lines[2]), "line 14, column round: .* duplicates line 3"),
    ],
    ids=["JSON", "open quote", "unknown column", "column twice", "committed twice"],
)  # fmt: skip
def test_what_is_wrong_with_a_table_is_named(tmp_path, file, damage, complaint):
    edit(write_run(tmp_path, **ONE) / file, damage)
    with pytest.raises(UsageError, match=rf"{file} {complaint}"):
        load_run(tmp_path)


def test_text_must_be_utf8(tmp_path):
    folder = write_run(tmp_path, **ONE)
    edited = (folder / "cells.csv").read_bytes().replace(b",llm4bit-quick,", b",llm4bit\xffquick,", 1)
    (folder / "cells.csv").write_bytes(edited)
    with pytest.raises(UsageError, match=r"cells\.csv line 2, column suite: .* is not valid UTF-8"):
        load_run(folder)


def test_a_discarded_sample_may_be_negative_and_one_that_counts_may_not(tmp_path):
    def negative(cell: PlantedCell, round_: int, index: int) -> str:
        return "negative time" if index == 4 else ""

    folder = write_run(tmp_path, **ONE, discards=negative)
    run = load_run(folder)
    assert (run.samples["time_s"] < 0).sum() == (run.samples["discarded"] != "").sum() == 12
    set_field(folder / "samples.csv", 50, "index", "x")  # the first fault, though not the first negative time
    with pytest.raises(UsageError, match=r"samples\.csv line 50, column index: 'x' is not a whole number"):
        load_run(folder)
    set_field(folder / "samples.csv", 6, "discarded", "")
    with pytest.raises(UsageError, match=r"samples\.csv line 6, column time_s: -\S+ is not positive and finite"):
        load_run(folder)


def test_discarded_samples_must_be_as_many_as_announced(tmp_path):
    folder = write_run(tmp_path, **ONE, discards=lambda cell, round_, index: "thermal slowdown" if index > 7 else "")
    set_field(folder / "samples.csv", 31, "discarded", "")  # the last sample of the third unit
    with pytest.raises(
        UsageError, match=r"cells\.csv line 4, column discarded: 2 announced, but .* discards 1 for round 0"
    ):
        load_run(folder)
    set_field(folder / "cells.csv", 4, "discarded", "")  # nothing announced: the samples say it themselves
    assert (load_run(folder).samples["discarded"] != "").sum() == 23


def test_a_passed_round_in_which_nothing_counts_is_named(tmp_path):
    def all_of_one(cell: PlantedCell, round_: int, index: int) -> str:
        return "thermal slowdown" if (cell.provider, cell.M, round_) == ("simt_4bit", 2, 1) else ""

    folder = write_run(tmp_path, **ONE, discards=all_of_one)
    with pytest.raises(UsageError, match=r"cells\.csv line 8, column discarded: all 10 samples of round 1 .*--resume"):
        load_run(folder)


def test_columns_may_stand_in_another_order(tmp_path):
    folder = write_run(tmp_path, **ONE)
    before = load_run(folder)

    def swap(lines: list[str]) -> None:
        for index, line in enumerate(lines):
            cell, round_, index_, rest = line.split(",", 3)
            lines[index] = ",".join((round_, cell, index_, rest))

    edit(folder / "samples.csv", swap)
    assert load_run(folder).samples.equals(before.samples)


@pytest.mark.parametrize(
    ("lost", "line", "left"),
    [(slice(11, 12), 3, 9), (slice(1, 11), 2, 0)],  # of the second unit the first sample; the whole first unit
)
def test_a_passed_round_without_its_samples_is_named(tmp_path, lost, line, left):
    edit(write_run(tmp_path, **ONE) / "samples.csv", lambda lines: lines.__delitem__(lost))
    complaint = rf"cells\.csv line {line}, column samples: 10 announced, but samples\.csv has {left}"
    with pytest.raises(UsageError, match=complaint):
        load_run(tmp_path)


def test_samples_of_a_failed_round_are_named(tmp_path):
    def fails(cell: PlantedCell) -> tuple[str, str] | None:
        return ("oom", "out of memory") if cell.provider == "simt_4bit" else None

    folder = write_run(tmp_path, **ONE, failures=fails)
    failed = load_run(folder).cells.query("verdict == 'oom'")["cell_id"].iloc[0]
    with (folder / "samples.csv").open("a") as file:
        file.write(f"{failed},0,0,0.001,,,,\n")
    with pytest.raises(UsageError, match=rf"samples\.csv line 62: a sample of cell {failed} round 0, which is oom"):
        load_run(folder)


def test_rows_are_matched_in_memory_that_grows_with_them():
    """Each cell in a round of its own, as no run has it: a table of all pairs takes 3 GB for 20,000 rows."""
    many = 3000
    cells = pd.DataFrame({"cell_id": [f"c{number}" for number in range(many)], "round": range(many)})
    tracemalloc.start()
    try:
        found = _units(cells.iloc[::-1], cells)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.tolist() == list(range(many))[::-1]
    assert peak_bytes < many**2


def test_a_table_is_read_without_a_copy_of_it_as_text():
    """That takes five bytes for each of the file, two gigabytes of a long run's samples."""
    cell = "c" * 300
    table = csv_text(SAMPLES.names, [[cell, 0, number, 1e-4, *[""] * 4] for number in range(5000)]).encode()
    tracemalloc.start()
    try:
        frame = parse_table(table, SAMPLES, "samples.csv")
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(frame) == 5000
    assert peak_bytes < 3 * len(table)

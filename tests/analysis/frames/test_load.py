"""Loading: what is kept, what is forgiven, and that every fault is named by file, line and column."""

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
from ..run_files import CANARY_ROW, ONE, compress, edit, set_field
from ..synthetic import H200, PlantedCell, write_run


def test_tables_come_back_as_they_were_written(tmp_path):
    run = load_run(write_run(tmp_path / "run", **ONE, run_id="r1"))
    assert (run.id, run.baseline, run.challengers) == ("r1", "dequant_blas", ("simt_4bit",))
    assert len(run.cells) == run.coverage.rounds == 12
    assert run.missing_units == 0
    assert len(run.samples) == 120
    assert list(run.cells.columns) == list(CELLS.names)
    assert run.cells["flops"].unique().tolist() == [2 * 64 * 96, 4 * 64 * 96]
    assert run.samples["time_s"].min() > 0
    assert json.loads(run.cells["config"].iloc[0]) == {"BLOCK_N": 64, "num_warps": 4}
    assert run.samples["host_time_s"].isna().all()
    assert run.cells["blocked"].isna().all()
    # Names that pandas would read as missing stay names.
    shapes = (("NA", "null", 64, 96), ("nan", 'a,"b" <c>', 32, 96))
    odd = load_run(
        write_run(tmp_path / "gpu", shapes=shapes, Ms=(1,), providers=("None", "dequant_blas"), machine=H200)
    )
    for name, values in (("provider", {"None", "dequant_blas"}), ("model", {"NA", "nan"}), ("reason", {""})):
        assert set(odd.cells[name]) == values
    assert set(odd.cells["layer"]) == {"null", 'a,"b" <c>'}
    assert odd.samples["host_time_s"].notna().all()
    assert odd.cells["blocked"].dtype == "boolean"
    assert odd.cells["blocked"].all()


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


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('"baseline":', '"base":', r"run\.json: key 'baseline' is missing"),
        ('"baseline":', '"tune": {}, "baseline":', "is a tuned table: use it with rooflens run SUITE --tuned"),
    ],
)
def test_a_manifest_that_is_none_of_a_run_is_named(tmp_path, old, new, complaint):
    path = write_run(tmp_path, **ONE) / "run.json"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(UsageError, match=complaint):
        load_run(tmp_path)


HOT = {"discards": lambda cell, round_, _: "hot" * ((cell.provider, cell.M, round_) == ("simt_4bit", 2, 1))}


@pytest.mark.parametrize(
    ("options", "change", "complaint"),
    [
        ({"rounds": 0}, None, r"no cell is finished; resume with: rooflens run -o .* --resume"),
        (HOT, None, r"cells\.csv line 8, column discarded: all 10 samples of round 1 .*--resume"),
        # Of the second unit the first sample is lost; the whole first unit.
        ({}, lambda lines: lines.__delitem__(11), r"cells\.csv line 3, column samples: 10 announced, but .* has 9"),
        ({}, lambda lines: lines.__delitem__(slice(1, 11)), r"cells\.csv line 2, column samples: 10 .* has 0"),
    ],
)
def test_samples_that_are_not_those_of_the_rounds_are_named(tmp_path, options, change, complaint):
    edit(write_run(tmp_path, **ONE | options) / "samples.csv", change or list)
    with pytest.raises(UsageError, match=complaint):
        load_run(tmp_path)


def test_compressed_tables_are_read_like_others(tmp_path):
    folder = write_run(tmp_path, **ONE, machine=H200, telemetry=lambda cell, round_: [{"temperature_c": 40.0}])
    whole = load_run(folder)
    compress(folder)
    run = load_run(folder)
    for table in ("cells", "samples", "ceilings", "telemetry"):
        assert getattr(run, table).equals(getattr(whole, table))
        assert len(getattr(run, table))
    assert run.digests == whole.digests


@pytest.mark.parametrize("damage", [lambda packed: packed[:-9], lambda packed: b"no xz", lambda packed: packed[:20]])
def test_a_damaged_compressed_table_is_named(tmp_path, damage):
    folder = write_run(tmp_path, **ONE)
    compress(folder)
    packed = folder / "samples.csv.xz"
    packed.write_bytes(damage(packed.read_bytes()))
    with pytest.raises(UsageError, match=r"samples\.csv\.xz is damaged .*restore it from a copy"):
        load_run(folder)


@pytest.mark.parametrize(
    ("file", "line", "column", "text", "complaint"),
    [
        ("cells.csv", 3, "M", "1.5", "'1.5' is not a whole number"),
        ("cells.csv", 4, "M", "0", "0 is not positive"),
        ("cells.csv", 5, "provider", "", "is empty"),
        ("cells.csv", 13, "verdict", "pased", "unknown word 'pased' .known: passed, incorrect"),
        ("cells.csv", 2, "blocked", "maybe", "'maybe' is neither true nor false"),
        ("cells.csv", 6, "elapsed_s", "fast", "'fast' is not a number"),
        ("samples.csv", 7, "time_s", "-1e-3", "-1e-3 is not positive"),
        ("samples.csv", 7, "kernels_s", "1e-999999999", "1e-999999999 is not positive"),
        ("samples.csv", 7, "time_s", "1e300", "1e300 is too small or too large to be measured"),
        ("cells.csv", 3, "N", "9" * 5000, "'9999.*9999' is not a whole number"),
        ("cells.csv", 3, "config", "[1]", "'.1.' is not a JSON object"),
        ("samples.csv", 7, "time_s", "nan", "'nan' is not a number"),
        ("samples.csv", 121, "time_s", "", "is empty"),
        ("ceilings.csv", 2, "ceiling", "roof", "unknown word 'roof'"),
        ("ceilings.csv", 3, "value", "0", "0 is not positive"),
        ("telemetry.csv", 3, "clock_hz", "fast", "'fast' is not a number"),
        ("canary.csv", 2, "gemm_s", "0", "0 is not positive"),
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


@pytest.mark.parametrize(
    ("file", "damage", "complaint"),
    [
        ("cells.csv", _line(5, lambda line: line.split(",", 1)[1]), r"line 5: \d+ fields instead of"),
        ("samples.csv", _line(5, lambda line: f"x,{line}"), r"line 5: \d+ fields instead of"),
        ("cells.csv", lambda lines: lines.insert(4, "\n"), "line 5: 0 fields instead of"),
        ("samples.csv", lambda lines: lines.__setitem__(slice(None), ["cell_id,rou"]), "is empty"),
        ("cells.csv", _line(3, lambda line: line.replace(",{},", ",{,")), r"line 3, column config: '\{' is not JSON"),
        ("cells.csv", _line(6, lambda line: line.replace(",passed,", ',passed,"')), "line 6: ',' expected after"),
        ("cells.csv", _line(1, lambda line: line.replace("round", "rond", 1)),
         "line 1: unknown column 'rond': did you mean round"),
        ("ceilings.csv", _line(1, lambda line: line.replace("level", "ceiling")),
         "line 1: column 'ceiling' appears twice"),
        ("cells.csv", lambda lines: lines.append(lines[2]), "line 14, column round: .* duplicates line 3"),
    ],
    ids=["less", "more", "blank", "empty", "JSON", "open quote", "unknown column", "column twice", "committed twice"],
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


def test_samples_of_a_failed_round_are_named(tmp_path):
    folder = write_run(tmp_path, **ONE)
    failed = load_run(folder).cells["cell_id"].iloc[0]
    edit(folder / "cells.csv", lambda lines: lines.__setitem__(1, lines[1].replace(",passed,", ",oom,")))
    with pytest.raises(UsageError, match=rf"samples\.csv line 2: a sample of cell {failed} round 0, which is oom"):
        load_run(folder)


def peak_bytes(work):
    """Return what `work()` returns, and the most memory that it takes."""
    tracemalloc.start()
    try:
        return work(), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_grows_with_the_rows():
    """Each cell in a round of its own, as no run has it: a table of all pairs takes 3 GB for 20,000 rows.

    A copy of a table as text takes five bytes for each of the file, two gigabytes of a long run's samples.
    """
    many = 3000
    cells = pd.DataFrame({"cell_id": [f"c{number}" for number in range(many)], "round": range(many)})
    found, peak = peak_bytes(lambda: _units(cells.iloc[::-1], cells))
    assert found.tolist() == list(range(many))[::-1]
    assert peak < many**2
    rows = [["c" * 300, 0, number, 1e-4, *[""] * 4] for number in range(5000)]
    table = csv_text(SAMPLES.names, rows).encode()
    frame, peak = peak_bytes(lambda: parse_table(table, SAMPLES, "samples.csv"))
    assert len(frame) == 5000
    assert peak < 3 * len(table)

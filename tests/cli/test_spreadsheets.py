"""Texts that a spreadsheet would compute: in no CSV that a command writes, and unchanged where one is read back."""

import csv
import io

import pytest
from rooflens.analysis.frames.load import load_run
from rooflens.cli.main import main
from rooflens.harness.storage.store import RunStore
from rooflens.shapes.files.csv_file import csv_text, records, rows
from rooflens.shapes.run_folder.columns import CELLS

from ..harness.sharded import join, split

NAMES = ("=cmd|'/c calc'!A1", "@x", "-y+1", "'=quoted", "dequant_blas")
SHAPES = (("+model", "=layer", 512, 1024), ("-m", "@l", 1024, 1024), ("m", "l", 2048, 1024))


def is_formula(field):
    try:
        float(field)
    except ValueError:
        return field.startswith(("=", "+", "-", "@", "\t", "\r"))
    return False


def formulas(text):
    return [field for row in csv.reader(io.StringIO(text, newline="")) for field in row if is_formula(field)]


@pytest.fixture
def named(plant):
    """A run with such names, its tables written as the store does."""
    folder = plant(shapes=SHAPES, Ms=(1, 16), providers=NAMES, challengers=NAMES[:1], samples=3)
    for path in folder.glob("*.csv"):
        header, *body = [fields for _, fields in records(path.read_bytes().replace(b"'=quoted", b"''=quoted"), path)]
        path.write_text(csv_text(header, body), newline="")
    return folder


def test_a_run_folder_comes_back(named):
    assert not formulas((named / "cells.csv").read_text())
    cells = load_run(named).cells
    assert tuple(cells["provider"].unique()) == NAMES
    assert set(zip(cells["model"], cells["layer"], strict=True)) == {shape[:2] for shape in SHAPES}
    store = RunStore.reopen(named)
    try:
        stored = store.rows(CELLS)
    finally:
        store.close()
    assert [row["provider"] for row in stored] == cells["provider"].tolist()


def test_a_merged_run_has_the_same_names(named, tmp_path):
    merged = join(split(named, tmp_path, lambda row: row["M"]), tmp_path / "merged")
    assert not formulas((merged / "cells.csv").read_text())
    assert set(load_run(merged).cells["provider"]) == set(NAMES)


def test_what_is_written_from_it(named, tmp_path, capsys):
    assert main(["dispatch", str(named), "-o", str(tmp_path / "out"), "--policy", "table"]) == 0
    assert main(["report", str(named)]) == 0
    written = [*(tmp_path / "out").glob("*.csv"), *named.rglob("figures/*.csv")]
    assert len(written) > 2
    assert [(path, found) for path in written if (found := formulas(path.read_text()))] == []
    texts = "".join(path.read_text() for path in written)
    assert "'=cmd" in texts
    arms = {row["incumbent"] for _, row in rows((tmp_path / "out" / "dispatch.csv").read_bytes(), "dispatch.csv")}
    best = {row["best"] for _, row in rows((tmp_path / "out" / "dispatch.csv").read_bytes(), "dispatch.csv")}
    assert arms == {"dequant_blas"}
    assert best <= set(NAMES)

"""`rooflens.load`: frames of a stored run, as parquet, and in an executed notebook."""

import html
import json
import lzma
import re
import sys
from dataclasses import asdict

import pandas as pd
import pytest
import rooflens
from rooflens.analysis.roofline.bounds import Bound
from rooflens.api.stored_run import FRAMES
from rooflens.shapes.errors import RooflensError, UsageError

from ..environments import ROOT

RUN = ROOT / "docs" / "results" / "h200-llm4bit-quick"
NAME = json.loads((RUN / "run.json").read_text("utf-8"))["id"]


@pytest.fixture(scope="module")
def run():
    return rooflens.load(RUN)


def test_cells_have_time_interval_rate_bound_and_verdict(run):
    stored = pd.read_csv(next(RUN.glob("cells.csv*")))
    assert set(run.cells["cell_id"]) == set(stored["cell_id"])
    assert run.cells["cell_id"].is_unique
    passed = run.cells[run.cells["verdict"] == "passed"]
    assert len(passed)
    assert (passed["time_low_s"] < passed["time_s"]).all()
    assert (passed["time_s"] < passed["time_high_s"]).all()
    assert set(passed["bound_class"]) <= set(Bound)
    rated = passed[passed["flops"] > 0]
    assert rated["tflops"].to_numpy() == pytest.approx((rated["flops"] / rated["time_s"] / 1e12).to_numpy())


def test_the_other_frames_are_those_of_the_run(run):
    columns = lzma.decompress((RUN / "samples.csv.columns.xz").read_bytes()).decode().split("\f")
    named, *times = columns[3].split("\n")
    assert (named, [*map(float, times)]) == ("time_s", run.samples["time_s"].to_list())
    assert run.ceilings["kind"].isin(["measured", "spec", "derived"]).all()
    assert (run.speedups["ratio"].dropna() > 0).all()
    assert "crossover_M" in run.crossovers
    assert NAME in repr(run)


def test_parquet_files_hold_the_frames_and_where_the_winner_changes(run, tmp_path):
    pytest.importorskip("pyarrow")
    paths = run.to_parquet(tmp_path / "out")
    assert [path.name for path in paths] == [f"{name}.parquet" for name in FRAMES]
    cells, crossovers = (pd.read_parquet(tmp_path / "out" / f"{name}.parquet") for name in ("cells", "crossovers"))
    assert cells["time_s"].to_numpy() == pytest.approx(run.cells["time_s"].to_numpy(), nan_ok=True)
    assert list(cells.columns) == list(run.cells.columns)
    for written, regions in zip(crossovers["regions"], run.crossovers["regions"], strict=True):
        assert [*written] == [asdict(one) for one in regions]
    assert (crossovers["regions"].map(len) > 1).any()


def test_without_pyarrow_the_extra_is_named(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(RooflensError, match=re.escape("pip install 'rooflens[parquet]'")):
        run.to_parquet(tmp_path)
    assert not [*tmp_path.iterdir()]


def test_what_is_no_run_is_refused_in_a_line(tmp_path):
    with pytest.raises(UsageError, match="no such folder"):
        rooflens.load(tmp_path / "nowhere")


@pytest.mark.slow
def test_a_notebook_shows_the_grid_and_the_table_of_the_report():
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    code = f"import rooflens\nrun = rooflens.load({str(RUN)!r})\nrun"
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    (output,) = notebook.cells[0].outputs
    (page,) = re.findall(r'srcdoc="([^"]*)"', output["data"]["text/html"])
    page = html.unescape(page)
    assert NAME in output["data"]["text/plain"]
    assert page.startswith("<!doctype html>")
    assert 'id="speedup"' in page
    assert 'id="throughput"' in page

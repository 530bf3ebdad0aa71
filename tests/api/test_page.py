"""The Python of two pages runs as it stands there, block after block, beside the run that their commands store."""

import re
import shlex

import numpy as np
import pytest
import rooflens
from rooflens.cli.main import main
from rooflens.harness.worker.agreement import FP8_FLOOR_DB, MOST_BYTES
from rooflens.shapes.scheme import SNR_FLOOR_DB, DType

from ..environments import ROOT

PAGE = (ROOT / "docs" / "api.md").read_text("utf-8")


def ran(page, folder, monkeypatch, capsys):
    """Run the command of a page, then its blocks of Python; return what they define, and what they printed."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    monkeypatch.chdir(folder)
    (command,) = re.findall(r"^\$ rooflens (run .*)$", text, flags=re.MULTILINE)
    assert main(shlex.split(command)) == 0
    capsys.readouterr()
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(block, page, "exec"), names)
    return names, capsys.readouterr().out


@pytest.mark.slow
def test_the_api_page_runs(tmp_path, monkeypatch, capsys):
    _, shown = ran("api.md", tmp_path, monkeypatch, capsys)
    assert "mm: " in shown


@pytest.mark.slow
def test_the_page_on_run_folders_computes_what_rooflens_does(tmp_path, monkeypatch, capsys):
    names, _ = ran("run-folder.md", tmp_path, monkeypatch, capsys)
    run = rooflens.load("runs/mine")
    cells = run.cells.set_index("cell_id")
    table = names["table"].loc[cells.index]
    assert len(table) == 4
    for column in ("time_s", "tflops"):
        assert table[column].tolist() == pytest.approx(cells[column].tolist())
    speedups = run.speedups.set_index("M")["ratio"]
    ratios = np.exp(np.log(names["ratios"]).groupby("M").mean())
    assert ratios[speedups.index].tolist() == pytest.approx(speedups.tolist())


def test_the_bounds_of_the_page_are_those_of_the_check():
    floors = {dtype.value: SNR_FLOOR_DB[dtype] for dtype in (DType.FP16, DType.BF16)}
    between = ", ".join(f"{floor_db:g} in {name}" for name, floor_db in floors.items())
    text = " ".join(PAGE.split())
    first = f"at least {SNR_FLOOR_DB[DType.FP32]:g} dB of signal-to-noise ratio in fp32"
    assert f"{first}, {between} and {FP8_FLOOR_DB:g} in fp8" in text
    assert f"More than {MOST_BYTES >> 30} GiB of such tensors" in text

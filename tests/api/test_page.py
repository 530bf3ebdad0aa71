"""The Python of docs/api.md runs as it stands there, block after block, beside the run that its commands store."""

import re
import shlex

import pytest
from rooflens.cli.main import main
from rooflens.harness.worker.agreement import FP8_FLOOR_DB, MOST_BYTES
from rooflens.shapes.scheme import SNR_FLOOR_DB, DType

from ..environments import ROOT

PAGE = (ROOT / "docs" / "api.md").read_text("utf-8")


@pytest.mark.slow
def test_the_examples_of_the_page_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (command,) = re.findall(r"^\$ rooflens (run .*)$", PAGE, flags=re.MULTILINE)
    assert main(shlex.split(command)) == 0
    capsys.readouterr()
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    for block in blocks:
        exec(compile(block, "docs/api.md", "exec"), names)
    shown = capsys.readouterr().out
    assert len(blocks) == 8
    assert "mm: " in shown
    assert "linear" in shown
    assert "simd_4bit_cpu" in shown
    assert callable(names["test_gemm"])


def test_the_bounds_of_the_page_are_those_of_the_check():
    floors = {dtype.value: SNR_FLOOR_DB[dtype] for dtype in (DType.FP16, DType.BF16)}
    between = ", ".join(f"{floor_db:g} in {name}" for name, floor_db in floors.items())
    text = " ".join(PAGE.split())
    first = f"at least {SNR_FLOOR_DB[DType.FP32]:g} dB of signal-to-noise ratio in fp32"
    assert f"{first}, {between} and {FP8_FLOOR_DB:g} in fp8" in text
    assert f"More than {MOST_BYTES >> 30} GiB of such tensors" in text

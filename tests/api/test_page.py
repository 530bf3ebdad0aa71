"""The Python of docs/api.md runs as it stands there, block after block, beside the run that its commands store."""

import re
import shlex

import pytest
from rooflens.cli.main import main

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
    assert len(blocks) == 4
    assert "mm: " in shown
    assert "linear" in shown
    assert "simd_4bit_cpu" in shown
    assert callable(names["test_gemm"])

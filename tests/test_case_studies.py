"""Pages print what rooflens says today of the stored results that they name; `...` is left out."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from rooflens.analysis.frames.load import load_run
from rooflens.cli.main import main

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "case-studies.md").read_text("utf-8")
FILES = sorted((*ROOT.glob("docs/*.md"), *ROOT.glob("plugins/*/README.md")))
PAGES = "".join(path.read_text("utf-8") for path in FILES)
PRINTED = re.findall(r"<!-- rooflens ([^;]+); exit code (\d) -->\n```text\n(.*?)```", PAGES, re.DOTALL)
STORED = sorted(f"docs/results/{path.name}" for path in ROOT.glob("docs/results/upstream-*"))


def test_every_stored_result_is_on_the_page():
    assert STORED
    assert [name for name in STORED if not any(name in command for command, _, _ in PRINTED)] == []


@pytest.mark.slow
@pytest.mark.parametrize(("command", "code", "text"), PRINTED)
def test_the_page_prints_what_the_command_prints(command, code, text, monkeypatch, capsys):
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("COLUMNS", raising=False)  # as wide as in a pipe
    assert main(command.split()) == int(code)
    assert re.fullmatch(re.escape(text).replace(re.escape("...\n"), "(?s:.*)"), capsys.readouterr().out)


def cells(name, arm):
    return pd.read_csv(ROOT / "docs" / "results" / name / arm / "cells.csv.xz")


def kernel(names):
    """The fused kernel by its name, or what runs in place of one."""
    first = json.loads(names)[0].removeprefix("void ").partition("<")[0]
    return "dequantize + cuBLAS" if first == "kDequantizeBlockwise" else f"`{first}`"


def test_the_kernels_that_ran_are_those_of_the_stored_cells():
    base, head = (
        cells("upstream-bitsandbytes", arm).groupby(["layer", "M"])["kernels"].agg(lambda ran: {*map(kernel, ran)})
        for arm in ("base", "head")
    )
    assert len(base) == len(head) == 10
    for (layer, m), before in base.items():
        assert f"| {layer} | {m} | {', '.join(before)} | {', '.join(head[layer, m])} |\n" in PAGE


def test_what_changed_from_process_to_process_did():
    folder = ROOT / "docs" / "results" / "upstream-gemlite" / "base"
    rounds = cells("upstream-gemlite", "base").query("layer == 'down' and M == 16")[["cell_id", "round"]]
    medians = load_run(folder).samples.merge(rounds).groupby("round")["time_s"].median() * 1e6
    told = re.search(r"took (\S+) µs in one process\s+and (\S+) µs in\s+the\s+next", PAGE)
    assert told is not None
    assert [f"{value:.1f}" for value in medians] == [*told.groups()]

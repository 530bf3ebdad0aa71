"""What reaches a terminal from names and texts of others: no character that it would obey."""

import re

import pytest
from rooflens.cli.main import commands, main

from .tiny_runs import SUITE

EVIL = "x\x1b]0;title\x07\x1b[8mhidden\x1b[2J\x9b31m\u202eback"
"""A window title, hidden text, a cleared screen, a style by one byte, and reversed writing."""

CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")

SHAPES = tuple((f"model {index} {EVIL}", f"layer {index} {EVIL}", 512 * (1 + index), 1024) for index in range(4))

MINE = f"mine {EVIL}"

TEXT = f"""Speedups {EVIL}

| shape {EVIL} | base us | new us | speedup |
|---|---|---|---|
| q {EVIL} | 100 | 50 | 3.0x |
| k {EVIL} | 100 | 50 | 2.0x |
"""


@pytest.fixture
def place(plant, tmp_path, monkeypatch):
    """Plant a run, a suite and a text whose names are hostile."""
    for name in ("planted", "other"):
        plant(
            name, run_id=name, shapes=SHAPES, Ms=(1, 4, 16), rounds=4, samples=3, suite=f"suite {EVIL}",
            providers=(MINE, "dequant_blas"), challengers=(MINE,),
            failures=lambda cell: ("runtime_error", EVIL) if cell.M == 16 and cell.N == 512 else None,
        )  # fmt: skip
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.toml").write_text(SUITE.replace("tiny", "evil"))
    rows = "".join(f'"{model}","{layer}",{n},{k}\n' for model, layer, n, k in SHAPES)
    (tmp_path / "evil.csv").write_text("model,layer,N,K\n" + rows)
    (tmp_path / "evil.md").write_text(TEXT)
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ("crossover", "latest"),
        ("dispatch", "latest", "--rows", "9"),
        ("validate", "latest"),
        ("roofline", "latest"),
        ("history", "latest", "other"),
        ("camping", "latest"),
        ("list", "runs"),
        ("report", "latest", "-o", "text=-"),
        ("report", "latest", "-o", "digest=-"),
        ("audit", "evil.md"),
        ("audit", "evil.md", "--markdown", "-"),
        ("list", "shapes", "evil.csv"),
        ("run", "evil.toml", "--device", "cpu", "--dry-run"),
        ("run", f"no {EVIL}"),
        ("run", "evil.toml", "--filter", f"M == '{EVIL}'"),
        ("list", f"no {EVIL}"),
    ],
    ids=" ".join,
)
def test_nothing_is_printed_that_a_terminal_obeys(place, capsys, arguments):
    if arguments[0] not in commands():
        pytest.skip("its plugin is not installed")
    main(arguments)
    found = capsys.readouterr()
    assert re.search(r"\[U\+001B\]|\\x1b", found.out + found.err), "the names are shown"
    assert not CONTROLS.search(found.out + found.err)

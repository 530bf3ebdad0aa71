"""The table that ends a run, against planted times whose ratios are known exactly."""

import re

import pytest
from rich.cells import cell_len
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.pipeline import analyze
from rooflens.cli.run.final_table import print_final_table
from rooflens.reports.view import View

from ..analysis.synthetic import write_run

SHAPES = (("toy", "up", 512, 2048), ("toy", "down", 2048, 512))
EVERY_M = tuple(2**power for power in range(12))


def planted(cell):
    """The fused kernel is 8 / M times as fast as the baseline at every shape; the other one 1.5 times."""
    base = 50e-6 * (cell.N / 512)
    return {"dequant_blas": base, "blas": base / 1.5}.get(cell.provider, base * cell.M / 8)


def plant(folder, **options):
    usual = {
        "shapes": SHAPES, "Ms": EVERY_M, "providers": ("fused", "dequant_blas", "blas"), "challengers": ("fused",),
        "latency": planted, "round_noise": 0, "sample_noise": 0, "rounds": 2, "samples": 2,
    }  # fmt: skip
    return write_run(folder / "run", **usual | options)


def printed(capsys, folder, **options):
    run = load_run(plant(folder, **options))
    print_final_table(View(analyze(run)))
    return capsys.readouterr().out.splitlines()


def test_means_are_the_planted_ones(tmp_path, capsys):
    lines = printed(capsys, tmp_path)
    assert lines[0] == "dequant_blas ÷ provider (time), > 1: provider is faster; geometric mean over 2 shapes"
    assert lines[1].split() == ["provider", *(f"M={m}" for m in EVERY_M), "crossover"]
    name, *means, crossover = lines[2].split()
    assert name == "fused"
    assert [float(text.strip("~")) for text in means] == pytest.approx([8 / m for m in EVERY_M], rel=0.06)
    assert crossover == "M~8"
    assert [float(text) for text in lines[3].split()[1:]] == pytest.approx([1.5] * 12)
    assert len(lines) == 4


@pytest.mark.parametrize("columns", [40, 60, 80, 140])
def test_every_line_fits_and_the_ends_of_m_stay(tmp_path, capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = printed(capsys, tmp_path)
    assert all(cell_len(line) <= columns for line in lines)
    header = next(line for line in lines if " M=1 " in line)
    told = [int(text) for text in re.findall(r" M=(\d+)", header)]
    assert told[0] == 1
    assert told[-1] == 2048
    left = re.findall(r"^(\d+) more M", "\n".join(lines), re.MULTILINE)
    assert len(told) + sum(map(int, left)) == 12


def test_many_slices_show_the_first_challenger_of_each_and_count_the_rest(tmp_path, capsys):
    lines = printed(
        capsys,
        tmp_path,
        Ms=(1, 8, 64),
        providers=("fused", "other", "dequant_blas", "blas"),
        challengers=("fused", "other"),
        dtypes=("bf16", "fp16", "fp32"),
        caches=("cold", "warm"),
    )
    assert [" ".join(line.split()[:4]) for line in lines[2:8]] == [
        f"{dtype} · {cache} fused" for cache in ("cold", "warm") for dtype in ("bf16", "fp16", "fp32")
    ]
    assert lines[8] == "12 more lines in the grids of the report"
    assert len(lines) == 9


def test_a_mean_over_fewer_shapes_than_others_is_marked(tmp_path, capsys):
    lines = printed(
        capsys,
        tmp_path,
        Ms=(1, 8, 64),
        failures=lambda cell: ("oom", "") if (cell.provider, cell.layer, cell.M) == ("fused", "up", 64) else None,
    )
    assert lines[0].endswith("geometric mean over 2 shapes; * over 1")
    assert [text.endswith("*") for text in lines[2].split()[1:4]] == [False, False, True]
    assert len(lines) == 4


@pytest.mark.parametrize(
    "what", [{"providers": ("dequant_blas",), "challengers": ()}, {"failures": lambda cell: ("oom", "3 GiB asked")}]
)
def test_a_run_without_a_ratio_has_no_table(tmp_path, capsys, what):
    assert printed(capsys, tmp_path, Ms=(1, 2), **what) == []


def test_names_cannot_move_the_cursor_or_the_numbers(tmp_path, capsys):
    names = ("\x1b[2Jgone", "量化内核", "a-name-that-is-much-longer-than-a-column")
    lines = printed(capsys, tmp_path, Ms=(1, 8), providers=(*names, "dequant_blas"), challengers=names)
    assert "\x1b" not in "\n".join(lines)
    assert lines[2].startswith("[U+001B][2Jgone")
    starts = {cell_len(line[: line.index("8.0")]) for line in lines[2:5]}
    assert len(starts) == 1

"""Cells at further M, and the cells of a scan: like those of the plan in everything else."""

import dataclasses
import itertools

import pytest
from rooflens.harness.plan.extra_cells import PLACE, Surroundings, described, scanned
from rooflens.harness.plan.plan import plan, tasks
from rooflens.shapes import suite
from rooflens.shapes.errors import UsageError
from rooflens.shapes.scan import Scan
from rooflens.shapes.suite import Cache


@pytest.fixture
def cells():
    quick = suite.load("llm4bit-quick").override(
        axes={"M": (1, 16)}, caches=(Cache.COLD, Cache.WARM), providers=("simd_4bit_cpu", "dequant_blas", "blas")
    )
    return plan(dataclasses.replace(quick, shapes=quick.shapes[:2]))


def row(cell, m, *providers):
    return {name: cell.fields[name] for name in PLACE} | {"M": m, "providers": providers}


def test_a_further_M_is_measured_by_the_named_providers_only(cells):
    first = cells[0]
    found = Surroundings(cells).cells([row(first, 5, "simd_4bit_cpu", "dequant_blas", "nobody")])
    assert [cell.provider for cell in found] == ["simd_4bit_cpu", "dequant_blas"]
    for cell in found:
        assert (cell.problem.M, cell.shape, cell.scheme, cell.cache) == (5, first.shape, first.scheme, first.cache)
        assert cell.fields | {"M": 1} in [one.fields for one in cells]


def test_cells_of_one_problem_are_one_task_and_those_of_one_weight_are_neighbours(cells):
    cold, warm = (next(cell for cell in cells if cell.cache is cache) for cache in Cache)
    other = next(cell for cell in cells if cell.shape != cold.shape)
    rows = [row(cell, m, "blas") for cell, m in ((other, 3), (cold, 9), (warm, 5), (cold, 5), (warm, 9))]
    found = Surroundings(cells).cells(rows)
    assert [(task.cells[0].shape, task.problem.M, len(task.cells)) for task in tasks(found)] == [
        (cold.shape, 5, 2),
        (cold.shape, 9, 2),
        (other.shape, 3, 1),
    ]


def test_what_the_plan_has_or_has_nothing_like_adds_nothing(cells):
    assert Surroundings(cells).cells([row(cells[0], 16, "blas")]) == ()
    assert Surroundings(cells).cells([row(cells[0], 5, "blas") | {"dtype": "fp32"}]) == ()
    assert len(Surroundings(cells).cells([row(cells[0], 5, "blas")] * 2)) == 1
    too_large = row(cells[0], 1 << 50, "blas")  # for any device
    assert [cell.problem.M for cell in Surroundings(cells).cells([too_large, row(cells[0], 5, "blas")])] == [5]


def test_an_M_that_the_scheme_cannot_store_is_left_out():
    """Groups of rows are whole: in each of E experts, the unit of the scheme."""
    grouped = suite.load("ao-grouped-quick")
    first = plan(dataclasses.replace(grouped, shapes=grouped.shapes[:1]))[0]
    unit, around = first.scheme.unit * first.problem.E, Surroundings((first,))
    assert first.problem.M % unit == 0
    assert around.cells_of(row(first, first.problem.M + 1, first.provider)) == ()
    assert len(around.cells_of(row(first, first.problem.M + unit, first.provider))) == 1


def test_a_scan_has_every_cell_once_per_size(cells):
    found = scanned(cells, Scan.parse("K=~2x64"))
    assert len(found) == 5 * len(cells)
    for cell, base in found.items():
        assert abs(cell.problem.K - base.problem.K) in (0, 64, 128)
        assert (cell.problem.K, cell.problem.N) == (cell.shape.K, cell.shape.N)
        assert cell.shape.layer == f"{base.shape.layer} K={cell.problem.K}"
        assert dataclasses.replace(cell, shape=base.shape, problem=base.problem) == base
    weights = [(task.problem.N, task.problem.K) for task in tasks(tuple(found))]
    assert sum(a != b for a, b in itertools.pairwise(weights)) == 9  # ten weights, each made once


def test_run_json_says_what_is_scanned(cells):
    scan = Scan.parse("N=512~1x64,1024")
    said = described(scan, scanned(cells, scan))
    assert (said.axis, said.sizes, said.text) == ("N", [448, 512, 576, 1024], "N=512~1x64,1024")
    assert said.of == [
        {"model": shape.model, "layer": shape.layer, "N": shape.N, "K": shape.K}
        for shape in dict.fromkeys(cell.shape for cell in cells)
    ]


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("mxfp8-decode", "K=4096~1x8", r"--scan 'K=4096~1x8': shape .* K=4088: "),
        ("mxfp8-quant-quick", "N=512,1024", "has no N; scan K"),
    ],
)
def test_a_size_that_cannot_be_scanned_is_refused_in_one_line(name, text, words):
    chosen = suite.load(name)
    with pytest.raises(UsageError, match=words) as error:
        scanned(plan(dataclasses.replace(chosen, shapes=chosen.shapes[:1])), Scan.parse(text))
    assert "\n" not in str(error.value)

"""From suite to cells: counts, order, filters and identity."""

import dataclasses
import itertools

import pytest
from rooflens.harness.plan.plan import contests, left_out, plan, refused, spread, static_columns, tasks
from rooflens.shapes import suite
from rooflens.shapes.device import Device
from rooflens.shapes.errors import UsageError
from rooflens.shapes.problem import Pass

DEVICE = Device("cpu", 0, "test", "", "x86-64", 2, 32 << 20, 1 << 20, 1 << 34)


def test_the_full_suite_is_the_product_of_its_axes():
    full = suite.load("llm4bit")
    assert len(plan(full)) == 40 * 12 * 3 * 2 * len(full.providers)


def test_cells_of_one_problem_are_neighbours_and_weights_stay():
    cells = plan(suite.load("llm4bit-quick"))
    groups = tasks(cells)
    assert len(groups) == 6 * 4
    assert all(len({cell.provider for cell in task.cells}) == len(task.cells) for task in groups)
    weights = [(task.problem.N, task.problem.K) for task in groups]
    assert sum(a != b for a, b in itertools.pairwise(weights)) == 5


@pytest.mark.parametrize(
    ("expression", "count"),
    [("M <= 4", 2), ("M == 1 and provider != 'blas'", 1), ("model.str.startswith('llama3.2')", 4)],
)
def test_filters_are_conditions_over_the_fields(expression, count):
    quick = suite.load("llm4bit-quick").override(providers=("dequant_blas",))
    quick = dataclasses.replace(quick, shapes=quick.shapes[:1])
    assert len(plan(quick, expression)) == count


@pytest.mark.parametrize("expression", ["M <=", "colour == 1", "M <= 0", "import os", "M", "True", "M = 1"])
def test_filters_that_say_nothing(expression):
    with pytest.raises(UsageError, match="--filter") as error:
        plan(suite.load("llm4bit-quick"), expression)
    assert "\n" not in str(error.value)


def test_an_address_is_of_what_is_measured_in_any_suite():
    first, second = plan(suite.load("llm4bit-quick"))[:2]
    assert first.id == dataclasses.replace(first, suite="another").id
    shape, problem = dataclasses.replace(first.shape, layer="x"), dataclasses.replace(first.problem, M=99)
    changed = (dataclasses.replace(first, **one) for one in ({"provider": "x"}, {"shape": shape}, {"problem": problem}))
    assert len({one.id for one in (first, second, *changed)}) == 5


def test_passes_are_cells_of_their_own_and_sizes_have_their_columns():
    training = suite.load("fp8-train-quick").override(providers=("blas_bf16_fp8",))
    cells = plan(training)
    assert {cell.problem.pass_.value for cell in cells} == {"fwd", "step"}
    assert len({cell.id for cell in cells}) == len(cells)
    routed = plan(suite.load("mxfp8-moe-quick"))[0]
    row = static_columns(routed)
    problem = routed.problem
    assert (row["E"], row["top_k"], row["M_total"]) == (problem.E, problem.top_k, problem.M * problem.top_k)
    assert row["M_per_expert"] == problem.M * problem.top_k / problem.E
    assert static_columns(cells[0])["M_per_expert"] is None


def test_passes_that_a_scheme_lacks_are_left_out():
    both = dataclasses.replace(
        suite.load("fp8-train-quick"), schemes=("fp8-blockwise", "nf4-g64"), passes=(Pass.FWD, Pass.STEP)
    )
    assert left_out(both) == (("nf4-g64", Pass.STEP),)
    found = {(cell.scheme.name, cell.problem.pass_) for cell in plan(both)}
    assert found == {("fp8-blockwise", Pass.FWD), ("fp8-blockwise", Pass.STEP), ("nf4-g64", Pass.FWD)}
    assert left_out(suite.load("fp8-train-quick")) == ()


def test_a_shape_is_skipped_for_the_schemes_that_cannot_store_it_and_refused_where_none_can():
    full = suite.load("w4a16")  # K = 2880 of gpt-oss is 90 groups of 32 and no whole number of groups of 128
    reason = "shape gpt-oss q: scheme int4-g128: K=2880 is not a multiple of its group of 128"
    assert refused(full) == (reason, reason.replace("g128:", "g128-zp:"))
    found = {(cell.shape.label, cell.scheme.name) for cell in plan(full, "M == 1 and K == 2880")}
    assert found == {("gpt-oss q", "mxfp4"), ("gpt-oss q", "nvfp4")}
    assert len({cell.shape for cell in plan(full, "M == 1 and scheme == 'int4-g128'")}) == 39
    with pytest.raises(UsageError, match=reason):
        plan(dataclasses.replace(full, schemes=("int4-g128",)))


def test_contests_name_who_is_compared_on_each_problem():
    quick = suite.load("llm4bit-quick")
    found = contests(plan(quick, "M <= 4 and not (M == 1 and provider == 'blas')"))
    assert len(found) == 2 * 6
    for problem, _, names in found:
        assert set(names) == set(quick.providers) - ({"blas"} if problem.M == 1 else set())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda quick: {"passes": (Pass.STEP,)}, r"shape llama3.2-1b k/v: scheme nf4-g64 has no pass step"),
        (lambda quick: {"shapes": (dataclasses.replace(quick.shapes[0], B=4),)}, "B=4"),  # its operands have no batch
    ],
)
def test_what_no_scheme_can_do_is_refused_with_the_shape(change, words):
    quick = suite.load("llm4bit-quick")
    with pytest.raises(UsageError, match=words):
        plan(dataclasses.replace(quick, **change(quick)))


@pytest.mark.parametrize(
    ("name", "condition"),
    [("llm4bit-quick", ""), ("llm4bit", "M <= 64"), ("llm4bit", "layer == 'q'"), ("llm4bit", "M == 1")],
)
def test_what_comes_first_stands_for_all_shapes_and_sizes(name, condition):
    """The smallest weight, the largest, the middle one, each with another M; problems are whole, and none is lost."""
    cells = plan(suite.load(name), condition)
    ordered = spread(cells)
    assert sorted(map(str, ordered)) == sorted(map(str, cells))
    assert sorted(map(str, tasks(ordered))) == sorted(map(str, tasks(cells)))
    problems = [(task.cells[0].shape, task.problem.M) for task in tasks(ordered)]
    shapes, sizes = {shape for shape, _ in problems}, {m for _, m in problems}
    weights = [shape.N * shape.K for shape, _ in problems]
    assert weights[:2] == [min(weights), max(weights)][: len(shapes)]
    assert problems[0][1] == min(sizes)
    for turn in range(len(problems) // len(shapes)):
        assert {shape for shape, _ in problems[turn * len(shapes) : (turn + 1) * len(shapes)]} == shapes
    assert len({m for _, m in problems[: len(shapes)]}) == min(len(sizes), len(shapes))

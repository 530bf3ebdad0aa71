"""How a comparison divides a suite among devices: whole problems, neighbours together, the same every time."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rooflens.harness.compare.replay import COORDINATES, divided, is_of, problems, rows_of
from rooflens.harness.plan.plan import plan
from rooflens.shapes import suite

QUICK = suite.load("llm4bit-quick")


def cells_of(shapes=3, sizes=(1, 2, 4, 8), providers=("blas", "dequant_blas")):
    chosen = QUICK.override(axes={"M": sizes}, providers=providers)
    return plan(dataclasses.replace(chosen, shapes=chosen.shapes[:shapes]))


CELLS = cells_of()
ROWS = rows_of(CELLS)


def test_rows_are_of_no_provider_and_the_problems_are_counted_without_them():
    assert {row[COORDINATES.index("provider")] for row in ROWS} == {None}
    assert problems(ROWS) == len({(cell.shape, cell.problem, cell.scheme) for cell in CELLS})
    assert rows_of(cells_of(providers=("blas",))) == ROWS


@settings(deadline=None)
@given(shapes=st.integers(1, 4), sizes=st.integers(1, 6), count=st.integers(1, 40))
def test_every_row_is_in_one_part_and_no_problem_is_divided(shapes, sizes, count):
    rows = rows_of(cells_of(shapes, tuple(2**power for power in range(sizes))))
    parts = divided(rows, count)
    assert [row for part in parts for row in part.content] == list(rows)
    assert 1 <= len(parts) <= min(count, problems(rows))
    assert sum(problems(part.content) for part in parts) == problems(rows)
    assert [part.key for part in parts] == list(range(len(parts)))
    largest = max(problems(part.content) for part in parts)
    assert largest <= problems(rows) / min(count, problems(rows)) + 1


@pytest.mark.parametrize("count", [1, 5])
def test_a_stored_row_is_of_one_part_whatever_its_provider(count):
    for cell in CELLS:
        stored = {name: str(value) for name, value in cell.fields.items()}
        (part,) = [part for part in divided(ROWS, count) if is_of(stored, part.content)]
        assert set(rows_of([cell])) <= set(part.content)

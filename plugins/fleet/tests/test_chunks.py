"""How a comparison divides a suite among devices: whole problems, neighbours together, the same every time."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rooflens.harness.compare.replay import COORDINATES
from rooflens.harness.plan.plan import plan
from rooflens.plugins.fleet.engine.jobs import chunks_of, coordinates, problems, rows_of
from rooflens.shapes import suite

QUICK = suite.load("llm4bit-quick")


def cells_of(shapes=3, sizes=(1, 2, 4, 8), providers=("blas", "dequant_blas")):
    chosen = QUICK.override(axes={"M": sizes}, providers=providers)
    return plan(dataclasses.replace(chosen, shapes=chosen.shapes[:shapes]))


CELLS = cells_of()
ROWS = rows_of(CELLS)


def divided(rows, count, rounds=8, arms=2):
    return chunks_of(rows, count, QUICK.name, rounds, arms)


def named(row, *names):
    return tuple(row[COORDINATES.index(name)] for name in names)


def test_rows_are_of_no_provider_and_the_problems_are_counted_without_them():
    assert {named(row, "provider") for row in ROWS} == {(None,)}
    assert problems(ROWS) == len({(cell.shape, cell.problem, cell.scheme) for cell in CELLS})
    assert rows_of(cells_of(providers=("blas",))) == ROWS


@settings(max_examples=40, deadline=None)
@given(shapes=st.integers(1, 4), sizes=st.integers(1, 6), count=st.integers(1, 40))
def test_every_row_is_in_one_chunk_and_no_problem_is_divided(shapes, sizes, count):
    rows = rows_of(cells_of(shapes, tuple(2**power for power in range(sizes))))
    chunks = divided(rows, count)
    assert [row for chunk in chunks for row in chunk.rows] == list(rows)
    assert 1 <= len(chunks) <= min(count, problems(rows))
    assert all(chunk.rows for chunk in chunks)
    assert sum(problems(chunk.rows) for chunk in chunks) == problems(rows)
    assert len({chunk.key for chunk in chunks}) == len(chunks)
    largest = max(problems(chunk.rows) for chunk in chunks)
    assert largest <= problems(rows) / min(count, problems(rows)) + 1


def test_the_division_is_that_of_the_plan_whatever_the_rounds():
    keys = [chunk.key for chunk in divided(ROWS, 4)]
    assert [chunk.key for chunk in divided(ROWS, 4, rounds=12)] == keys
    assert [chunk.key for chunk in divided(list(ROWS), 4, arms=3)] == keys


@pytest.mark.parametrize("count", [1, 5])
def test_a_chunk_knows_the_stored_rows_that_are_its(count):
    chunks = divided(ROWS, count)
    for cell in CELLS:
        own = [named(row, *COORDINATES[:-2]) for row in rows_of([cell])]
        holders = [chunk for chunk in chunks if chunk.holds(coordinates(cell))]
        assert [own[0] in [named(row, *COORDINATES[:-2]) for row in chunk.rows] for chunk in holders] == [True]

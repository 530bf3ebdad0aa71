"""Files of a replay: tables that pin what a version ran, and the cells to run again."""

import json

from rooflens.harness.compare.replay import coordinates, keep_only, write_table
from rooflens.harness.plan.plan import MODEL_FIELDS, plan
from rooflens.harness.worker.prepared import offered
from rooflens.shapes import suite as suites
from rooflens.shapes import tuned
from rooflens.shapes.device import Device

DEVICE = Device("cpu", 0, "test", "test", "x86-64", 2, 1 << 25, 1 << 20, 1 << 34)


def cells():
    return plan(suites.load("llm4bit-quick"), "N == 512 and M <= 4")


def rows(configs):
    return [
        cell.fields | {"base_config": config, "base_time_s": 1e-4, "base_source": "aa"}
        for cell, config in zip(cells(), configs, strict=False)
    ]


def test_the_table_gives_each_cell_its_own_configuration(tmp_path):
    given = ['{"BM": 16}', '{"BM": 32, "stages": 2}']
    table = tuned.load(
        write_table(tmp_path / "x" / "base.csv", rows(given), "base", Device(arch="x86-64", compute_units=2))
    )
    found = [table.lookup(DEVICE, cell.problem, cell.scheme, cell.provider, cell.cache) for cell in cells()[:3]]
    assert found == [{"BM": 16}, {"BM": 32, "stages": 2}, None]


def test_only_the_named_cells_are_kept():
    named = json.loads(json.dumps(coordinates(rows(['{"a": 1}'] * 2))))
    assert keep_only(cells(), named) == cells()[:2]
    assert "suite" in MODEL_FIELDS, "a suite of another name may hold the same cells"


def test_a_launch_that_says_more_than_its_candidate_names_it_all_the_same():
    candidates = [{"BM": 16, "stages": 2}, {"BM": 32, "stages": 2}]
    assert offered({"BM": 32, "stages": 2, "threads": 4}, candidates) == candidates[1]
    assert offered({"BM": 32, "stages": 2}, candidates) == candidates[1]
    assert offered({"BM": 64, "stages": 2}, candidates) is None
    assert offered({"BM": 32, "stages": 2}, [{"BM": 32}, {"stages": 2}]) is None, "two candidates might be meant"
    assert offered({"threads": 4}, [{}]) is None


def test_a_row_without_a_provider_keeps_the_cells_of_all():
    some = cells()
    assert len({cell.provider for cell in some}) > 1
    place = {**some[0].fields, "provider": None}
    kept = keep_only(some, coordinates([place]))
    same = [cell for cell in some if (cell.problem, cell.cache) == (some[0].problem, some[0].cache)]
    assert kept == tuple(same)
    assert 1 < len(kept) < len(some)

"""Impossible times decide nothing here either."""

import dataclasses

import pytest
from rooflens.analysis.run.pipeline import analyze
from rooflens.plugins.camping.find import find

from tests.analysis.impossible import MS, PROVIDERS, SHAPES, planted_twice, same


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    return planted_twice(tmp_path_factory.mktemp("planted"))


def test_camping(two):
    found = [find(one.cells, one.rounds, one.run.cells) for one in map(analyze, two)]
    for field in dataclasses.fields(found[0]):
        same(getattr(found[0], field.name), getattr(found[1], field.name), field.name)


def test_camping_counts_what_it_leaves_out(two):
    found = analyze(two[0])
    coverage = find(found.cells, found.rounds, found.run.cells).coverage.set_index("provider")
    every = len(SHAPES) * len(MS)
    assert coverage["cells"].to_dict() == dict.fromkeys(PROVIDERS, every)
    assert coverage["impossible"].to_dict() == {"simt_4bit": 5, "gemv_4bit": len(MS), "dequant_blas": 2}
    assert (coverage["points"] == every - coverage["impossible"]).all()

"""What a dry run says of time: what makes a sweep longer lengthens the forecast, by as much as it must."""

import dataclasses

import pytest
from rooflens.harness.plan.cost import cost
from rooflens.harness.plan.plan import plan, tasks
from rooflens.harness.timing.cache_sizes import flush_bytes
from rooflens.shapes import suite
from rooflens.shapes.device import Device

SERVER = Device("cpu", 0, "test", "", "x86-64", 2, 480 << 20, 2 << 20, 1 << 36)
QUICK = suite.load("llm4bit-quick").override(providers=("blas", "dequant_blas"))


def forecast(quick=QUICK, device=SERVER, runs_here=lambda name: True, calibrations=2):
    return cost(tasks(plan(quick)), quick.protocol, device, runs_here, calibrations)


def test_flushes_are_counted():
    """Of a server's cache, where they are nearly all of the time: at least one per unit, at most one per sample."""
    found = forecast()
    units = 6 * 4 * 2 * 5
    each = flush_bytes(SERVER) / 1e10
    assert units * each <= found.flush_s <= 12 * units * each
    assert found.flush_s <= found.least_s <= found.most_s
    small = forecast(device=dataclasses.replace(SERVER, llc_bytes=1 << 20))
    assert small.flush_s < 0.02 * found.flush_s
    warm = forecast(QUICK.override(caches=(suite.Cache.WARM,)))
    assert warm.flush_s == 0


def test_rounds_and_cells_cost_in_proportion():
    once, twice = (forecast(QUICK.override(protocol={"rounds": rounds})) for rounds in (1, 2))
    assert twice.least_s == pytest.approx(2 * once.least_s)
    assert once.prepare_s < twice.prepare_s < 2 * once.prepare_s  # weights are drawn once
    assert twice.start_s == once.start_s


def test_who_does_not_run_here_costs_nothing():
    half = forecast(runs_here=lambda name: name == "blas")
    assert 0 < half.least_s < 0.6 * forecast().least_s
    none = forecast(runs_here=lambda name: False)
    assert (none.least_s, none.prepare_s) == (0, 0)


def test_ceilings_are_measured_as_often_as_asked_for():
    assert forecast(calibrations=0).ceilings_s == 0
    assert forecast(calibrations=2).ceilings_s == 2 * forecast(calibrations=1).ceilings_s

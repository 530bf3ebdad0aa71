"""`rooflens run --address` on two real nodes of Ray: what it stores is what one process would have stored."""

import json

import pytest

from tests.cli.tiny_runs import fresh, read, rooflens, run_args, write_suite

from .fleet_runs import fleet_args, rows_by_unit

pytestmark = [pytest.mark.ray, pytest.mark.slow]

ODD = ("right", "crash", "stopped", "wrong", "refuses", "raises", "prepare_fails")

OF_A_RUN = {
    *("order", "process", "launches_per_sample", "blocked", "samples", "discarded", "disturbed", "stop_reason"),
    *("elapsed_s", "prepare_s", "started_at"),
}
"""Columns of cells.csv in which two runs of one suite differ. The others follow from plan, code and device."""


@pytest.fixture(scope="module")
def both(two_nodes, tmp_path_factory):
    """Measure one suite by a fleet and by a single process; return both folders."""
    limits = ("--set", "timeout_s=2s", "--set", "threads=1", "-a", "M=1,2", "--filter", "layer == 'q'")
    alone = write_suite(tmp_path_factory.mktemp("alone"))
    rooflens(alone, *run_args(*ODD), *limits)
    fleet = write_suite(tmp_path_factory.mktemp("fleet"))
    fresh(fleet, *fleet_args(two_nodes.address, *ODD), *limits, env=two_nodes.environment)
    return alone, fleet


def test_a_fleet_stores_the_units_verdicts_and_identities_of_a_single_process(both):
    alone, fleet = map(rows_by_unit, both)
    assert len(alone) == 2 * 7 * 2 - 4 - 2 * 2  # a final failure ends its cell after one round
    assert fleet.keys() == alone.keys()
    for unit, row in alone.items():
        assert {name: text for name, text in fleet[unit].items() if name not in OF_A_RUN} == {
            name: text for name, text in row.items() if name not in OF_A_RUN
        }


def test_all_providers_of_a_problem_are_measured_on_one_device(both):
    _, fleet = both
    devices = json.loads((fleet / "out" / "run.json").read_text())["devices"]
    processes = {}
    for row in read(fleet):
        processes.setdefault((row["layer"], row["M"]), set()).add(row["process"])
    assert len(processes) == 2
    for numbers in processes.values():
        assert any(numbers <= {str(number) for number in device["processes"]} for device in devices)

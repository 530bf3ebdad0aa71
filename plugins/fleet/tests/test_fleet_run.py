"""`rooflens run --address` on two real nodes of Ray: what it stores is what one process would have stored."""

import json
import tempfile
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from rooflens.api.measuring import measure
from rooflens.api.planned import manifest, planned
from rooflens.api.run_folders import how_to_resume
from rooflens.harness.plan.extra_cells import PLACE
from rooflens.plugins.fleet.run import FleetTarget, _queue, devices
from rooflens.shapes.errors import RooflensError
from rooflens.shapes.request import Request
from rooflens.shapes.run_folder.manifest import StoredRefinement

from tests.cli.tiny_runs import check_whole, fresh, read, rooflens, run_args, unconverged, write_suite

from .fabricated import slot
from .fleet_runs import SMALL, ended, fleet_args, rows_by_unit, started, wait_for_problems
from .ray_nodes import listening, processes_of
from .scripted_cluster import Failed, ScriptedCluster

ONE_JOB = ("run", "tiny.toml", "--device", "cpu", "--jobs", "local:1", *SMALL, "-a", "M=1")


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


@pytest.mark.ray
def test_a_fleet_stores_the_units_verdicts_and_identities_of_a_single_process(both):
    alone, fleet = map(rows_by_unit, both)
    assert len(alone) == 2 * 7 * 2 - 4 - 2 * 2  # a final failure ends its cell after one round
    assert fleet.keys() == alone.keys()
    for unit, row in alone.items():
        assert {name: text for name, text in fleet[unit].items() if name not in OF_A_RUN} == {
            name: text for name, text in row.items() if name not in OF_A_RUN
        }


@pytest.mark.ray
def test_all_providers_of_a_problem_are_measured_on_one_device(both):
    _, fleet = both
    devices = json.loads((fleet / "out" / "run.json").read_text())["devices"]
    processes = {}
    for row in read(fleet):
        processes.setdefault((row["layer"], row["M"]), set()).add(row["process"])
    assert len(processes) == 2
    for numbers in processes.values():
        assert any(numbers <= {str(number) for number in device["processes"]} for device in devices)


@pytest.mark.slow
def test_devices_of_this_machine_alone_listen_nowhere_and_end_with_the_sweep(place):
    arguments = (*run_args("dequant_blas", file=None), *unconverged("60ms"), "-a", "M=1..8", "--jobs", "local:2")
    with started(place, arguments) as process:
        wait_for_problems(place, 1, process)
        assert not listening(processes_of(process.pid))
        code, errors = ended(process)
    assert code == 0, errors
    check_whole(place, cells=16)
    assert len(json.loads((place / "out" / "run.json").read_text())["devices"]) == 2
    assert not processes_of(process.pid)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Measure on one part of the CPU, from Python; return the folder, with the one that was for temporary files."""
    place = write_suite(tmp_path_factory.mktemp("alone"))
    (place / "temporary").mkdir()
    with pytest.MonkeyPatch.context() as changed:
        changed.chdir(place)
        changed.setattr(tempfile, "tempdir", str(place / "temporary"))
        how = {"llc_bytes": "1MiB", "threads": 1, "calibrate": False, "to": "out"}
        assert measure("tiny.toml", jobs="local:1", device="cpu", axes={"M": [1]}, **how).outcome.error is None
    return place


def test_a_part_of_a_cpu_says_how_to_resume_and_leaves_nothing_where_temporary_files_are(alone):
    check_whole(alone, cells=2)
    # on all of the CPU each part would have other threads, and be refused
    assert how_to_resume(alone / "out").endswith("out --resume --jobs local:1")
    (mine,) = (alone / "temporary").iterdir()
    assert not list(mine.iterdir())


def test_what_measures_otherwise_is_refused_and_changes_nothing(alone):
    manifest = alone / "out" / "run.json"
    before = manifest.read_bytes()
    done = rooflens(alone, *ONE_JOB, "--resume", "--set=threads=2", code=2)
    assert done.stderr.count("\n") == 1, done.stderr
    assert "threads was 1 and is 2" in done.stderr
    assert manifest.read_bytes() == before


@pytest.fixture
def request_of(tmp_path, monkeypatch):
    """Return `request_of(resume, **more)`: what a call in a folder of its own measures."""
    monkeypatch.chdir(tmp_path)
    request = Request(
        suite="llm4bit-quick", axes={"M": [1, 64]}, providers=("blas", "dequant_blas"), filter_expression="N == 512",
        caches="cold", dtype="bf16", device="cpu", to=Path("out"),
    )  # fmt: skip
    return lambda resume, **more: planned(replace(request, resume=resume, **more))


def test_what_refinement_added_is_measured_after_a_resume(request_of):
    plan = request_of(False)
    row = {name: plan.cells[0].fields[name] for name in PLACE}
    added = [row | {"M": 7, "providers": ["blas", "dequant_blas"]}]
    content = replace(manifest(Path("out"), plan.suite, plan.request), refine=StoredRefinement(added=added))
    Path("out").mkdir()
    Path("out/run.json").write_text(content.to_text())
    queue, *_ = _queue(request_of(True), FleetTarget(), "sm90", (), print)
    queue.store.close()
    assert {cell.problem.M for job in queue.store.jobs.values() for cell in job.task.cells} == {1, 7, 64}


def test_slots_that_were_refused_are_not_how_to_resume(request_of, monkeypatch):
    @contextmanager
    def opened(target, device, folder):
        yield ScriptedCluster([slot(0)], lambda step, place, assignment: (Failed, "threads was 2 and is 1")), "sm90"

    monkeypatch.setattr(FleetTarget, "opened", opened)
    for resume, slots in ((False, 1), (True, 2)):
        told = pytest.raises(RooflensError, match=r"threads was 2 and is 1; resume with: .* --resume --jobs local:1$")
        with told, devices(request_of(resume, jobs=f"local:{slots}")) as measure:
            measure(lambda event: None, lambda: False)
        assert json.loads(Path("out/run.json").read_text())["fleet"]["slots"] == 1

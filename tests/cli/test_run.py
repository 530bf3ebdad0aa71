"""`rooflens run` as a user meets it: real processes that crash, hang, run out of memory, lie, and are killed."""

import csv
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

FAULTY = Path(__file__).parents[1] / "harness" / "faulty_providers.py"

SUITE = """
name = "tiny"
shapes = "tiny.csv"
schemes = ["nf4-g64"]
dtypes = ["fp32"]
caches = ["warm"]
providers = ["dequant_blas"]
baseline = "dequant_blas"
challengers = ["dequant_blas"]
[axes]
M = [1, 2, 3]
[protocol]
rounds = 2
budget_s = 0.02
timeout_s = 20.0
"""


@pytest.fixture
def place(tmp_path):
    (tmp_path / "tiny.toml").write_text(SUITE)
    (tmp_path / "tiny.csv").write_text("model,layer,N,K\ntiny,q,48,128\ntiny,v,32,96\n")
    return tmp_path


def rooflens(place, *arguments, **options):
    command = [sys.executable, "-m", "rooflens.cli", *map(str, arguments)]
    return subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=300, **options)


def run_args(*providers, **options):
    flags = [part for name in providers for part in ("-p", name)]
    fixed = ["--device", "cpu", "--llc", "1MiB", "--no-report", "--no-calibrate", "--providers", FAULTY, "-o", "out"]
    return ["run", "tiny.toml", *fixed, *flags]


SLOW = ("--target-ci", "0.00001%", "--budget")
"""No round converges, so that each takes its whole budget."""


def read(place, name="cells.csv"):
    with (place / "out" / name).open(newline="") as file:
        return list(csv.DictReader(file))


def verdicts(place):
    found = {}
    for row in read(place):
        found.setdefault((row["provider"], int(row["M"])), set()).add(row["verdict"])
    return found


def check_whole(place, cells, rounds=2):
    """Every cell has each round once, every passed unit its samples, and no sample is an orphan."""
    rows = read(place)
    units = [(row["cell_id"], row["round"]) for row in rows]
    assert len(units) == len(set(units))
    passed = [unit for unit, row in zip(units, rows, strict=True) if row["verdict"] == "passed"]
    assert len(passed) == cells * rounds
    samples = [(sample["cell_id"], sample["round"]) for sample in read(place, "samples.csv")]
    assert set(samples) == set(passed)
    assert sum(int(row["samples"]) for row in rows if row["samples"]) == len(samples)


def test_a_run_stores_everything_that_was_measured(place):
    arguments = [part for part in run_args("right", "dequant_blas") if part != "--no-calibrate"]
    done = rooflens(place, *arguments)
    assert done.returncode == 0, done.stderr
    check_whole(place, cells=2 * 3 * 2)
    assert all(float(row["snr_db"]) > 100 for row in read(place))
    assert all(float(sample["time_s"]) > 0 for sample in read(place, "samples.csv"))
    manifest = json.loads((place / "out" / "run.json").read_text())
    assert manifest["planned_units"] == 24
    assert manifest["device"]["kind"] == "cpu"
    ceilings = {(row["ceiling"], row["level"], row["pattern"]) for row in read(place, "ceilings.csv")}
    assert {
        ("bandwidth", "dram", "read"),
        ("bandwidth", "llc", "copy"),
        ("launch", "", ""),
        ("peak", "", "gemm"),
    } <= ceilings
    assert "a library that prints" not in done.stdout
    assert "a library that prints" in (place / "out" / "worker.log").read_text()


def test_providers_of_a_problem_take_turns(place):
    rooflens(place, *run_args("right", "dequant_blas"))
    by_problem = {}
    for row in read(place):
        by_problem.setdefault((row["layer"], row["M"]), []).append((row["round"], row["provider"]))
    for units in by_problem.values():
        assert [number for number, _ in units] == ["0", "0", "1", "1"]
        assert {provider for _, provider in units[:2]} == {"right", "dequant_blas"}


@pytest.mark.parametrize(
    ("provider", "verdict", "reason"),
    [
        ("crash", "crashed", "measure: worker killed by SIGSEGV"),
        ("wrong", "incorrect", "SNR"),
        ("late_wrong", "incorrect", "SNR"),
        ("raises", "runtime_error", "measuring: RuntimeError: shared memory exhausted"),
        ("oom", "oom", "allocate"),
    ],
)
def test_a_fault_costs_its_cell_and_no_other(place, provider, verdict, reason):
    done = rooflens(place, *run_args("right", provider))
    assert done.returncode == 0, done.stderr
    found = verdicts(place)
    assert found.pop((provider, 2)) == {verdict}
    assert len(found) == 5
    assert all(words == {"passed"} for words in found.values())
    (row, *_) = [row for row in read(place) if row["verdict"] != "passed"]
    assert reason in row["reason"]
    assert row["samples"] == ""
    check_whole(place, cells=2 * 5)
    assert reason.split(":")[0] in done.stderr


@pytest.mark.parametrize(
    ("provider", "verdict", "reason"),
    [
        ("unwritten", "incorrect", "never written"),
        ("prepare_fails", "runtime_error", "prepare: ValueError: no such tile"),
        ("refuses", "unsupported", "only on Tuesdays"),
        ("stale", "incorrect", "SNR"),
        ("scribbles", "incorrect", "SNR"),
        ("repacks", "runtime_error", "changed the shared weights"),
    ],
)
def test_a_provider_that_never_works(place, provider, verdict, reason):
    assert rooflens(place, *run_args("right", provider)).returncode == 0
    found = verdicts(place)
    assert all(found[provider, m] == {verdict} for m in (1, 2, 3))
    assert all(found["right", m] == {"passed"} for m in (1, 2, 3))
    assert all(reason in row["reason"] for row in read(place) if row["verdict"] == verdict)


def test_a_hang_ends_at_the_time_limit(place):
    begin = time.monotonic()
    done = rooflens(place, *run_args("right", "hang"), "--timeout", "3s", "--filter", "layer == 'q'")
    assert done.returncode == 0, done.stderr
    assert verdicts(place)["hang", 2] == {"timeout"}
    check_whole(place, cells=5)
    rows = {row["verdict"]: row for row in read(place)}
    assert "no end within 3 s" in rows["timeout"]["reason"]
    assert time.monotonic() - begin < 120


def test_strict_makes_a_wrong_output_an_exit_code(place):
    done = rooflens(place, *run_args("right", "wrong"), "--strict")
    assert done.returncode == 5, done.stderr
    assert done.stderr.splitlines()[-1].startswith("rooflens: error: ")


def wait_for_rows(place, count, process):
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        path = place / "out" / "cells.csv"
        if path.exists() and path.read_text().count("\n") > count:
            return
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    raise AssertionError("the run did not get going")


def start(place, *extra, **options):
    command = [sys.executable, "-m", "rooflens.cli", *map(str, run_args("right", "dequant_blas")), *extra]
    return subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def children(pid):
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return [int(child) for child in listed.split()]


def test_killed_parent_loses_at_most_the_unit_in_flight_and_leaves_no_orphan(place):
    rng = random.Random(5)
    finished = {}
    for kills in range(3):
        process = start(place, *SLOW, "100ms", *(["--resume"] if kills else []))
        wait_for_rows(place, len(finished) + rng.randrange(1, 5), process)
        offspring = children(process.pid)
        process.kill()
        process.communicate()
        time.sleep(0.5)
        assert not [
            pid
            for pid in offspring
            if Path(f"/proc/{pid}/cmdline").exists() and b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
        ]
        rows = {(row["cell_id"], row["round"]): row for row in read(place) if row["started_at"]}
        assert all(rows[unit] == row for unit, row in finished.items())
        finished = rows
    done = rooflens(place, *run_args("right", "dequant_blas"), *SLOW, "100ms", "--resume")
    assert done.returncode == 0, done.stderr
    rows = {(row["cell_id"], row["round"]): row for row in read(place)}
    assert all(rows[unit] == row for unit, row in finished.items())
    check_whole(place, cells=12)


def test_killed_worker_costs_the_unit_in_flight(place):
    process = start(place, *SLOW, "300ms")
    wait_for_rows(place, 2, process)
    for pid in children(process.pid):
        if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes():
            os.kill(pid, signal.SIGKILL)
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 0, errors
    assert "SIGKILL" in errors
    rows = read(place)
    assert sum(row["verdict"] == "crashed" for row in rows) <= 1
    assert {row["verdict"] for row in rows} <= {"passed", "crashed"}
    assert len({(row["provider"], row["layer"], row["M"]) for row in rows}) == 12


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interruption_keeps_what_is_finished_and_says_how_to_go_on(place, number):
    process = start(place, *SLOW, "300ms")
    wait_for_rows(place, 2, process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "--resume" in errors.splitlines()[-1]
    assert "Traceback" not in errors
    kept = read(place)
    assert len(kept) >= 2
    resumed = rooflens(place, "run", "-o", "out", "--resume", "--no-report")
    assert resumed.returncode == 0, resumed.stderr
    assert read(place)[: len(kept)] == kept
    check_whole(place, cells=12)


def test_a_sigterm_to_the_whole_group_blames_no_kernel(place):
    """A batch system's way of ending a job: the worker gets the signal as well."""
    process = start(place, *SLOW, "300ms", start_new_session=True)
    wait_for_rows(place, 2, process)
    os.killpg(process.pid, signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert {row["verdict"] for row in read(place)} == {"passed"}


def test_fast_cells_leave_no_pause_and_are_interrupted_all_the_same(place):
    process = start(place, *SLOW, "30ms", "-a", "M=1..400")
    wait_for_rows(place, 2, process)
    before = len(read(place))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130, errors
    assert len(read(place)) - before <= 10


def test_max_time_ends_cleanly_and_strict_says_incomplete(place):
    done = rooflens(place, *run_args("right", "dequant_blas"), *SLOW, "3s", "--max-time", "25s", "--strict")
    assert done.returncode == 4, done.stderr
    assert "--resume" in done.stderr
    assert 0 < len(read(place)) < 24


def test_resume_refuses_changed_code(place):
    kernel = place / "mine.py"
    kernel.write_text(FAULTY.read_text())
    arguments = [
        "run",
        "tiny.toml",
        "--device",
        "cpu",
        "--no-report",
        "--no-calibrate",
        "--providers",
        kernel,
        "-o",
        "out",
        "-p",
        "right",
    ]
    assert rooflens(place, *arguments, "--filter", "M == 1").returncode == 0
    kernel.write_text(FAULTY.read_text() + "\n# faster now\n")
    done = rooflens(place, *arguments, "--resume")
    assert done.returncode == 2
    assert "source of provider right" in done.stderr


def test_resume_of_a_finished_run_measures_nothing(place):
    arguments = [*run_args("right"), "--filter", "M == 1"]
    assert rooflens(place, *arguments).returncode == 0
    before = (place / "out" / "samples.csv").read_bytes()
    assert rooflens(place, *arguments, "--resume").returncode == 0
    assert (place / "out" / "samples.csv").read_bytes() == before


def test_more_rounds_on_resume_are_added(place):
    arguments = [*run_args("right"), "--filter", "M == 1"]
    assert rooflens(place, *arguments).returncode == 0
    assert rooflens(place, *arguments, "--resume", "--rounds", "3").returncode == 0
    check_whole(place, cells=2, rounds=3)
    assert rooflens(place, "run", "-o", "out", "--resume", "--no-report").returncode == 0
    assert json.loads((place / "out" / "run.json").read_text())["rounds"] == 3


def test_resume_from_another_directory(place):
    """The suite, its shape set and the user's kernels are found again, in a folder with a blank in its name."""
    (place / "mine.py").write_text(FAULTY.read_text())
    flags = ["--device", "cpu", "--llc", "1MiB", "--no-report", "--no-calibrate", "--providers", "mine.py"]
    assert rooflens(place, "run", "tiny.toml", *flags, "-p", "right", "-o", "out").returncode == 0
    cells = place / "out" / "cells.csv"
    cells.write_text("".join(cells.read_text().splitlines(keepends=True)[:-2]))  # two units are missing
    (place / "else where").mkdir()
    moved = (place / "out").rename(place / "else where" / "out")
    done = rooflens(place / "else where", "run", "-o", moved, "--resume", "--no-report")
    assert done.returncode == 0, done.stderr
    check_whole(place / "else where", cells=6)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tiny.toml", "--seed", "5"], "seed was 0 and is 5 now"),
        (["other.toml"], "suite was tiny and is other now"),
        (["--rounds", "5"], "--rounds changes what is measured"),
    ],
)
def test_resume_refuses_to_mix_or_to_ignore(place, arguments, words):
    (place / "other.toml").write_text(SUITE.replace('"tiny"', '"other"'))
    (place / "out").mkdir()
    (place / "out" / "run.json").write_text(json.dumps({"suite": "tiny", "seed": 0, "request": {}}))
    done = rooflens(place, "run", *arguments, "-o", "out", "--resume")
    assert done.returncode == 2
    assert words in done.stderr.splitlines()[-1]


def test_a_start_that_failed_is_no_run(place):
    assert rooflens(place, "run", "tiny.toml", "--device", "cuda:0", "-o", "out").returncode == 1
    ended = rooflens(place, *run_args("right"), "--filter", "M == 1", "--max-time", "1ms")
    assert ended.returncode == 0, ended.stderr
    assert "give the same command again" in ended.stderr
    again = rooflens(place, *run_args("right"), "--filter", "M == 1")
    assert again.returncode == 0, again.stderr
    check_whole(place, cells=2)


def test_lists_name_each_value_once_and_axes_add_up(place):
    done = rooflens(place, "run", "tiny.toml", "--cache", "warm,warm", "-a", "M=1,2", "-a", "M=2,4", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("6 cells x 2 rounds = 12 units")


def test_a_suite_may_name_the_providers_of_the_file_that_is_given(place):
    (place / "mine.toml").write_text(SUITE.replace('["dequant_blas"]', '["right", "dequant_blas"]', 1))
    done = rooflens(place, "run", "mine.toml", "--providers", FAULTY, "--dry-run")
    assert done.returncode == 0, done.stderr
    cells = int(done.stdout.splitlines()[-1].split()[0])
    others = rooflens(place, "run", "tiny.toml", "--providers", FAULTY, "--dry-run")
    assert cells == int(others.stdout.splitlines()[-1].split()[0]), "a provider named twice was planned twice"


def test_the_candidates_of_the_file_that_is_given_are_the_challengers(place):
    done = rooflens(place, *run_args("right", "wrong", "dequant_blas"), "--filter", "M == 1")
    assert done.returncode == 0, done.stderr
    manifest = json.loads((place / "out" / "run.json").read_text())
    assert manifest["challengers"] == ["wrong", "dequant_blas"]  # `right` has another role


def test_dry_run_measures_nothing(place):
    done = rooflens(place, "run", "llm4bit", "--filter", "M <= 2", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "cells" in done.stdout
    assert not (place / "runs").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["run", "llm5bit"], 2, "did you mean llm4bit"),
        (["run", "tiny.toml", "-p", "nobody"], 2, "unknown provider 'nobody'"),
        (["run", "tiny.toml", "--dtype", "bf17"], 2, "unknown dtype 'bf17'"),
        (["run", "tiny.toml", "-a", "Q=1"], 2, "axis of suite tiny"),
        (["run", "tiny.toml", "-a", "M=0"], 2, "M=0"),
        (["run", "tiny.toml", "-a", "M=-3"], 2, "positive"),
        (["run", "tiny.toml", "-a", "M=1..x"], 2, "neither a size nor a range"),
        (["run", "tiny.toml", "-a", "M=1..99999999"], 2, "more than 10000 sizes"),
        (["run", "tiny.toml", "-a", "M=" + "9" * 5000], 2, "neither a size nor a range"),
        (["run", "tiny.toml", "-a", "M=999999999999999999"], 2, "too large"),
        (["run", "tiny.toml", "--filter", "M"], 2, "not a condition"),
        (["run", "tiny.toml", "--timeout", "10ms"], 2, "timeout_s=0.01 must be more than budget_s"),
        (["run", "tiny.toml", "--seed", "-1"], 2, "--seed"),
        (["run", "tiny.toml", "--target-ci", "1"], 2, "a percentage such as 1%"),
        (["run", "-o", "nowhere", "--resume"], 2, "no run to resume: nowhere/run.json does not exist"),
        (["run", "tiny.toml", "--device", "cpu", "--timer", "event"], 2, "--timer host"),
        (["run", "tiny.toml", "--device", "cpu", "--llc", "900000GiB"], 1, "worker.log"),
        (["run", "typo.toml"], 2, "unknown provider 'dequant_blass': did you mean dequant_blas"),
        (["run", "tiny.toml", "--cache", "tepid"], 2, "unknown cache state"),
        (["run", "tiny.toml", "--filter", "M >"], 2, "--filter"),
        (["run", "tiny.toml", "--device", "cuda:0"], 1, "--device cpu"),
        (["run", "tiny.toml", "--device", "tpu"], 2, "--device 'tpu'"),
        (["run", "tiny.toml", "--timeout", "soon"], 2, "--timeout 'soon'"),
        (["run", "tiny.toml", "--providers", "absent.py"], 2, "no such file"),
        (["run", "absent.toml"], 2, "cannot read suite absent.toml"),
        (["run"], 2, "name a suite"),
        (["run", "--resume"], 2, "-o RUN"),
        (["run", "tiny.toml", "-o", "nowhere", "--resume"], 2, "no run to resume"),
        (["run", "tiny.toml", "-o", "tiny.csv/out"], 1, "cannot write to"),
    ],
)
def test_bad_input_is_one_line_and_an_exit_code(place, arguments, code, words):
    (place / "typo.toml").write_text(SUITE.replace('baseline = "dequant_blas"', 'baseline = "dequant_blass"'))
    done = rooflens(place, *arguments)
    assert done.returncode == code, done.stderr
    lines = done.stderr.strip().splitlines()
    assert words in lines[-1]
    assert sum("error:" in line for line in lines) == 1
    assert "Traceback" not in done.stderr
    assert done.stdout == ""

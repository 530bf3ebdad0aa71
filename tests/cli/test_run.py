"""`rooflens run` as a user meets it: what it stores, how it is resumed, and how it answers bad input."""

import json
import re
import shutil
import time

import pytest
from rooflens.shapes.run_folder.manifest import VERSION

from ..harness.repositories import git, repository
from .tiny_runs import FAULTY, ON_CPU, SUITE, check_whole, fresh, planned, read, rooflens, run_args, write_suite

RIGHT = run_args("right", "dequant_blas")


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Return a folder with a finished run in out/, for tests that only read it, and the finished command."""
    place = write_suite(tmp_path_factory.mktemp("measured"))
    done = fresh(place, *(part for part in RIGHT if part != "--no-calibrate"))
    return place, done


@pytest.fixture
def copied(measured, place):
    """Return a folder with a copy of that run, for tests that go on with it."""
    shutil.copytree(measured[0] / "out", place / "out")
    return place


def test_a_run_stores_everything_that_was_measured(measured):
    place, done = measured
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
        ("launch", "", "empty warm"),
        ("peak", "", "gemm"),
    } <= ceilings
    assert "a library that prints" not in done.stdout
    assert "a library that prints" in (place / "out" / "worker.log").read_text()


def test_providers_of_a_problem_take_turns(measured):
    place, _ = measured
    by_problem = {}
    for row in read(place):
        by_problem.setdefault((row["layer"], row["M"]), []).append((row["round"], row["provider"]))
    for units in by_problem.values():
        assert [number for number, _ in units] == ["0", "0", "1", "1"]
        assert {provider for _, provider in units[:2]} == {"right", "dequant_blas"}
    firsts = [units[first][1] for units in by_problem.values() for first in (0, 2)]
    assert set(firsts) == {"right", "dequant_blas"}  # the order is drawn anew each time: neither is always first


def test_the_named_sides_are_measured_stored_and_kept(copied):
    sides = ("--baseline", "right", "--challenger", "blas")
    rooflens(copied, *RIGHT, "--resume", *sides)
    rooflens(copied, "run", "-o", "out", "--resume", "--no-report")
    manifest = json.loads((copied / "out" / "run.json").read_text())
    assert (manifest["baseline"], manifest["challengers"]) == ("right", ["blas"])
    assert {row["provider"] for row in read(copied)} == {"right", "dequant_blas", "blas"}
    shown = rooflens(copied, "report", "out", "--preset", "decode-grid", "-o", "text=-", "--ascii").stdout
    assert "Speedup of blas (reference) over right" in " ".join(shown.split())  # a reference, as it was asked for
    same = rooflens(copied, *RIGHT, "--resume", "--baseline", "right", "--challenger", "right", code=2)
    assert "--challenger right: it is the baseline of tiny" in same.stderr


def test_more_rounds_on_resume_are_added(copied):
    rooflens(copied, *RIGHT, "--resume", "--rounds", "3")
    check_whole(copied, cells=12, rounds=3)
    rooflens(copied, "run", "-o", "out", "--resume", "--no-report")
    assert json.loads((copied / "out" / "run.json").read_text())["rounds"] == 3


@pytest.mark.slow
def test_resume_from_another_directory_remembers_the_request(place):
    """The suite, its shape set and the user's kernels are found again, in a folder with a blank in its name."""
    (place / "mine.py").write_text(FAULTY.read_text())
    flags = [*ON_CPU, "--no-report", "--no-calibrate", "--providers", "mine.py"]
    rooflens(place, "run", "tiny.toml", *flags, "-p", "right", "-o", "out")
    cells = place / "out" / "cells.csv"
    cells.write_text("".join(cells.read_text().splitlines(keepends=True)[:-2]))  # two units are missing
    (place / "else where").mkdir()
    moved = (place / "out").rename(place / "else where" / "out")
    looked = rooflens(place, "run", "-o", moved, "--resume", "--dry-run")
    assert "10 of 12 units are stored in " in looked.stdout
    assert planned(looked).startswith("6 cells x 2 rounds = 12 units")
    done = rooflens(place / "else where", "run", "-o", moved, "--resume", "--no-report")
    check_whole(place / "else where", cells=6)
    assert "cells: 6 / 6 timed\n" in done.stdout
    assert read(place, "ceilings.csv", out=moved) == []  # as it was begun: --no-calibrate
    (moved / "cells.csv").write_text("".join((moved / "cells.csv").read_text().splitlines(keepends=True)[:-1]))
    rooflens(place / "else where", "run", "-o", moved, "--resume", "--no-report", "--calibrate")
    assert read(place, "ceilings.csv", out=moved)


def test_a_start_that_failed_is_no_run(place):
    rooflens(place, "run", "tiny.toml", "--device", "cuda:99", "-o", "out", code=1)
    one_cell = (*run_args("right"), "--filter", "M == 1 and layer == 'q'", "--rounds", "1")
    assert "give the same command again" in rooflens(place, *one_cell, "--max-time", "1ms").stderr
    rooflens(place, *one_cell)
    check_whole(place, cells=1, rounds=1)


def test_lists_and_files_name_each_value_once_and_axes_add_up(place):
    done = rooflens(place, "run", "tiny.toml", "--cache", "warm,warm", "-a", "M=1,2", "-a", "M=2,4", "--dry-run")
    assert planned(done).startswith("6 cells x 2 rounds = 12 units")
    (place / "mine.toml").write_text(SUITE.replace('["dequant_blas"]', '["right", "dequant_blas"]', 1))
    suites = (rooflens(place, "run", f"{name}.toml", "--providers", FAULTY, "--dry-run") for name in ("mine", "tiny"))
    assert len({planned(done) for done in suites}) == 1, "a provider named twice was planned twice"


def test_a_dry_run_tells_how_long_it_takes_and_how_much_fits(place):
    whole = rooflens(place, "run", "tiny.toml", *ON_CPU, "--dry-run").stdout.splitlines()[-1]
    assert re.match(r"about \d+ s: start 6 s, ceilings \d+ s", whole)
    unknown = rooflens(place, "run", "tiny.toml", "--device", "tpu", "--dry-run").stdout.splitlines()[-1]
    assert unknown.startswith("no estimate of the time: --device 'tpu'")
    minute = rooflens(place, "run", "tiny.toml", *ON_CPU, "--within", "60s", "--dry-run").stdout.splitlines()[-1]
    assert minute.startswith("within 1 min 0 s, about ")
    assert "30 rounds fit: where rounds scatter by 1 %, a ratio is known to +-0.5%" in minute
    second = rooflens(place, "run", "llm4bit", *ON_CPU, "--within", "20s", "--dry-run").stdout.splitlines()[-1]
    assert second.startswith("20 s are enough for round 1 of about 0% of the cells, ")


def test_a_run_within_a_time_has_two_rounds_of_every_cell_and_more(place):
    began = time.monotonic()
    few = ("--within", "40s", "--rounds", "4", "--filter", "layer == 'q'")
    done = rooflens(place, *run_args("right", "dequant_blas"), *few)
    assert time.monotonic() - began < 80  # far below the limit of a test: it ends when four rounds are done
    manifest = json.loads((place / "out" / "run.json").read_text())
    assert 2 <= manifest["rounds"] <= 4
    check_whole(place, cells=3 * 2, rounds=manifest["rounds"])
    *_, files, spent = [line for line in done.stdout.splitlines() if line]
    assert files.startswith("raw timings")
    assert spent.startswith("time ")


RUN = ("run", "tiny.toml")
REFINED = ("run", "tiny.toml", *ON_CPU, "-o", "out", "-p", "blas", "-p", "dequant_blas", "--refine")
SCANNED = (*RUN, "-o", "out", "--scan", "N=48~1x16")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "llm5bit"], "did you mean llm4bit"),
        ([*RUN, "-p", "nobody"], "unknown provider 'nobody'"),
        ([*RUN, "-p", "mk.py"], "'mk.py': for a file of your own: --providers mk.py"),
        ([*RUN, "-a", "M=-3"], "positive"),
        ([*RUN, "-a", "M=1..99999999"], "more than 10000 sizes"),
        ([*RUN, "-a", "M=" + "9" * 5000], "neither a size nor a range"),
        ([*RUN, "-a", "M=999999999999999999"], "too large"),
        ([*RUN, "--device", "cpu", "--set", "llc_bytes=900000GiB"], "give the right size with --set llc_bytes"),
        ([*RUN, "--tuned", "absent", "--dry-run"], "absent: no such tuned table; make one with roofl"),
        ([*RUN, "--device", "cpu", "--set", "timer=graph", "--dry-run"], "it times GPUs, not --device cpu"),
        (["run", "typo.toml"], "unknown provider 'dequant_blass': did you mean dequant_blas"),
        (["run", "pinned.toml"], "make one with rooflens tune SUITE -o RUN"),
        ([*RUN, "--filter", "M >"], "--filter"),
        ([*RUN, "--device", "tpu"], "--device 'tpu'"),
        (["run"], "name a suite"),
        (["run", "--resume"], "-o RUN"),
        ([*RUN, "-o", "arun", "--resume", "--set", "seed=5"], "seed was 0 and is 5 now"),
        (["run", "other.toml", "-o", "arun", "--resume"], "suite was tiny and is other now"),
        (["run", "-o", "arun", "--resume", "--rounds", "5"], "--rounds changes what is measured"),
        ([*RUN, "--retry", "timeout"], "--retry measures again what failed in an earlier call"),
        (["run", "-o", "out", "--resume", "--retry", "incorrect"], "'incorrect' is not one of"),
        (["tune"], "name a suite"),
        (["tune", "--resume"], "-o RUN"),
        (["tune", "-o", "arun", "--resume"], "it is not a folder of rooflens tune"),
        (["tune", "tiny.toml", "-o", "arun", "--resume"], "it is not a folder of rooflens tune"),
        (["tune", "-o", "damaged", "--resume"], "tune.axes = 3 must be a list"),
        (["tune", "-o", "arun", "--resume", "--searches", "3"], "--searches changes what is searched"),
        (["tune", "tiny.toml", "--searches", "0"], "--searches"),
        (["tune", "tiny.toml", "--cache", "cold,warm", "--export", "x.csv"], "choose one with --cache"),
        ([*RUN, "--set", "refine_most=3"], "--set refine_most goes with --refine crossover"),
        ([*REFINED, "crossover=blas"], "write crossover, or crossover=CHALLENGER:INCUMBENT"),
        ([*REFINED, "crossover=blas:dequant_blass"], "did you mean dequant_blas"),
        ([*REFINED, "crossover=simd_4bit_cpu:blas"], "unknown provider of this run in --refine 'simd_4bit_cpu'"),
        ([*REFINED, "crossover=blas:blas"], "no challenger of blas is measured"),
        ([*REFINED, "crossover"], "no challenger of dequant_blas is measured"),  # but the baseline itself
        ([*REFINED, "crossover=blas:dequant_blas", "--scan", "K=128,256"], "measure one of the two at a time"),
        ([*SCANNED, "--tuned", "absent", "--dry-run"], "omit --tuned and tuning"),
        ([*SCANNED, "--set", "tuning=cold", "--dry-run"], "omit --tuned and tuning"),
    ],
)
def test_bad_input_is_one_line_and_an_exit_code(place, monkeypatch, refused, arguments, words):
    monkeypatch.chdir(place)
    (place / "typo.toml").write_text(SUITE.replace('baseline = "dequant_blas"', 'baseline = "dequant_blass"'))
    (place / "other.toml").write_text(SUITE.replace('"tiny"', '"other"'))
    (place / "pinned.toml").write_text(SUITE + 'tuning = "pinned"\n')
    for name, more in (("arun", {"request": {}}), ("damaged", {"tune": {"axes": 3}})):
        (place / name).mkdir()
        (place / name / "run.json").write_text(json.dumps({"version": VERSION, "suite": "tiny", "seed": 0} | more))
    assert words in refused(*arguments)
    assert not (place / "out").exists()
    assert not (place / "tuned").exists()


@pytest.mark.parametrize(
    ("options", "words"), [(["--device", "cuda:99"], "--device cuda:99: "), (["-o", "tiny.csv/out"], "cannot write to")]
)
def test_what_this_machine_cannot_do_is_exit_code_1(place, monkeypatch, refused, options, words):
    monkeypatch.chdir(place)
    assert words in refused(*RUN, *options, code=1)


def test_passes_that_a_scheme_lacks_are_left_out_with_a_line(place):
    text = SUITE.replace('"nf4-g64"', '"nf4-g64", "fp8-blockwise"').replace('"fp32"', '"bf16"')
    (place / "mixed.toml").write_text(text.replace("baseline =", 'passes = ["fwd", "dgrad"]\nbaseline ='))
    done = rooflens(place, "run", "mixed.toml", "--dry-run")
    assert done.stderr == "note: skipped, because the scheme has no such pass: dgrad of nf4-g64\n"
    assert planned(done).startswith("18 cells x 2 rounds")  # 2 shapes x 3 M x (1 + 2 passes)


def test_what_cannot_be_compared_here_is_said_before_anything_is_measured(place):
    quantizers = ["run", "mxfp8-quant-quick", *ON_CPU, "-a", "M=1", "--no-report", "--no-calibrate", "--rounds", "1"]
    done = rooflens(place, *quantizers, "--filter", "scheme == 'mxfp8-quant-rceil'", "-o", "out")
    told = [line for line in done.stderr.splitlines() if line.startswith("nothing to compare on ")]
    assert len(told) == 1
    assert "only torch_quant_mx can run, not triton_quant_mx" in told[0]
    lines = done.stderr.splitlines()
    assert lines.index(told[0]) < next(i for i, line in enumerate(lines) if "unsupported" in line)


def repository_of(folder):
    return json.loads((folder / "run.json").read_text()).get("repository")


def test_a_run_knows_the_commit_of_its_kernels_and_the_report_says_it(place):
    """From a working directory that is no repository; the run is then resumed at another commit of the same kernel."""
    bench = repository(place / "repo", {"bench/k.py": FAULTY.read_text()})
    commit = git(bench, "rev-parse", "HEAD")
    only = ("tiny.toml", "--providers", "repo/bench/k.py", "-p", "right", "-a", "M=1", *ON_CPU)
    rooflens(place, "run", *only, "-o", "out", "--rounds", "1", "--no-calibrate")
    stored = repository_of(place / "out")
    assert (stored["commit"], stored["branch"], stored["subject"]) == (commit, "main", "version 0")
    assert stored["dirty"] is False
    page = (place / "out/report.html").read_text()
    assert "commit of the kernels" in page
    assert f"{commit[:12]} on main of {stored['committed_at']}: version 0" in page
    git(bench, "commit", "--quiet", "--allow-empty", "-m", "another commit")
    more = ("--rounds", "2", "--resume", "--no-calibrate", "--no-report")
    rooflens(place, "run", *only, "-o", "out", *more)
    assert (repository_of(place / "out")["commit"], repository_of(place / "out")["dirty"]) == (commit, True)

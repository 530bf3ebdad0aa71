"""The fixture `rooflens` in real pytest sessions, on calls whose time is planted (`conftest.planted`)."""

import json
import sys
import tomllib

import pytest
from rooflens.api import baselines, sampling

from ..environments import ROOT, printed_by

# A session within this one forgets the modules that it loads itself, and numpy can be loaded once only: what measures
# is imported here.
pytest_plugins = ["pytester"]

OPTIONS = ("-p", "rooflens.api.pytest_plugin", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", "-rs")


@pytest.fixture
def session(pytester, planted, monkeypatch):
    """Run pytest on a test that measures a call of the given time; returns its result."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(time_s, *arguments, body="assert rooflens(gemm).not_slower_than('main')", **scatter):
        pytester.makeconftest("import pytest\ngemm = None\n@pytest.fixture\ndef gemm():\n    return CALL\n")
        monkeypatch.setattr("builtins.CALL", planted.call("gemm", time_s, **scatter), raising=False)
        pytester.makepyfile(
            test_kernels=f"""
            import pytest

            @pytest.mark.rooflens(cold=False, device="cpu")
            def test_gemm(rooflens, gemm):
                {body}
            """
        )
        return pytester.runpytest_inprocess(*OPTIONS, *arguments)

    return run


def outcome(result):
    return {name: count for name, count in result.parseoutcomes().items() if name != "warnings"}


def test_without_a_baseline_the_test_is_skipped_with_the_command_that_makes_one(session):
    result = session(2e-3)
    assert outcome(result) == {"skipped": 1}
    command = "*pytest --rooflens-save main 'test_kernels.py::test_gemm'"
    result.stdout.fnmatch_lines([f"  gemm is not in{command}", f"SKIPPED*test_kernels.py:5: {command}"])


def test_what_became_slower_fails_with_both_figures(session):
    assert outcome(session(2e-3, "--rooflens-save", "main")) == {"passed": 1}
    assert outcome(session(2e-3)) == {"passed": 1}
    result = session(4e-3)
    assert outcome(result) == {"failed": 1}
    result.stdout.fnmatch_lines(["E*gemm against main: time +100*%*slower with a margin of 15%*"])


def test_what_became_faster_passes_with_a_reference_and_the_summary_shows_its_time(session):
    session(2e-3, "--rooflens-save", "main")
    assert outcome(session(1e-3)) == {"skipped": 1}
    result = session(1e-3, body="assert rooflens(gemm, reference=gemm).not_slower_than('main')")
    assert outcome(result) == {"passed": 1}
    told = ["*= rooflens =*", "test_kernels.py::test_gemm", "  gemm: 1.0*ms*", "  gemm against main: time *faster*"]
    result.stdout.fnmatch_lines(told)


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("rooflens(gemm, reference=lambda: 2 * gemm())", "gemm is wrong: *"),
        ("rooflens(gemm); rooflens(gemm)", "*has measured gemm before: give name=*"),
        ("rooflens(gemm).not_slower_than('../main')", "baseline '../main': use letters*"),
    ],
)
def test_what_is_wrong_or_cannot_be_told_fails_the_test_with_a_line(session, body, line):
    result = session(2e-3, body=body)
    assert outcome(result) == {"failed": 1}
    result.stdout.fnmatch_lines([line])
    assert "During handling" not in result.stdout.str()


@pytest.mark.parametrize(
    ("margin", "passes_s", "fails_s"),
    [("", 2.2e-3, 2.4e-3), (", margin=0", 2.05e-3, 2.08e-3)],
)
def test_a_change_within_the_margin_is_not_called_slower(session, margin, passes_s, fails_s):
    """15 % unless another is asked for, and 3 % at least: three times that of interleaved rounds."""
    session(2e-3, "--rooflens-save", "main")
    body = f"assert rooflens(gemm).not_slower_than('main'{margin})"
    assert outcome(session(passes_s, body=body)) == {"passed": 1}
    assert outcome(session(fails_s, body=body)) == {"failed": 1}


def test_noise_is_a_skip_with_the_smallest_detectable_change(session):
    session(2e-3, "--rooflens-save", "main", sd=2.0)
    result = session(2.2e-3, sd=2.0)
    assert outcome(result) == {"skipped": 1}
    change = "gemm against main*smallest detectable change*"
    result.stdout.fnmatch_lines([f"  {change}", f"SKIPPED*inconclusive in test_gemm: {change}"])


@pytest.mark.parametrize(
    ("canary", "time_s", "expected"),
    [
        (1.5, 3e-3, "skipped"),
        (1.5, 4e-3, "failed"),  # twice the time is more than a device that is half as slow again
        (0.7, 4e-3, "failed"),  # a faster device makes nothing slower
        (0.7, 1.5e-3, "skipped"),
    ],
)
def test_a_device_that_changed_decides_nothing_that_it_explains(session, planted, canary, time_s, expected):
    session(2e-3, "--rooflens-save", "main")
    planted.canary["gemm_s"] *= canary
    sampling._canary.cache_clear()  # a later session
    result = session(time_s, body="assert rooflens(gemm, reference=gemm).not_slower_than('main', margin=0)")
    assert outcome(result) == {expected: 1}
    if expected == "skipped":
        result.stdout.fnmatch_lines(["*the device itself changed (time of the canary: gemm *"])


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (
            lambda stored: stored | {"device": stored["device"] | {"name": "NVIDIA H200"}},
            "the baseline main is of another device (NVIDIA H200,*",
        ),
        (
            lambda stored: json.loads(json.dumps(stored).replace('"warm"', '"cold"')),
            "gemm of the baseline main has cache cold, this one warm: save it again",
        ),
        (lambda stored: [], "*.json*"),
        (lambda stored: {"version": baselines.VERSION, "timings": {"gemm": {}}}, "*.json*"),
        (lambda stored: {"version": 7}, "*.json*"),
        (None, "*.json*"),
    ],
)
def test_a_baseline_that_is_none_for_this_call_is_an_error_of_one_line(session, pytester, change, line):
    session(2e-3, "--rooflens-save", "main")
    (path,) = pytester.path.glob("rooflens-baselines/main/*.json")
    path.write_text(json.dumps(change(json.loads(path.read_text()))) if change else "{")
    result = session(2e-3)
    assert outcome(result) == {"failed": 1}
    result.stdout.fnmatch_lines([line])
    assert "Traceback" not in result.stdout.str()


def test_a_file_holds_device_versions_and_samples_of_every_round(session, pytester):
    pytester.makeini("[pytest]\nrooflens_baselines = times\n")
    session(2e-3, "--rooflens-save", "v1.2")
    (path,) = pytester.path.glob("times/v1.2/*.json")
    content = json.loads(path.read_text())
    assert content["node"] == "test_kernels.py::test_gemm"
    assert {"name", "arch", "compute_units"} <= content["device"].keys()
    assert {"python", "torch"} <= content["software"].keys()
    (timing,) = content["timings"].values()
    assert [len(samples) >= 50 for samples in timing["rounds"]] == [True] * 3
    assert timing["rounds"][0][0] == pytest.approx(2e-3, rel=1e-3)


def test_several_calls_of_a_test_have_names(session):
    named = "rooflens(gemm); assert rooflens(gemm, name='again').not_slower_than('main')"
    assert outcome(session(2e-3, "--rooflens-save", "main", body=named)) == {"passed": 1}
    assert outcome(session(4e-3, body=named)) == {"failed": 1}


def test_tests_that_measure_have_the_marker(session):
    assert outcome(session(2e-3, "-m", "not rooflens", "--strict-markers")) == {"deselected": 1}


def test_beside_other_tests_nothing_is_measured(session, monkeypatch):
    monkeypatch.setenv("PYTEST_XDIST_WORKER_COUNT", "2")
    result = session(2e-3)
    assert outcome(result) == {"skipped": 1}
    result.stdout.fnmatch_lines(["*run it with -n 0*"])


def test_the_summary_says_what_a_reader_of_a_time_should_know(session):
    result = session(2e-3, body="rooflens(gemm, rounds=1)")
    result.stdout.fnmatch_lines(["  gemm: 2.0*1 warning)", "  note: gemm: one round has no interval"])


def test_an_impossible_time_is_no_baseline(session, pytester, monkeypatch):
    monkeypatch.setattr("rooflens.api.bench._Work.least_s", lambda *work: 5e-3)
    result = session(2e-3, "--rooflens-save", "main", body="rooflens(gemm)")
    assert outcome(result) == {"failed": 1}
    result.stdout.fnmatch_lines(["gemm is not stored: faster than *"])
    assert not [*pytester.path.glob("rooflens-baselines/**/*.json")]


def test_the_plugin_is_declared_and_cheap(tmp_path):
    points = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]["pytest11"]
    assert points == {"rooflens": "rooflens.api.pytest_plugin"}
    code = (
        "import sys, importlib; importlib.import_module(sys.argv[1])\n"
        "print([name for name in ('torch', 'pandas', 'numpy') if name in sys.modules])"
    )
    done = printed_by(sys.executable, "-c", code, points["rooflens"], check=True)
    assert done.stdout.strip() == "[]"

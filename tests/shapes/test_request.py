"""A request is the same however it is written: on the command line, in Python, in run.json of today and of before."""

import json
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rooflens.api.measuring import request_of
from rooflens.cli.main import main
from rooflens.cli.run.run import run
from rooflens.cli.shared.options import parameters
from rooflens.shapes import suite as suites
from rooflens.shapes.errors import UsageError
from rooflens.shapes.protocol import Protocol, settings, settings_of
from rooflens.shapes.request import FORMER, Request, options

PYTHON = Request(
    suite="llm4bit", providers=["blas"], axes={"M": [16, 1, 2]}, caches=["cold", "warm"], files=[Path("/k.py")],
    protocol={"llc_bytes": 1 << 28, "threads": 4, "timeout_s": 120, "target_ci": 0.01, "budget_s": 0.5},
    calibrate=False, within=20.0,
)  # fmt: skip
STORED = {
    "suite": "llm4bit", "providers": ["blas"], "dtype": None, "axes": ["M=1,2", "M=2,16"], "caches": "cold,warm",
    "filter_expression": "", "device": None, "llc": "256MiB", "threads": 4, "timeout": "2m", "target_ci": "1%",
    "budget": "500ms", "files": ["/k.py"], "calibrate": False, "of a later version": 1,
}  # fmt: skip
"""As an earlier version kept what was typed."""


def from_words(words):
    found = run.make_context("run", [*words]).params
    return Request.for_command("run", {name: found[name] for name in (options() | settings()).keys() & found.keys()})


def test_as_typed_and_as_python_has_it():
    words = "llm4bit -p blas --axis M=1..2,16 --cache cold,warm --set llc_bytes=256M,threads=4,timeout_s=2m "
    request = from_words(f"{words} --set target_ci=1% --set budget_s=0.5 --providers /k.py --within 20s".split())
    assert {**request.given, "calibrate": False} == PYTHON.given


def test_run_json_keeps_what_a_resumed_run_repeats():
    kept = PYTHON.stored()
    assert Request.read(kept) == Request.read(STORED)
    assert Request.read(kept).given == {name: value for name, value in PYTHON.given.items() if name != "within"}
    assert from_words(PYTHON.words(kept)).given == Request.read(kept).given
    assert Request(suite="a", resume=False, calibrate=False).words() == ["a", "--no-calibrate"]


@given(st.floats(1e-9, 1e6), st.floats(1e-6, 0.999), st.integers(1, 1 << 50))
def test_numbers_are_kept_to_their_last_digit(time_s, share, size):
    request = Request(protocol={"budget_s": time_s, "target_ci": share, "llc_bytes": size})
    assert Request.read(request.stored()) == request


@given(st.sets(st.integers(1, 40) | st.integers(1, 1 << 40), min_size=1))
@example({4, 8, 9, 10})
@example(set(range(1, 20_001)))
def test_sizes_are_written_as_short_as_they_are_read(sizes):
    words = Request(axes={"M": sizes}).words()
    assert from_words(words).axes == {"M": tuple(sorted(sizes))}
    if len(sizes) == 20_000:
        assert words == ["--axis", "M=1..10000,10001..20000"]


def test_numbers_of_numpy_are_those_of_python():
    given = {"rounds": np.int64(3), "budget_s": np.float64(0.5), "target_ci": np.float32(0.5)}
    one = Request(axes={"M": np.array([1, 16])}, protocol=given)
    other = Request(axes={"M": [1, 16]}, protocol={"rounds": 3, "budget_s": 0.5, "target_ci": 0.5})
    assert one == other
    assert one.stored() == other.stored()


def test_a_call_that_resumes_may_say_where_and_until_when():
    more = {"timeout_s": "5m"}
    call = Request(to="runs/a", resume=True, max_time="9m", calibrate=True, retry=["timeout"], protocol=more)
    call.refuse_changes("measured")
    repeated = call.repeating(PYTHON.stored(), "run.json")
    assert (repeated.max_time, repeated.calibrate) == (540, True)
    assert repeated.protocol == PYTHON.protocol | {"timeout_s": 300}
    assert replace(call, address="auto").repeating({"device": "cuda"}, "run.json").device == "cuda"
    with pytest.raises(UsageError, match=r"^run.json: --set timer 'clock': known"):
        call.repeating({"timer": "clock"}, "run.json")
    with pytest.raises(UsageError, match=r"^--set timeout_s changes what is measured"):
        Request(to="runs/a", resume=True, protocol=more).refuse_changes("measured")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"within": -1}, "^--within '-1': write a time"),
        ({"axes": {"M": [1.5]}}, "^--axis: M=1.5 is not a size"),
        ({"axes": 5}, "^--axis 5: give a text"),
        ({"axes": {1: []}}, "^--axis: axis 1 needs a list"),
        ({"protocol": "timer"}, "^--set 'timer': write KEY=VALUE"),
        ({"protocol": {"budget": 1}}, "^unknown key of --set 'budget': did you mean budget_s"),
        ({"protocol": 5}, "^--set 5: give a text"),
        ({"protocol": {"seed": 1 << 32}}, "^--set seed 4294967296: give a whole number from 0"),
        ({"protocol": {"min_samples": 9}}, "^--set min_samples 9: give a whole number from 10"),
        ({"protocol": {"rounds": True}}, "^--rounds True: give a whole number"),
        ({"protocol": {"target_ci": 1}}, "^--set target_ci '1': write a percentage"),
        ({"protocol": {"llc_bytes": 0}}, "^--set llc_bytes '0B': write a size"),
        ({"protocol": "budget_s=2000000s"}, "^--set budget_s '2000000s': write a time .* up to 277h"),
        ({"providers": 3}, "^--provider 3: give a text"),
        ({"suite": 3}, "^SUITE 3: give a text"),
        ({"resume": 1}, "^--resume 1: give True or False"),
        ({"retry": ["oom"]}, "add -o and --resume"),
        ({"on": "sm90"}, "add --address, or --jobs"),
        ({"within": 1, "max_time": 1}, "omit --max-time"),
        ({"within": 1, "jobs": "local"}, "omit --jobs"),
        ({"scan": "N=1..2", "jobs": "local"}, "omit --jobs"),
        ({"versions": 3}, "^--git 3: give a text"),
    ],
)
def test_a_wrong_value_names_its_option(given, words):
    with pytest.raises(UsageError, match=words):
        Request(**given)


def test_every_option_is_declared_once():
    flags = [flag for one in (*options().values(), *settings().values()) for flag in one.flags]
    assert len(flags) == len(set(flags))
    made = {parameter.name for command in ("run", "tune", "compare") for parameter in parameters(command)}
    assert made == {*options(), "rounds"}


VALUES = {
    "rounds": 5, "target_ci": 0.02, "min_samples": 20, "budget_s": 0.5, "timeout_s": 180.0, "build_timeout_s": 3600.0,
    "timer": "event", "cold_by": "rotation", "tuning": "cold", "seed": 7, "threads": 2, "llc_bytes": 1 << 28,
    "refine_to": 0.05, "refine_most": 9,
}  # fmt: skip
"""One of each setting, as Python has it."""

FORMERLY = {name: name for name in VALUES} | {new: old for old, new in FORMER.items()}


@pytest.mark.parametrize("name", settings())
def test_a_setting_is_the_same_in_a_suite_on_a_command_line_in_python_and_in_run_json(name):
    value, text = VALUES[name], settings()[name].kind.write(VALUES[name])
    plain = (Path(suites.__file__).parent / "suites" / "llm4bit-quick.toml").read_text().partition("[protocol]")[0]
    wanted = suites.parse(f"{plain}[protocol]\n{name} = {json.dumps(value)}\n", "a suite").protocol
    assert getattr(wanted, name) == value
    command = click.Command("run", params=parameters("run")).make_context("run", ["--set", f"{name}={text}"]).params
    python = request_of("run", "llm4bit-quick", (), {name: value})
    asked = (
        python,
        request_of("run", "llm4bit-quick", (), {"protocol": {name: text}}),
        Request.for_command("run", command),
        from_words(python.words()),
        Request.read(json.loads(json.dumps(python.stored()))),
        Request.read({FORMERLY[name]: value}),
    )
    assert [request.over(Protocol()) for request in asked] == [wanted] * len(asked)
    with pytest.raises(UsageError, match=f"^{settings()[name].flag} '-1'"):
        Request.for_command("run", command | {"protocol": (f"{name}=-1",)})
    with pytest.raises(UsageError, match=f"^protocol: {name} '-1'"):
        Protocol(**{name: "-1"})


@pytest.mark.parametrize("command", ["run", "tune", "compare", "calibrate", "bench"])
def test_what_was_an_option_is_answered_with_its_setting_and_other_settings_are_refused(command, capsys):
    known = settings_of(command)
    for name in set(known) - {"rounds"}:
        flag = f"--{FORMERLY[name]}".replace("_", "-")
        for words in ([flag, "x"], [f"{flag}=x"]):
            assert main([command, "absent", *words]) == 2
            told = capsys.readouterr().err
            assert told.startswith(f"rooflens: error: {flag} is no longer an option: write --set {name}=x; ")
    for name in set(VALUES) - set(known):
        with pytest.raises(UsageError, match=f"^--set {name}: rooflens {command} does not use it, but "):
            Request.for_command(command, {"protocol": {name: VALUES[name]}})

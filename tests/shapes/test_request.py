"""A request is the same however it is written: on the command line, in Python, in run.json of today and of before."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rooflens.cli.shared.options import parameters
from rooflens.shapes.errors import UsageError
from rooflens.shapes.request import Request, options

PYTHON = Request(
    suite="llm4bit", providers=["blas"], axes={"M": [16, 1, 2]}, caches=["cold", "warm"], llc=1 << 28, threads=4,
    timeout=120, target_ci=0.01, budget=0.5, files=[Path("/k.py")], calibrate=False, within=20.0,
)  # fmt: skip
STORED = {
    "suite": "llm4bit", "providers": ["blas"], "dtype": None, "axes": ["M=1,2", "M=2,16"], "caches": "cold,warm",
    "filter_expression": "", "device": None, "llc": "256MiB", "threads": 4, "timeout": "2m", "target_ci": "1%",
    "budget": "500ms", "files": ["/k.py"], "calibrate": False, "of a later version": 1,
}  # fmt: skip
"""As an earlier version kept what was typed."""


def test_as_typed_and_as_python_has_it():
    words = "llm4bit -p blas --axis M=1..2,16 --cache cold,warm --llc 256M --threads 4 --timeout 2m --target-ci 1% "
    typed = Request.of_words(f"{words} --budget 0.5s --providers /k.py --within 20s".split())
    assert {**typed.given, "calibrate": False} == PYTHON.given


def test_run_json_keeps_what_a_resumed_run_repeats():
    kept = PYTHON.stored()
    assert Request.read(kept) == Request.read(STORED)
    assert Request.read(kept).given == {name: value for name, value in PYTHON.given.items() if name != "within"}
    words = PYTHON.words(set(kept) - {"calibrate"})
    assert {**Request.of_words(words).given, "calibrate": False} == Request.read(kept).given
    assert Request(suite="a", resume=False, calibrate=False).words() == ["a", "--no-calibrate"]


@given(st.floats(1e-9, 1e9), st.floats(1e-6, 0.999), st.integers(1, 1 << 50))
def test_numbers_are_kept_to_their_last_digit(time_s, share, size):
    request = Request(budget=time_s, target_ci=share, llc=size)
    assert Request.read(request.stored()) == request


@given(st.sets(st.integers(1, 40) | st.integers(1, 1 << 40), min_size=1))
@example({4, 8, 9, 10})
@example(set(range(1, 20_001)))
def test_sizes_are_written_as_short_as_they_are_read(sizes):
    words = Request(axes={"M": sizes}).words()
    assert Request.of_words(words).axes == {"M": tuple(sorted(sizes))}
    if len(sizes) == 20_000:
        assert words == ["--axis", "M=1..10000,10001..20000"]


def test_numbers_of_numpy_are_those_of_python():
    one = Request(axes={"M": np.array([1, 16])}, rounds=np.int64(3), budget=np.float64(0.5), target_ci=np.float32(0.5))
    assert one == Request(axes={"M": [1, 16]}, rounds=3, budget=0.5, target_ci=0.5)
    assert one.stored() == Request(axes={"M": [1, 16]}, rounds=3, budget=0.5, target_ci=0.5).stored()


def test_a_call_that_resumes_may_say_where_and_until_when():
    call = Request(to="runs/a", resume=True, max_time="9m", calibrate=True, retry=["timeout"], timeout="5m")
    call.refuse_changes("measured")
    repeated = call.repeating(PYTHON.stored(), "run.json")
    assert (repeated.timeout, repeated.max_time, repeated.calibrate, repeated.budget) == (300, 540, True, 0.5)
    with pytest.raises(UsageError, match=r"^run.json: --timer 'clock': known"):
        call.repeating({"timer": "clock"}, "run.json")
    with pytest.raises(UsageError, match=r"^--timeout changes what is measured"):
        Request(to="runs/a", resume=True, timeout="5m").refuse_changes("measured")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"within": -1}, "^--within '-1': write a time"),
        ({"seed": 1 << 32}, "^--seed 4294967296: give a whole number from 0"),
        ({"rounds": True}, "^--rounds True: give a whole number"),
        ({"axes": {"M": [1.5]}}, "^-a: M=1.5 is not a size"),
        ({"axes": 5}, "^-a 5: give a text"),
        ({"axes": {1: []}}, "^-a: axis 1 needs a list"),
        ({"target_ci": 1}, "^--target-ci '1': write a percentage"),
        ({"llc": 0}, "^--llc '0B': write a size"),
        ({"timer": "clock"}, "^--timer 'clock': known: auto"),
        ({"providers": 3}, "^--provider 3: give a text"),
        ({"suite": 3}, "^SUITE 3: give a text"),
        ({"resume": 1}, "^--resume 1: give True or False"),
        ({"retry": ["oom"]}, "add -o and --resume"),
        ({"on": "sm90"}, "add --address, or --jobs"),
        ({"within": 1, "max_time": 1}, "omit --max-time"),
        ({"within": 1, "jobs": "local"}, "omit --jobs"),
    ],
)
def test_a_wrong_value_names_its_option(given, words):
    with pytest.raises(UsageError, match=words):
        Request(**given)


def test_every_option_is_declared_once():
    flags = [flag for one in options().values() for flag in one.flags]
    assert len(flags) == len(set(flags))
    made = {parameter.name for command in ("run", "tune", "compare") for parameter in parameters(command)}
    assert made == set(options())

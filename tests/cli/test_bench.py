"""`rooflens bench FILE.py`: functions and providers of a file, and what is said of files that offer neither."""

import json
import re
from dataclasses import replace

import pytest
from rooflens.api.planned import planned
from rooflens.shapes.request import Request

from ..environments import ROOT
from .tiny_runs import rooflens, write_suite, write_traced

CALLS = """
import time
import torch

def bench_short():
    time.sleep(0.001)
    return torch.ones(4)

def bench_long():
    time.sleep(0.01)
    return torch.ones(4)
"""


def write(folder, text):
    (folder / "mine.py").write_text(text, encoding="utf-8")
    return folder / "mine.py"


def measured(place, file, *options, code=0):
    return rooflens(place, "bench", file, "--cache", "warm", "--device", "cpu", "--within", "1s", *options, code=code)


@pytest.fixture
def in_this_process(monkeypatch):
    """Let FILE.py be read and measured here: no start of Python, no imports."""

    def act_here(act, files, limits, doing, returns, within_s):
        return act(doing)

    monkeypatch.setattr("rooflens.api.bench_file.in_child", act_here)


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("x = 1\n", 2, "offers nothing: define functions bench_*"),
        ("BENCH = [1]\n", 2, "BENCH is of type list"),
        ("BENCH = {'a': 1}\n", 2, "a is of type int, which cannot be called"),
        ("BENCH = {3: print, '3': print}\n", 2, "a name is a text of one line"),
        ("BENCH = {'two\\nlines': print}\n", 2, "a name is a text of one line"),
        ("bench_size = 3\n", 2, "bench_size is of type int, which cannot be called"),
        ("import nothing_of_the_kind\n", 2, "mine.py:1: ModuleNotFoundError"),
        ("PROVIDERS = []\ndef bench_a(): pass\n", 2, "rooflens run SUITE --providers"),
        ("PROVIDERS = []\n", 2, "PROVIDERS is empty"),
        ("def bench_bad(): return 1 / 0\ndef bench_too(): return [][0]\n", 1, "bench_too: IndexError: list index out"),
    ],
)
def test_a_file_that_cannot_be_measured_gets_one_line(tmp_path, in_this_process, text, code, words):
    done = measured(tmp_path, write(tmp_path, text), code=code)
    (line,) = done.stderr.splitlines()
    assert words in line
    assert not done.stdout


def test_a_dictionary_names_the_calls_and_one_that_fails_costs_its_own_row(tmp_path, in_this_process):
    ends = "\ndef bad():\n    raise ValueError('no\\nway')\n\ndef end():\n    sys.exit(3)\n"
    names = "\nBENCH = {'one': bench_short, 'bad': bad, 'end': end, 'two': bench_long}\n"
    done = measured(tmp_path, write(tmp_path, "import sys\n" + CALLS + ends + names), "--baseline", "two", code=1)
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines()}
    assert (rows["bad"], rows["end"]) == (["bad", "failed"], ["end", "failed"])
    assert rows["two"][-1] == "baseline"
    assert "faster" in rows["one"]
    assert "bad: ValueError: no way (mine.py:15)" in done.stderr
    assert "end: SystemExit: 3 (mine.py:18)" in done.stderr


def test_what_providers_take_is_not_printed_as_json(tmp_path, in_this_process):
    done = measured(tmp_path, ROOT / "examples" / "my_function.py", "--json", code=2)
    assert done.stdout == ""
    assert "--json prints times of functions" in done.stderr


def test_a_missing_file_and_an_unknown_baseline(tmp_path, in_this_process):
    assert "no such file" in measured(tmp_path, tmp_path / "mine.py", code=2).stderr
    done = measured(tmp_path, write(tmp_path, CALLS), "--baseline", "bench_shot", code=2)
    assert "did you mean bench_short?" in done.stderr


@pytest.mark.slow
def test_providers_run_on_a_suite_beside_its_baseline(tmp_path):
    write_suite(tmp_path)
    file = ROOT / "examples" / "my_function.py"
    done = measured(tmp_path, file, "--suite", "tiny.toml", "--within", "10s")
    assert "decode_and_multiply" in done.stdout
    (file,) = (tmp_path / "runs").glob("*/run.json")
    content = json.loads(file.read_text("utf-8"))
    assert set(content["providers"]) == {"decode_and_multiply", "dequant_blas"}


@pytest.mark.parametrize(
    ("family", "suite"), [("fourbit", "llm4bit-quick"), ("fp8train", "fp8-train-quick"), ("", "llm4bit-quick")]
)
def test_the_quick_suite_of_the_family_is_the_default(tmp_path, monkeypatch, family, suite):
    """`bench FILE` is `run FILE --within 20s`."""
    asked = []
    file = write_traced(tmp_path, family)
    monkeypatch.setattr("rooflens.cli.bench.run_request", lambda request, own: asked.append(request))
    rooflens(tmp_path, "bench", file)
    (request,) = asked
    assert (request.suite, request.within) == (suite, 20)
    assert request.providers[0] == "mine"
    assert (tmp_path / "imports").read_text() == "x", "imported once before there is a worker"
    assert planned(Request(suite=str(file), within=20)).request == replace(request, calibrate=True)


ENDS = f"""
import ctypes, os
{CALLS}
def helper():
    raise AssertionError("not measured")

def bench_spins():
    while True:
        pass

def bench_crashes():
    ctypes.string_at(0)

def bench_exits():
    os._exit(0)
"""


@pytest.mark.exclusive
def test_functions_that_hang_or_end_the_process_are_named_and_the_others_measured(tmp_path):
    file = write(tmp_path, ENDS)
    done = measured(tmp_path, file, "--set", "timeout_s=3s", code=1)
    assert "helper" not in done.stdout + done.stderr
    header, short, long, *_, how = done.stdout.splitlines()
    assert header.split()[:2] == ["call", "time"]
    assert (short.split()[0], short.split()[-1]) == ("bench_short", "baseline")
    assert long.split()[0] == "bench_long"
    assert "slower" in long
    assert how.startswith("warm, ")
    line = done.stderr.splitlines()[-1]
    assert re.search(rf"bench_spins: {file}:(19|20): no end within 3 s; timeout_s sets the limit", line)
    assert f"bench_crashes: {file}:23: process killed by SIGSEGV" in line
    assert f"bench_exits: {file}: process ended with exit code 0" in line


def test_a_baseline_that_ends_the_process_leaves_nothing_to_compare(tmp_path):
    done = measured(tmp_path, write(tmp_path, ENDS), "--baseline", "bench_exits", code=1)
    assert "bench_exits, the baseline: " in done.stderr
    assert not done.stdout

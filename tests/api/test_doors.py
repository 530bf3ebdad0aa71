"""No door without a check: functions that are wrong, fail or cannot be compared, through every one of them."""

import json
import re
import runpy
from functools import partial
from pathlib import Path

import pytest
import rooflens
import torch
from rooflens.cli.main import main
from rooflens.shapes.errors import CorrectnessError, RooflensError

from . import functions_to_check as offered

FILE = Path(offered.__file__)
QUICK = {"cold": False, "device": "cpu", "rounds": 2, "budget_s": 0.002}


def test_a_file_on_the_command_line(capsys):
    assert main(["bench", str(FILE), "--json", "--cache", "warm", "--device", "cpu", "--within", "0.1s"]) == 5
    shown = capsys.readouterr()
    found = {one["name"]: one for one in json.loads(shown.out)["calls"]}
    assert found.keys() == offered.BENCH.keys()
    outcomes = {name: (one["outcome"], re.split("[:,]", one.get("output", ""))[0]) for name, one in found.items()}
    for names, expected in (
        (["norm"], ("passed", "")),
        (offered.WRONG, ("wrong", "")),
        (offered.FAILED, ("failed", "")),
        (offered.UNCHECKED, ("passed", "unchecked")),
        (offered.HONEST, ("passed", "agrees")),
    ):
        assert {name: outcomes[name] for name in names} == dict.fromkeys(names, expected)
    for name, one in found.items():
        assert ("median_s" in one) == (one["outcome"] == "passed")
        assert ("reason" in one) != ("median_s" in one)
        has_verdict = name in offered.HONEST
        assert bool((one.get("change") or {}).get("verdict")) == has_verdict, name
    *_, line = shown.err.splitlines()  # a busy machine is told what is waited for
    assert all(f"{name} is wrong" in line for name in offered.WRONG)
    assert "at_once: ValueError: out of order (functions_to_check.py:" in line


def test_the_table_names_what_has_no_verdict():
    chosen = ("norm", "product", "at_once", "nothing", "library")
    found = rooflens.bench({name: offered.BENCH[name] for name in chosen}, **QUICK)
    rows = {row["call"]: row for row in found.rows()}
    assert [rows[name]["output"] for name in chosen] == ["", "wrong", "failed", "unchecked", "agrees"]
    assert not rows["product"]["time"]
    assert not rows["nothing"]["verdict"]
    assert rows["library"]["verdict"] in ("faster", "slower", "same", "inconclusive")
    assert "product is wrong: " in str(found)
    assert "at_once: ValueError: out of order" in str(found)
    for name, error in {"product": CorrectnessError, "nothing": RooflensError}.items():
        with pytest.raises(error, match=f"^{name} "):
            found[name]
    with pytest.raises(ValueError, match="out of"):
        found["at_once"]


def test_a_baseline_that_fails_leaves_times_without_verdicts():
    found = rooflens.bench({"bad": offered.fail, "norm": offered.bench_norm}, **QUICK)
    assert found.timings["norm"].output == "unchecked: the baseline failed"
    assert (list(found.failures), found.changes) == (["bad"], {})
    late = {"bad": offered.from_call(20, offered.fail), "norm": offered.bench_norm}
    found = rooflens.bench(late, **QUICK)
    assert (list(found.failures), list(found.timings), found.changes) == (["bad"], ["norm"], {})
    with pytest.raises(RooflensError, match="the baseline failed"):
        found["norm"]
    assert rooflens.bench({"bad": offered.fail}, **QUICK).rows() == [{"call": "bad", "output": "failed"}]


def test_without_a_check_it_says_so():
    found = rooflens.bench({"norm": offered.bench_norm, "input": lambda: offered.x}, check=False, **QUICK)
    assert found.timings["input"].output == "not checked"
    assert "not checked" in str(found)
    assert found["input"].verdict


@pytest.mark.parametrize("name", [*offered.WRONG, *offered.FAILED, *offered.HONEST])
def test_a_function_and_its_reference(name):
    fresh = runpy.run_path(str(FILE))  # some count their calls

    def timed():
        return rooflens.bench(fresh["BENCH"][name], reference=fresh["bench_norm"], **QUICK)

    if name in offered.HONEST:
        assert timed().output == "agrees" + ", own operands" * (name == "copied_weights")
    else:
        with pytest.raises(CorrectnessError if name in offered.WRONG else ValueError):
            timed()


def test_functions_of_arguments_are_compared_on_them():
    kept = []

    def remembers(x, w):
        kept.append(offered.norm(x, w))
        return kept[0].clone()

    arguments = {"args": (offered.x, offered.w), **QUICK}
    assert rooflens.bench(offered.norm, reference=offered.norm, **arguments).output == "agrees"
    calls = {"norm": offered.norm, "scaled": partial(offered.norm, scale=1.0), "remembers": remembers}
    found = rooflens.bench(calls, **arguments)
    assert {name: found.outcome(name) for name in calls} == dict.fromkeys(calls, "passed") | {"remembers": "wrong"}


def test_operands_and_outputs_are_left_as_they_were():
    before = {name: one.clone() for name, one in vars(offered).items() if isinstance(one, torch.Tensor)}
    step = torch.zeros(4)
    found = rooflens.bench({"in_place": lambda: step.add_(1), "other": lambda: step.add_(0.5).add_(0.5)}, **QUICK)
    assert found.timings["other"].output == "agrees"
    timed = sum(len(timing.samples_s) for timing in found.timings.values())
    assert step.eq(step[0]).all()
    assert step[0] >= timed  # what was timed, and nothing that was checked
    rooflens.bench({name: offered.BENCH[name] for name in ("norm", "library", "copied_weights")}, **QUICK)
    assert all(torch.equal(vars(offered)[name], one) for name, one in before.items())

"""Policies as files: the Python that is executed, the JSON that is read back, the CSV that our importer reads."""

import ast
import csv
import io
import json
import math
import random

import numpy as np
import pytest
from rooflens.analysis.imports.read import detect
from rooflens.analysis.imports.table import parse
from rooflens.plugins.dispatch.emit_csv import emit_csv, refusal
from rooflens.plugins.dispatch.emit_json import emit_json, parse_policy
from rooflens.plugins.dispatch.emit_python import emit_python
from rooflens.plugins.dispatch.evidence import weigh_evidence
from rooflens.plugins.dispatch.fit import fit
from rooflens.plugins.dispatch.policy import Entry, Policy, choices
from rooflens.plugins.dispatch.provenance import Provenance
from rooflens.shapes.errors import UsageError

from .planted import choose, plant_timings

ARMS = ("old", 'ne"w\\', "gemv")

FACTS = Provenance(
    policy="table", run="h200", created_at="2026-01-02T03:04:05Z", device='NVIDIA "H200"\nSXM', arch="sm90",
    compute_units=132, cache="cold", gemms=112, rounds=5, margin=0.03, weights="every GEMM the same",
    sources={"old": "aaa", 'ne"w\\': "bbb", "gemv": ""}, environment={"torch": "2.11.0"}, regret=0.01,
    held_out={"shape": 0.02, "model": None, "round": 0.011},
)  # fmt: skip


def seconds(case, arm):
    best = "gemv" if case["M"] <= 2 else ARMS[1] if case["K"] <= 2048 and case["M"] <= 32 else "old"
    return 1e-5 * case["M"] * (1 if arm == best else 1.4)


def columns(case, arm):
    return {"config": json.dumps({"SPLIT_K": 2, "BLOCK_M": 16}) if arm == "gemv" else "{}"}


@pytest.fixture(scope="module")
def table():
    return plant_timings(seconds, arms=ARMS, noise=0.02, dtypes=("bf16", "fp16"), batches=(1, 3), columns=columns)


@pytest.fixture(scope="module")
def policies(table) -> tuple[Policy, ...]:
    found = fit(table, "sm90")
    both = {setting: {**rule, None: ((40, Entry("gemv")),)} for setting, rule in found[-1].rules.items()}
    return (*found, Policy("rows of shapes, and rows for others", "sm90", "old", both))


def function(text):
    space: dict[str, object] = {"__builtins__": {}}
    exec(text, space)
    return space["choose"]


def test_the_python_chooses_as_the_policy_on_every_case_and_on_random_ones(table, policies):
    rng = random.Random(1)
    cases = table.cases.to_dict("records")
    for policy in policies:
        text = emit_python(policy, FACTS)
        tree = ast.parse(text)
        assert [type(node) for node in tree.body] == [ast.FunctionDef]
        assert not [node for node in ast.walk(tree) if isinstance(node, (ast.Import, ast.ImportFrom, ast.Call))]
        written = function(text)
        expected = choices(policy, table)
        for row, arm in zip(cases, expected.tolist(), strict=True):
            sizes = {name: row[name] for name in ("M", "N", "K", "B", "E", "top_k")}
            assert written("sm90", row["dtype"], row["scheme"], **sizes) == table.arms[arm]
        for _ in range(600):
            row = rng.choice(cases)
            sizes = {name: row[name] for name in ("N", "K", "B", "E", "top_k")}
            if rng.random() < 0.5:
                sizes |= {"N": rng.randint(1, 9000), "K": rng.randint(1, 9000), "B": rng.randint(1, 8)}
            what = {
                "arch": rng.choice(("sm90", "sm90", "sm90", "gfx942", "")),
                "dtype": rng.choice(("bf16", "bf16", "fp16", "fp32")),
                "scheme": rng.choice(("nf4-g64", "nf4-g64", "mxfp8-1x32")),
                "op": rng.choice(("gemm", "gemm", "gemm", "moe_gemm")),
                "pass_": rng.choice(("fwd", "fwd", "fwd", "dgrad")),
                "M": rng.randint(1, 90),
            }
            assert written(**what, **sizes) == choose(policy, **what, **sizes)


@pytest.mark.parametrize("name", ["a\U0001f600b", 'q"\\', "l\u2028\x85s", "\x00\t\n\r", "{x}%s\\u0041", "\ud83d"])
def test_names_are_what_they_were_whatever_they_hold(name):
    text = emit_python(Policy("always", name, name, {}), FACTS)
    assert text.isascii()
    assert function(text)("other", "bf16", "nf4-g64", 1, 1, 1) == name
    assert function(text)(name, "bf16", "nf4-g64", 1, 1, 1) == name


def test_json_is_read_back_whole(policies):
    for policy in policies:
        text = emit_json(policy, FACTS)
        again = parse_policy(text.encode(), "x.json")
        assert emit_json(again, FACTS) == text
        assert (again.name, again.arch, again.incumbent) == (policy.name, "sm90", "old")
        assert [(one.arm, one.status) for one in again.entries] == [(one.arm, one.status) for one in policy.entries]
        for name in ("gain", "low"):
            numbers = ([getattr(one, name) or math.nan for one in read.entries] for read in (again, policy))
            assert next(numbers) == pytest.approx(next(numbers), abs=1e-6, nan_ok=True)
        assert json.loads(text)["provenance"]["held_out"] == {"shape": 0.02, "model": None, "round": 0.011}


@pytest.mark.parametrize(
    "content, words",
    [
        (b"{", "x.json line 1, column 2: .*; give a file of rooflens dispatch --emit json"),
        (b"[]", "x.json: a JSON object is expected"),
        (b'{"format": "other"}', "not a policy"),
        (b'{"format": "rooflens dispatch", "version": 1}', "version 1, and 2 is known: emit it again"),
        (b'{"format": "rooflens dispatch", "version": 2}', "a rule is broken .KeyError"),
    ],
)
def test_a_broken_policy_is_a_usage_error(content, words):
    with pytest.raises(UsageError, match=words):
        parse_policy(content, "x.json")


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


def test_csv_rows_are_what_the_table_runs_and_our_importer_reads(table, policies):
    (rows,) = (one for one in policies if one.name == "table")
    text = emit_csv(rows, table, FACTS)
    source = parse(text.encode(), "dispatch.csv")
    found = detect(source, {})
    assert found.SOURCE == "aiter tuned table"
    frame = found.read(source, {}).frame
    for name in ("M", "N", "K", "B", "dtype"):
        assert frame[name].tolist() == table.cases[name].tolist()
    written = rows_of(text)
    assert frame["time_s"].tolist() == pytest.approx([1e-6 * float(row["us"]) for row in written])
    chosen = choices(rows, table)
    evidence = weigh_evidence(table)
    assert len(written) == len(table.cases)
    for index, row in enumerate(written):
        assert row["libtype"] == table.arms[chosen[index]]
        assert row["use_challenger"] == str(int(chosen[index] > 0))
        assert float(row["us"]) == pytest.approx(1e6 * table.time_s[index, chosen[index]], rel=1e-5)
        assert float(row["incumbent_us"]) == pytest.approx(1e6 * table.time_s[index, 0], rel=1e-5)
        best = table.arms.index(row["best"])
        assert float(row["speedup"]) == pytest.approx(np.exp(evidence.gain[index, best]), rel=1e-5)
        if row["use_challenger"] == "1":  # the bound of the interval clears the margin, not only the point
            assert row["status"] == "engaged"
            assert float(row["speedup_low"]) > np.exp(0.03) - 1e-6
        assert (row["gfx"], row["cu_num"], row["q_dtype_w"]) == ("sm90", "132", "nf4-g64")
        assert row["splitK"] == ("2" if row["libtype"] == "gemv" else "")
        assert (row["run"], row["rounds"], row["margin"]) == ("h200", "5", "0.03")
        assert json.loads(row["sources"]) == dict(FACTS.sources)
    assert {row["status"] for row in written} == {"engaged", "incumbent"}


def test_what_a_csv_cannot_tell_apart_is_refused(table, policies):
    assert refusal(table) == ""
    for column, value, words in (
        ("pass", "dgrad", "passes dgrad, fwd"),
        ("op", "moe_gemm", "operations moe_gemm, gemm"),
    ):
        mixed = table.of_cases(np.ones(len(table.cases), dtype=bool))
        mixed.cases.loc[:9, column] = value
        assert refusal(mixed) == f"a CSV of that shape does not distinguish the {words}"
    with pytest.raises(UsageError, match="does not distinguish the operations moe_gemm, gemm; choose json or python"):
        emit_csv(policies[0], mixed, FACTS)


def test_an_arm_that_does_not_take_a_problem_is_not_written_there():
    def partly(case, arm):
        return math.nan if arm == "new" and case["M"] > 4 else 1e-5 * (0.5 if arm == "new" else 1)

    table = plant_timings(partly, arms=("old", "new", "odd"), rounds=3)
    (always,) = (one for one in fit(table, "sm90") if one.name == "always new")
    text = emit_csv(always, table, FACTS)
    assert text.startswith("gfx,cu_num,M,N,K,dtype,q_dtype_w,libtype,"), "no batch, as there is none"
    written = rows_of(text)
    assert {row["libtype"] for row in written if int(row["M"]) > 4} == {"old"}
    assert {row["libtype"] for row in written if int(row["M"]) <= 4} == {"new"}

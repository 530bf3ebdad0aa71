"""Policies as values: what they choose, one by one and for a whole run, and where they do not route."""

import math
import random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from rooflens.analysis.dispatch.fit import fit
from rooflens.analysis.dispatch.policy import Leaf, MeasuredRule, Policy, ShapeTable, Split, choices
from rooflens.analysis.dispatch.timings import SHAPE

from .planted import plant_timings

SETTING = ("gemm", "fwd", "bf16", "nf4-g64")
TABLE = ShapeTable({(1, 1, 1, 512, 1024): ((1, Leaf("gemv")), (8, Leaf("new")), (64, Leaf("old")), (128, Leaf("new")))})


def policy_of(rule, largest_M=128):
    return Policy("p", "sm90", "old", {SETTING: MeasuredRule(largest_M, rule)})


def test_a_table_takes_the_smallest_measured_M_at_or_above():
    policy = policy_of(TABLE)
    chosen = {
        size: policy.choose("sm90", "bf16", "nf4-g64", size, 512, 1024) for size in (1, 2, 8, 9, 64, 65, 128, 129)
    }
    assert chosen == {1: "gemv", 2: "new", 8: "new", 9: "old", 64: "old", 65: "new", 128: "new", 129: "old"}


def test_what_is_not_among_the_arms_is_the_incumbent_of_the_policy():
    table = plant_timings(lambda case, arm: 1e-5, arms=("old", "new"), Ms=(1, 4, 64))
    other = Policy("p", "sm90", "new", {SETTING: MeasuredRule(4, Split("M", 1, Leaf("gone"), Leaf("old")))})
    arms = dict(zip(table.cases["M"], choices(other, table).tolist(), strict=True))
    assert arms == {1: 1, 4: 0, 64: 1}  # 64 was not measured for it: its incumbent too
    unknown = Policy("p", "sm90", "gone", other.rules)
    assert set(choices(unknown, table).tolist()) == {0}


def test_nothing_that_was_not_measured_routes():
    policy = policy_of(Leaf("new"))
    sizes = {"M": 4, "N": 512, "K": 1024}
    assert policy.choose("sm90", "bf16", "nf4-g64", **sizes) == "new"
    assert policy.choose("gfx942", "bf16", "nf4-g64", **sizes) == "old"
    assert policy.choose("", "bf16", "nf4-g64", **sizes) == "old"
    assert policy.choose("sm90", "fp16", "nf4-g64", **sizes) == "old"
    assert policy.choose("sm90", "bf16", "fp4-g64", **sizes) == "old"
    assert policy.choose("sm90", "bf16", "nf4-g64", **sizes, op="grouped_gemm") == "old"
    assert policy.choose("sm90", "bf16", "nf4-g64", **sizes, pass_="dgrad") == "old"
    assert policy.choose("sm90", "bf16", "nf4-g64", **sizes | {"M": 129}) == "old"


def test_shapes_that_are_not_in_the_table_follow_the_tree_if_there_is_one():
    at = ("sm90", "bf16", "nf4-g64", 4, 4096, 4096)
    assert policy_of(TABLE).choose(*at) == "old"
    assert policy_of(ShapeTable(TABLE.rows, Split("M", 4, Leaf("new"), Leaf("old")))).choose(*at) == "new"
    # a shape of the table does not fall through to the tree beyond its last row
    short = ShapeTable({(1, 1, 1, 512, 1024): ((2, Leaf("new")),)}, Leaf("new"))
    assert policy_of(short).choose("sm90", "bf16", "nf4-g64", 4, 512, 1024) == "old"


def test_unknown_waves_run_the_incumbent():
    policy = policy_of(Split("waves", 1, Leaf("new"), Leaf("gemv")))
    at = ("sm90", "bf16", "nf4-g64", 4, 4096, 4096)
    assert [policy.choose(*at, waves=waves) for waves in (None, math.nan, 1, 2)] == ["old", "old", "new", "gemv"]


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000))
def test_a_whole_run_is_chosen_for_as_each_of_its_cases_is(seed):
    rng = random.Random(seed)
    arms = ("old", "new", "gemv")
    table = plant_timings(
        lambda case, arm: 1e-5 * math.exp(rng.gauss(0, 0.3)), arms=arms, rounds=3, Ms=(1, 4, 16),
        dtypes=("bf16", "fp16"), columns=lambda case, arm: {"workgroups": case["N"], "resident": 1},
    )  # fmt: skip
    for policy in fit(table, "sm90"):
        found = choices(policy, table)
        for row, arm in zip(table.cases.to_dict("records"), found.tolist(), strict=True):
            sizes = {name: row[name] for name in (*SHAPE, "M", "waves")}
            assert policy.choose("sm90", row["dtype"], row["scheme"], **sizes) == arms[arm]


def test_fit_names_its_policies_and_leaves_out_what_would_be_the_same():
    def names(**options):
        return [one.name for one in fit(plant_timings(lambda case, arm: 1e-5, **options), "sm90")]

    always = ["always old", "always new"]
    assert names() == [*always, "threshold", "tree", "table", "table-tree"]
    assert names(Ms=(1,)) == [*always, "tree", "table", "table-tree"]
    assert names(dtypes=("bf16", "fp32")) == [*always, "threshold", "thresholds", "tree", "table", "table-tree"]


def test_a_threshold_per_setting_follows_each_and_one_for_all_a_compromise():
    def seconds(case, arm):
        limit = 32 if case["dtype"] == "bf16" else 2
        return 1e-5 * (1 if arm == "old" else 0.5 if case["M"] <= limit else 2)

    table = plant_timings(seconds, dtypes=("bf16", "fp32"))
    by_name = {one.name: one for one in fit(table, "sm90")}
    limits = {setting[2]: one.rule.limit for setting, one in by_name["thresholds"].rules.items()}
    assert limits == {"bf16": 32, "fp32": 2}
    (one,) = {measured.rule.limit for measured in by_name["threshold"].rules.values()}
    assert 2 <= one <= 32
    ratio = table.mean[np.arange(len(table.cases)), choices(by_name["thresholds"], table)]
    assert np.allclose(ratio, np.minimum(table.mean.min(axis=1), 0))

"""Policies as values: what they choose, one by one and for a whole run, and where they do not route."""

import numpy as np
import pytest
from rooflens.plugins.dispatch.fit import fit
from rooflens.plugins.dispatch.policy import Entry, Policy, choices, ranges

from .planted import choose, plant_timings

SETTING = ("gemm", "fwd", "bf16", "nf4-g64")
SIZES = (1, 1, 1, 512, 1024)
ROWS = ((1, Entry("gemv")), (8, Entry("new")), (64, Entry("old")), (128, Entry("new")))


def policy_of(rule):
    return Policy("p", "sm90", "old", {SETTING: rule})


def test_a_table_takes_the_smallest_measured_M_at_or_above():
    policy = policy_of({SIZES: ROWS})
    chosen = {
        size: choose(policy, "sm90", "bf16", "nf4-g64", size, 512, 1024) for size in (1, 2, 8, 9, 64, 65, 128, 129)
    }
    assert chosen == {1: "gemv", 2: "new", 8: "new", 9: "old", 64: "old", 65: "new", 128: "new", 129: "old"}


def test_what_is_not_among_the_arms_is_the_incumbent_of_the_policy():
    table = plant_timings(lambda case, arm: 1e-5, arms=("old", "new"), Ms=(1, 4, 64))
    other = Policy("p", "sm90", "new", {SETTING: {None: ((1, Entry("gone")), (4, Entry("old")))}})
    arms = dict(zip(table.cases["M"], choices(other, table).tolist(), strict=True))
    assert arms == {1: 1, 4: 0, 64: 1}  # 64 was not measured for it: its incumbent too
    unknown = Policy("p", "sm90", "gone", other.rules)
    assert set(choices(unknown, table).tolist()) == {0}


@pytest.mark.parametrize(
    "other",
    [{"arch": "gfx942"}, {"arch": ""}, {"dtype": "fp16"}, {"scheme": "fp4-g64"}, {"op": "grouped_gemm"}, {"M": 129}],
)
def test_nothing_that_was_not_measured_routes(other):
    policy = policy_of({None: ((128, Entry("new")),)})
    measured = {"arch": "sm90", "dtype": "bf16", "scheme": "nf4-g64", "M": 4, "N": 512, "K": 1024}
    assert choose(policy, **measured) == "new"
    assert choose(policy, **measured | other) == "old"
    assert choose(policy, **measured, pass_="dgrad") == "old"


def test_shapes_without_rows_follow_those_for_all_if_there_are_any():
    at = ("sm90", "bf16", "nf4-g64", 4, 4096, 4096)
    assert choose(policy_of({SIZES: ROWS}), *at) == "old"
    everywhere = ((128, Entry("new")),)
    assert choose(policy_of({SIZES: ROWS, None: everywhere}), *at) == "new"
    # a shape with rows does not fall through to them beyond its last one
    assert choose(policy_of({SIZES: ROWS[:2], None: everywhere}), "sm90", "bf16", "nf4-g64", 9, 512, 1024) == "old"


def test_ranges_join_rows_that_run_the_same_arm_and_end_where_the_incumbent_does():
    new, old = Entry("new"), Entry("old")
    assert ranges(((1, new), (2, new), (4, old), (8, new)), "old") == [(2, "new"), (4, "old"), (8, "new")]
    assert ranges(((1, new), (2, old), (4, old)), "old") == [(1, "new")]
    assert ranges(((1, old),), "old") == ranges((), "old") == []


def test_fit_names_its_policies_and_leaves_out_what_would_be_the_same():
    def names(**options):
        return [one.name for one in fit(plant_timings(lambda case, arm: 1e-5, **options), "sm90")]

    always = ["always old", "always new"]
    assert names() == [*always, "threshold", "table"]
    assert names(Ms=(1,)) == [*always, "table"]
    assert names(dtypes=("bf16", "fp32")) == [*always, "threshold", "thresholds", "table"]


def test_a_threshold_per_setting_follows_each_and_one_for_all_a_compromise():
    def seconds(case, arm):
        limit = 32 if case["dtype"] == "bf16" else 2
        return 1e-5 * (1 if arm == "old" else 0.5 if case["M"] <= limit else 2)

    table = plant_timings(seconds, dtypes=("bf16", "fp32"))
    by_name = {one.name: one for one in fit(table, "sm90")}
    limits = {setting[2]: rule[None][0][0] for setting, rule in by_name["thresholds"].rules.items()}
    assert limits == {"bf16": 32, "fp32": 2}
    (one,) = {rule[None][0][0] for rule in by_name["threshold"].rules.values()}
    assert 2 <= one <= 32
    ratio = table.mean[np.arange(len(table.cases)), choices(by_name["thresholds"], table)]
    assert np.allclose(ratio, np.minimum(table.mean.min(axis=1), 0))

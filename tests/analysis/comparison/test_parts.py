"""What the report on two versions is made of: quantities, counts, parts, numbers of cases, identity, cost, evidence."""

import json
import math

import numpy as np
import pandas as pd
import pytest
from rooflens.analysis.comparison.decide import Word
from rooflens.analysis.comparison.effects import Order, measure_effects, sum_of_passes
from rooflens.analysis.comparison.evidence import binaries, costs, settings, settings_of
from rooflens.analysis.comparison.identity import identity_of
from rooflens.analysis.comparison.numbering import number_cases
from rooflens.analysis.comparison.parts import by_problem, leading, parts
from rooflens.analysis.comparison.result import Result, Side
from rooflens.shapes import shapeset
from rooflens.shapes.run_folder.manifest import ComparisonState

from ..compared import versions


def result_of(planted):
    effects, summed = measure_effects(planted), sum_of_passes(planted, ("fwd", "bwd"), "fwd+bwd")
    sums = measure_effects(summed) if len(summed.cases) else None
    return Result(Side("b", "b"), Side("h", "h"), planted.order, effects, sums, None, ())


@pytest.mark.parametrize("order", [Order.INTERLEAVED, Order.SEQUENTIAL])
def test_times_of_a_case_have_its_effect_as_their_ratio(order):
    rng = np.random.default_rng(2)
    planted = versions(rng.normal(0.1, 0.05, (5, 6)), order=order)
    planted.rounds.loc[3, "base_s"] = math.nan
    cases = measure_effects(planted).cases
    assert np.log(cases["head_gmean_s"] / cases["base_gmean_s"]).to_numpy() == pytest.approx(cases["effect"].to_numpy())
    assert cases["base_gmean_s"].to_numpy() == pytest.approx(np.full(5, 100e-6))


def test_parts_never_mix_providers_settings_or_passes():
    planted = versions(
        [[0.1] * 2] * 6,
        provider=["a", "a", "a", "a", "b", "b"], pass_=["fwd", "bwd", "fwd", "bwd", "fwd", "step"],
        cache=["cold", "cold", "warm", "warm", "cold", "cold"], layer="one",
    )  # fmt: skip
    result = result_of(planted)
    found = [(part.group[0], part.group[3], part.pass_, len(part.cases)) for part in parts(result)]
    assert found == [
        ("a", "cold", "fwd", 1), ("a", "cold", "bwd", 1), ("a", "cold", "fwd+bwd", 1),
        ("a", "warm", "fwd", 1), ("a", "warm", "bwd", 1), ("a", "warm", "fwd+bwd", 1),
        ("b", "cold", "fwd", 1), ("b", "cold", "step", 1),
    ]  # fmt: skip
    assert [part.pass_ for part in leading(result)] == ["fwd+bwd", "fwd+bwd", "step"]
    assert [list(passes) for passes in by_problem(result).values()] == [
        ["fwd", "bwd", "fwd+bwd"], ["fwd", "bwd", "fwd+bwd"], ["fwd", "step"],
    ]  # fmt: skip
    planted.cases.loc[planted.cases["provider"] == "b", ["head_verdict", "head_time_s"]] = "oom", math.nan
    assert {part.group[0] for part in parts(result_of(planted))} == {"a"}, "b has no compared case left"
    planted.cases["head_verdict"] = "oom"
    assert parts(result_of(planted)) == ()


def test_models_stand_apart_in_each_of_their_passes():
    quiet = np.tile([0.001, -0.001], 4)
    changes = [0.05, 0.06, 0.0, 0.0, -0.05]
    planted = versions(
        [change + quiet for change in changes],
        model=["one", "one", "two", "one", "one"], pass_=["fwd", "fwd", "fwd", "bwd", "bwd"],
    )  # fmt: skip
    forward, backward = parts(result_of(planted))
    one, two = forward.of_model("one"), forward.of_model("two")
    assert one.change.ratio == pytest.approx(math.exp(0.055))
    assert (one.words()[Word.SLOWER], one.words()[Word.SAME]) == (2, 0)
    assert (two.words()[Word.SLOWER], two.words()[Word.SAME]) == (0, 1)
    assert (backward.of_model("one").words()[Word.FASTER], backward.of_model("two").change) == (1, None)


def test_numbers_of_the_training_set_are_those_of_its_source():
    known = shapeset.test_ids("fp8_blockwise_train84")
    assert sorted(known.values()) == list(range(1, 85))
    published = {
        ("Qwen2.5-72B", 8192, 29568, 8192): 64, ("Llama-3.1-8B", 4096, 4096, 32768): 34,
        ("Llama-3.1-405B", 106496, 16384, 32768): 47, ("Llama-2-7B", 4096, 4096, 8192): 6,
    }  # fmt: skip
    assert {key: known[key] for key in published} == published
    assert [name for name in shapeset.names() if shapeset.test_ids(name)] == ["fp8_blockwise_train84"]


def test_cases_are_numbered_by_their_set_only_where_it_knows_all_of_them():
    def numbered(count, **columns):
        cases = versions([[0.0] * 2] * count, **columns).cases
        found = number_cases(cases)
        return found.title, [found[row] for row in cases.to_dict("records")]

    sizes = {"model": ["Qwen2.5-72B", "Mistral-7B"], "N": [8192, 4096], "K": [29568, 4096], "M": [8192, 4096]}
    assert numbered(2, **sizes) == ("TestID", [64, 74])
    assert numbered(2, **sizes | {"M": [8192, 4097]}) == ("case no.", [1, 2])
    mistral = {"model": "Mistral-7B", "N": 4096, "K": 4096, "M": 4096}
    assert numbered(2, **mistral)[0] == "case no.", "of two layers of one size the set has one"
    assert numbered(4, layer="one", pass_=["fwd", "bwd"] * 2, provider=["a", "a", "b", "b"])[1] == [1] * 4
    assert number_cases(versions([[0.0] * 2]).cases.iloc[:0]).title == "case no."


COMMITS = {"commits": {"base": "a" * 40, "head": "b" * 40}}


def test_identity_is_read_as_far_as_it_was_noted():
    bare = identity_of(ComparisonState.glance(COMMITS))
    assert (bare.base.label, bare.head.name, bare.commits, bare.files) == ("aaaaaaa", "", None, None)
    identity = {
        "base": {"name": "main", "commit": "a" * 40, "subject": "one"},
        "head": {"name": "fast", "commit": "b" * 40, "subject": "two"},
        "commits": 2,
        "files": [["a.py", 3, 1], ["b.png", None, None]],
    }
    told = identity_of(ComparisonState.glance(COMMITS | {"identity": identity}))
    assert (told.head.label, told.added, told.removed, told.commits) == ("bbbbbbb two", 3, 1, 2)
    assert identity_of(ComparisonState(commits={"base": "a"})) is None
    assert identity_of(ComparisonState()) is None


@pytest.mark.parametrize("files", ["a.py", 1, [1], ["abc"], [["a.py", 1]], [["a.py", "1", 2]]])
def test_what_is_damaged_of_an_identity_is_unknown(files):
    identity = {"base": ",", "head": [1], "commits": "2", "files": files}
    told = identity_of(ComparisonState.glance(COMMITS | {"identity": identity}))
    assert (told.base.label, told.head.name, told.commits, told.files) == ("aaaaaaa", "", None, None)


def test_cost_counts_each_search_once():
    rows = [
        {"provider": "p", "pass": "fwd", "cell_id": cell, "search": search, "candidates": 4, "search_s": 1.5}
        for cell in ("x", "y") for search in (0, 1) for _ in range(4)
    ]  # fmt: skip
    found = costs({"base": pd.DataFrame(rows), "head": pd.DataFrame(rows).assign(search_s=math.nan)})
    base, head = (found["p", "fwd"][side] for side in ("base", "head"))
    assert base == (4, 4, 6.0)
    assert math.isnan(head.seconds)


def test_what_has_several_binaries_over_its_rounds_is_unknown():
    planted = versions([[0.0] * 2] * 4)
    planted.cases["base_artifact"] = ["x", "x", "mixed", ""]
    planted.cases["head_artifact"] = ["x", "y", "x", "x"]
    (found,) = binaries(measure_effects(planted))
    names = ("cases", "same", "other", "unknown", "base", "head")
    assert [found[name] for name in names] == [4, 1, 1, 2, 1, 2]
    assert binaries(measure_effects(versions([[0.0] * 2]))) == []


def test_settings_are_counted_where_they_differ():
    planted = versions([[0.0] * 2] * 3)
    planted.cases["base_config"] = [json.dumps({"s": 2, "w": {"n": 10}})] * 3
    planted.cases["head_config"] = [json.dumps({"s": 2, "w": {"n": number}}) for number in (9, 10, 10)]
    found = [[*one.values()][2:] for one in settings(measure_effects(planted))]
    assert found == [["w.n=9", 3, 0, 1], ["w.n=10", 3, 3, 2]]
    assert list(settings_of("not json")) == []
    assert list(settings_of("7")) == []

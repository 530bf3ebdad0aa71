"""Shipped suites are what they say; a suite file with a mistake is refused with its place and the way out."""

import re
from pathlib import Path

import pytest
from rooflens.analysis.frames.load import REFERENCE
from rooflens.kernels import registry
from rooflens.kernels.provider import Role
from rooflens.shapes import shapeset, suite
from rooflens.shapes.errors import UsageError
from rooflens.shapes.suite import Cache

GOOD = """
name = "mine"
shapes = "llm4bit_40"
schemes = ["nf4-g64"]
dtypes = ["bf16"]
caches = ["cold"]
providers = ["dequant_blas"]
baseline = "dequant_blas"
[axes]
M = [1, 2]
"""


def test_llm4bit_is_the_40_shape_sweep():
    full = suite.load("llm4bit")
    assert len(full.shapes) == 40
    assert full.axes["M"] == tuple(2**e for e in range(12))
    assert {dtype.value for dtype in full.dtypes} == {"bf16", "fp16", "fp32"}
    assert set(full.caches) == set(Cache)


@pytest.mark.parametrize("name", suite.names())
def test_shipped_suites_parse_and_name_their_baseline(name):
    loaded = suite.load(name)
    assert loaded.name == name
    assert loaded.description
    assert loaded.baseline in loaded.providers
    assert set(loaded.challengers) <= set(loaded.providers)
    assert loaded.challengers
    assert loaded.baseline not in loaded.challengers
    roles = {provider.role for provider in registry.load(loaded.challengers).values()}
    assert REFERENCE not in roles, "what heads a report could be dispatched to"
    assert REFERENCE == Role.REFERENCE


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("M = [1, 2]", "M = [0]"), "M=0 is not a size"),
        (("M = [1, 2]", "M = []"), "axis M needs a list"),
        (("M = [1, 2]", "L = [1]"), "'L'"),
        (('dtypes = ["bf16"]', 'dtypes = ["bf17"]'), "unknown dtype 'bf17'"),
        (('caches = ["cold"]', 'caches = ["tepid"]'), "unknown cache state 'tepid'"),
        (('schemes = ["nf4-g64"]', 'schemes = ["nf4-g63"]'), "block size 63"),
        (('schemes = ["nf4-g64"]', "schemes = []"), "schemes is empty"),
        (('["nf4-g64"]\ndtypes = ["bf16"]', '["a16w8-128x128"]\ndtypes = ["bf16", "fp32"]'), "dtype bf16 or fp16"),
        (('shapes = "llm4bit_40"', 'shapes = "llm4bit_41"'), "did you mean llm4bit_40"),
        (('name = "mine"', 'nmae = "mine"'), "did you mean name"),
        (('name = "mine"', "name = 3"), "must be a string"),
        (('baseline = "dequant_blas"', ""), "'baseline' is missing"),
        (("[axes]", "[protocol]\nturns = 1\n[axes]"), "'turns'"),
        (("[axes]", "[protocol]\nbudget_s = inf\n[axes]"), "protocol: budget_s 'Infinity'"),
        (("[axes]", "[protocol]\ntarget_ci = nan\n[axes]"), "protocol: target_ci 'NaN'"),
        (("[axes]", "[protocol]\ntimeout_s = 1\n[axes]"), "timeout_s=1 must be more than budget_s=1"),
        (('name = "mine"', 'name = "../mine"'), "name = '../mine'"),
        (("[axes]", 'pick = ["nobody"]\n[axes]'), "'nobody'"),
        (("[axes]", "[axes"), "not valid TOML"),
        (("[axes]", 'passes = ["backward"]\n[axes]'), "'backward'"),
        (("[axes]", 'devices = ["sm90"]\n[axes]'), "give --on to rooflens run"),
    ],
)
def test_mistakes_are_named_with_their_place(change, message):
    with pytest.raises(UsageError) as error:
        suite.parse(GOOD.replace(*change), "mine.toml")
    assert message in str(error.value)
    assert "mine.toml" in str(error.value)
    assert "\n" not in str(error.value)


def test_override_refuses_an_axis_that_the_suite_does_not_have():
    with pytest.raises(UsageError, match="axis of suite mine"):
        suite.parse(GOOD, "mine.toml").override(axes={"Q": (1,)})


def test_a_shape_set_of_ones_own_beside_the_suite(tmp_path):
    (tmp_path / "mine.csv").write_text("model,layer,N,K\ntiny,q,32,64\n", encoding="utf-8-sig")
    (tmp_path / "mine.toml").write_text(GOOD.replace("llm4bit_40", "mine.csv"), encoding="utf-8-sig")
    (shape,) = suite.load(str(tmp_path / "mine.toml")).shapes
    assert (shape.label, shape.N, shape.K) == ("tiny q", 32, 64)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("model,layer,N\nm,l,1\n", "line 1: column 'K' is missing"),
        ("model,layer,N,K,colour\nm,l,1,1,red\n", "unknown column 'colour'"),
        ("model,layer,N,K\nm,l,1,0\n", "line 2, column K: '0'"),
        (f"model,layer,N,K\nm,l,1,{'9' * 5000}\n", "line 2, column K: '9"),
        ("model,layer,N,K\nm,l,1\n", "line 2: 3 fields instead of 4"),
        ("model,layer,N,K\n", "no shapes"),
        ("model,layer,N,K\nm,l,1,1\nm,l,2,2\n", "appears twice"),
    ],
)
def test_bad_shape_sets(text, message):
    with pytest.raises(UsageError, match=message):
        shapeset.parse(text, "mine.csv")


def test_unreadable_files(tmp_path):
    with pytest.raises(UsageError, match="cannot read suite"):
        suite.load(str(tmp_path / "absent.toml"))
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match=r"binary\.toml line 1: not a text file"):
        suite.load(str(tmp_path / "binary.toml"))


def test_without_an_axis_each_shape_runs_the_sizes_of_its_set(tmp_path):
    (tmp_path / "mine.csv").write_text("model,layer,N,K,E,top_k,M_list\nm,up,64,128,8,2,16 1 4\nm,down,128,64,8,2,\n")
    text = (
        'name = "mine"\nshapes = "mine.csv"\nop = "moe_gemm"\nschemes = ["mxfp8-moe-rceil"]\ndtypes = ["bf16"]\n'
        'caches = ["cold"]\nproviders = ["a"]\nbaseline = "a"\n'
    )
    mine = suite.parse(text, "mine.toml", tmp_path)
    up, down = mine.shapes
    assert (up.E, up.top_k, mine.sizes(up)) == (8, 2, (1, 4, 16))
    with pytest.raises(UsageError, match="m down has no M_list"):
        mine.sizes(down)
    assert mine.override(axes={"M": (2,)}).sizes(down) == (2,)


def test_the_page_of_suites_lists_the_keys_that_a_suite_may_have():
    page = (Path(__file__).parents[2] / "docs" / "suites.md").read_text("utf-8")
    table = page.split("## Keys of a suite")[1].split("## Shape sets")[0]
    with pytest.raises(UsageError, match="unknown") as refused:
        suite.parse(f"unknown = 1{GOOD}", "a suite")
    assert {*re.findall(r"^\| `\[?(\w+)", table, re.MULTILINE)} == {*str(refused.value).split("known: ")[1].split(", ")}

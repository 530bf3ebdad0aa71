"""The tuned table: exactly this cell on exactly this kind of device, a vote among searches, and faults by line."""

import csv
import dataclasses
import io
import json

import pytest
from rooflens.shapes import tuned
from rooflens.shapes.aiter import HEADER, tuned_csv
from rooflens.shapes.device import Device
from rooflens.shapes.errors import UsageError
from rooflens.shapes.problem import Problem
from rooflens.shapes.run_folder.columns import TUNING
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme
from rooflens.shapes.suite import Cache

H200 = Device("cuda", 0, "NVIDIA H200", "NVIDIA", "sm90", 132, 60 << 20, 60 << 20, 141 << 30)
PROBLEM = Problem(1, 4096, 4096)
NF4 = parse_scheme("nf4-g64", DType.BF16)
FAST, SLOW = {"BLOCK_N": 8, "SPLIT_K": 4}, {"BLOCK_N": 16, "SPLIT_K": 1}


def row(**columns):
    """One passed candidate on an H200."""
    fixed = {
        "cell_id": "c0", "search": 0, "candidate": 0, "arch": "sm90", "compute_units": 132, "op": "gemm", "pass": "fwd",
        "B": 1, "E": 1, "top_k": 1, "M": 1, "N": 4096, "K": 4096, "dtype": "bf16", "scheme": "nf4-g64",
        "provider": "simt_4bit", "cache": "cold", "config": FAST, "verdict": "passed", "time_s": 4e-6,
        "winner": True, "near_tie": False,
        "candidates": 1, "source": "s0",
    }  # fmt: skip
    return fixed | columns


def text(*rows, names=TUNING.names):
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(names)
    for one in rows:
        fields = {**one, "config": json.dumps(one["config"]) if isinstance(one["config"], dict) else one["config"]}
        fields |= {name: str(one[name]).lower() for name in ("winner", "near_tie")}
        writer.writerow([fields.get(name, "") for name in names])
    return buffer.getvalue()


@pytest.fixture
def write(tmp_path):
    def call(*rows, content=None, **options):
        path = tmp_path / "tuning.csv"
        path.write_text(text(*rows, **options) if content is None else content)
        return path

    return call


def lookup(table, device=H200, problem=PROBLEM, scheme=NF4, provider="simt_4bit", cache=Cache.COLD):
    return table.lookup(device, problem, scheme, provider, cache)


def test_the_winner_of_exactly_this_cell_is_found(write):
    table = tuned.load(write(row(candidate=0, config=SLOW, winner=False, time_s=5e-6), row(candidate=1)))
    assert lookup(table) == FAST


@pytest.mark.parametrize(
    "other",
    [
        {"problem": Problem(2, 4096, 4096)},
        {"problem": Problem(1, 4096, 2048)},
        {"scheme": parse_scheme("nf4-g128", DType.BF16)},
        {"scheme": parse_scheme("nf4-g64", DType.FP16)},
        {"provider": "mma_4bit"},
        {"cache": Cache.WARM},
        {"device": dataclasses.replace(H200, arch="sm80")},
        {"device": dataclasses.replace(H200, compute_units=114)},
    ],
    ids=lambda other: next(iter(other)),
)
def test_nothing_is_interpolated(write, other):
    assert lookup(tuned.load(write(row())), **other) is None


def test_a_folder_is_read_through_its_table(write):
    assert lookup(tuned.load(write(row()).parent)) == FAST


def searches(*winners, times=None):
    """Rows of one search per winner, in which FAST and SLOW were tried."""
    times = times or [(4e-6, 5e-6)] * len(winners)
    return [
        row(search=number, candidate=at, config=config, time_s=time_s, winner=config == chosen)
        for number, (chosen, both) in enumerate(zip(winners, times, strict=True))
        for at, (config, time_s) in enumerate(zip((FAST, SLOW), both, strict=True))
    ]


def test_the_winner_of_most_searches_is_taken_even_if_another_was_once_faster(write):
    rows = searches(SLOW, FAST, SLOW, times=[(5e-6, 4.9e-6), (1e-6, 4.9e-6), (5e-6, 4.9e-6)])
    table = tuned.load(write(*rows))
    assert lookup(table) == SLOW
    (choice,) = table.choices.values()
    assert (choice.agreed, choice.searches, choice.candidate) == (2, 3, 1)


def test_a_draw_goes_to_the_least_mean_time_over_all_searches(write):
    rows = searches(FAST, SLOW, times=[(4e-6, 9e-6), (4.2e-6, 4.1e-6)])
    table = tuned.load(write(*rows))
    assert lookup(table) == FAST
    (choice,) = table.choices.values()
    assert choice.time_s == pytest.approx(4.1e-6)


def test_searches_of_older_source_do_not_vote(write):
    rows = [one | {"source": "old"} for one in searches(SLOW, SLOW)]
    assert lookup(tuned.load(write(*rows, *searches(FAST)))) == FAST


def test_equal_configurations_in_another_order_of_keys_are_one(write):
    rows = [row(), row(search=1, config='{"SPLIT_K":4,  "BLOCK_N":8}')]
    (choice,) = tuned.load(write(*rows)).choices.values()
    assert choice.agreed == 2


def test_failed_candidates_and_a_torn_last_line_are_passed_over(write):
    failed = row(candidate=1, verdict="crashed", time_s="", winner=False, config={}, reason="a\x0cb \u2028 c")
    assert lookup(tuned.load(write(content=text(row(), failed) + "c0,0,2,sm9"))) == FAST


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (text(row(M="one")), "line 2, column M: 'one' is not a whole number"),
        (text(row(), row(M="-1")), "line 3, column M"),
        (text(row(time_s="fast")), "line 2, column time_s: 'fast' is not a positive number"),
        (text(row(time_s="inf")), "line 2, column time_s"),
        (text(row(time_s="0")), "line 2, column time_s"),
        (text(row(time_s="")), "line 2, column time_s: empty"),
        (text(row(winner="maybe")), "line 2, column winner"),
        (text(row(config="[1]")), "line 2, column config"),
        (text(row(config="{")), "line 2, column config"),
        (text(row(error_ratio="2")), "line 2, column error_ratio"),
        (text(row()) + "c0,0\n", "line 3"),
        (text(row()) + 'c0,"0\n', "line 3"),
        (text(row(), names=[name for name in TUNING.names if name != "config"]), "line 1: column 'config' is missing"),
        (text(row(winner=False)), "no search in it has a winner"),
        (text(), "no search in it has a winner"),
        ("", "line 1"),
    ],
)
def test_what_is_wrong_is_named_by_line_and_column(write, content, words):
    with pytest.raises(UsageError, match=r"tuning\.csv") as raised:
        tuned.load(write(content=content))
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_there_says_how_to_make_one(tmp_path):
    with pytest.raises(UsageError, match="rooflens tune"):
        tuned.load(tmp_path)
    (tmp_path / "tuning.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not a text file"):
        tuned.load(tmp_path)


def exported(table):
    return list(csv.DictReader(io.StringIO(tuned_csv(table.choices))))


def test_the_export_has_one_row_per_problem_with_the_fastest_provider(write):
    rows = [
        row(time_s=8e-6, provider="gemv_4bit", config={}),
        row(time_s=4e-6, error_ratio=0.0),
        row(M=2, provider="mma_4bit", candidate=3, time_s=5e-6, config={"BLOCK_N": 32}),
        row(scheme="fp4-g128", time_s=6e-6),
    ]
    content = tuned_csv(tuned.load(write(*rows)).choices)
    assert content.splitlines()[0] == (
        "gfx,cu_num,M,N,K,dtype,q_dtype_w,libtype,kernelId,splitK,us,kernelName,tflops,bw,errRatio"
    )
    first, second, third = csv.DictReader(io.StringIO(content))
    # 2 * 4096 * 4096 FLOP in 4 us; 4096 * 4096 * (0.5 + 4 / 64) + 2 * 2 * 4096 bytes in 4 us.
    assert first == {
        "gfx": "sm90", "cu_num": "132", "M": "1", "N": "4096", "K": "4096", "dtype": "bf16", "q_dtype_w": "nf4-g64",
        "libtype": "simt_4bit", "kernelId": "0", "splitK": "4", "us": "4",
        "kernelName": "simt_4bit BLOCK_N=8 SPLIT_K=4", "tflops": "8.38861", "bw": "2363.39", "errRatio": "0",
    }  # fmt: skip
    assert (second["M"], second["libtype"], second["kernelId"]) == ("2", "mma_4bit", "3")
    assert (second["splitK"], second["errRatio"]) == ("", ""), "what is not known is left empty"
    assert third["q_dtype_w"] == "fp4-g128"
    assert tuple(first) == HEADER


def test_the_export_refuses_what_its_columns_cannot_tell_apart(write):
    assert [one["dtype"] for one in exported(tuned.load(write(row(), row(dtype="fp16"))))] == ["bf16", "fp16"]
    with pytest.raises(UsageError, match="choose one with --cache"):
        exported(tuned.load(write(row(), row(cache="warm"))))


def test_a_held_configuration_has_no_time(write):
    path = write(row(verdict="held", time_s="", config=SLOW))
    choice = next(iter(tuned.load(path).choices.values()))
    assert choice.config == SLOW
    assert choice.time_s != choice.time_s  # unknown
    with pytest.raises(UsageError, match="a winner has a time"):
        tuned.load(write(row(verdict="passed", time_s="", config=SLOW)))

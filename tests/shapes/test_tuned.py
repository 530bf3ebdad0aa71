"""The tuned table: exactly this cell on exactly this kind of device, a vote among searches, and faults by line."""

import csv
import dataclasses
import io
from functools import partial

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

from ..analysis.planted_searches import candidate, searched
from ..analysis.run_files import drop_columns, set_field
from ..analysis.synthetic import write_table

H200 = Device("cuda", 0, "NVIDIA H200", "NVIDIA", "sm90", 132, 60 << 20, 60 << 20, 141 << 30)
PROBLEM = Problem(1, 4096, 4096)
NF4 = parse_scheme("nf4-g64", DType.BF16)
FAST = {"BLOCK_N": 8, "SPLIT_K": 4}


row = partial(candidate, FAST, provider="simt_4bit", time_s=4e-6, winner=True)
"""One passed candidate on an H200."""


@pytest.fixture
def write(tmp_path):
    def call(*rows):
        write_table(tmp_path, TUNING, rows)
        return tmp_path / TUNING.file

    return call


def lookup(table, device=H200, problem=PROBLEM, scheme=NF4, provider="simt_4bit", cache=Cache.COLD):
    return table.lookup(device, problem, scheme, provider, cache)


def test_the_winner_of_exactly_this_cell_is_found(write):
    loser = candidate({"BLOCK_N": 16}, provider="simt_4bit", time_s=5e-6)
    assert lookup(tuned.load(write(loser, row(candidate=1)))) == FAST


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


def vote(write, *searches, **columns):
    """What searches for one cell agree on: (their winner, seconds of `a`, seconds of `b`) of each."""
    rows = [
        one for at, (winner, a, b) in enumerate(searches) for one in searched(at, {"a": a, "b": b}, winner, **columns)
    ]
    (choice,) = tuned.load(write(*rows)).choices.values()
    return choice


def test_the_winner_of_most_searches_is_taken_even_if_another_was_once_faster(write):
    found = vote(write, ("b", 5e-6, 4.9e-6), ("a", 1e-6, 4.9e-6), ("b", 5e-6, 4.9e-6))
    assert (found.config, found.agreed, found.searches, found.candidate) == ({"tile": "b"}, 2, 3, 1)


def test_a_draw_goes_to_the_least_mean_time_over_all_searches(write):
    found = vote(write, ("a", 4e-6, 9e-6), ("b", 4.2e-6, 4.1e-6))
    assert (found.config, found.time_s) == ({"tile": "a"}, pytest.approx(4.1e-6))


def test_searches_of_older_source_do_not_vote(write):
    times = {"a": 1e-6, "b": 2e-6}
    older = [one for number in range(2) for one in searched(number, times, "b", source="old")]
    (choice,) = tuned.load(write(*older, *searched(0, times, "a"))).choices.values()
    assert choice.config == {"tile": "a"}


def test_equal_configurations_in_another_order_of_keys_are_one(write):
    path = write(row(), row(search=1))
    set_field(path, 3, "config", '{"SPLIT_K":4,  "BLOCK_N":8}')
    (choice,) = tuned.load(path).choices.values()
    assert choice.agreed == 2


def test_failed_candidates_and_a_torn_last_line_are_passed_over(write):
    path = write(row(), row(candidate=1, verdict="crashed", time_s=None, winner=False, reason="a\x0cb \u2028 c"))
    path.write_text(path.read_text() + "c0,0,2,sm9")
    assert lookup(tuned.load(path)) == FAST


@pytest.mark.parametrize(
    ("column", "text", "words"),
    [
        ("M", "one", "'one' is not a whole number"),
        ("M", "-1", ""),
        ("time_s", "fast", "'fast' is not a positive number"),
        ("time_s", "inf", ""),
        ("time_s", "0", ""),
        ("time_s", "", "empty"),
        ("winner", "maybe", ""),
        ("config", "[1]", ""),
        ("config", "{", ""),
        ("error_ratio", "2", ""),
    ],
)
def test_a_wrong_field_is_named_by_line_and_column(write, column, text, words):
    path = write(row(), row(search=1))
    set_field(path, 3, column, text)
    with pytest.raises(UsageError, match=rf"tuning\.csv line 3, column {column}.*{words}") as raised:
        tuned.load(path)
    assert "\n" not in str(raised.value)


def test_what_is_no_tuned_table(tmp_path, write):
    with pytest.raises(UsageError, match="rooflens tune"):
        tuned.load(tmp_path)
    for rows in ([], [row(winner=False)]):
        with pytest.raises(UsageError, match=r"tuning\.csv: no search in it has a winner"):
            tuned.load(write(*rows))
    path = write(row())
    path.write_text(path.read_text() + "c0,0\n")
    with pytest.raises(UsageError, match=r"tuning\.csv line 3"):
        tuned.load(path)
    drop_columns(write(row()), "config")
    with pytest.raises(UsageError, match=r"tuning\.csv line 1: column 'config' is missing"):
        tuned.load(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not a text file"):
        tuned.load(path)


def exported(table):
    return list(csv.DictReader(io.StringIO(tuned_csv(table.choices))))


def test_the_export_has_one_row_per_problem_with_the_fastest_provider(write):
    rows = [
        candidate({}, time_s=8e-6, winner=True, provider="gemv_4bit"),
        row(time_s=4e-6, error_ratio=0.0),
        candidate({"BLOCK_N": 32}, M=2, provider="mma_4bit", candidate=3, time_s=5e-6, winner=True),
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
    choice = next(iter(tuned.load(write(row(verdict="held", time_s=None))).choices.values()))
    assert choice.config == FAST
    assert choice.time_s != choice.time_s  # unknown
    with pytest.raises(UsageError, match="a winner has a time"):
        tuned.load(write(row(time_s=None)))

"""Summaries, claims and differences of planted tables of compiles."""

import pytest
from rooflens.analysis.comparison.machine_code import compare, summarize_changes
from rooflens.plugins.isa.claims import check_claim, select, summarize
from rooflens.shapes.errors import UsageError

from .planted_isa import frame

FAILED = {"verdict": "crashed", "reason": "exit status -6"} | dict.fromkeys(
    ("vgprs", "agprs", "scratch_bytes", "occupancy", "matrix", "store_byte", "store_short", "store_dwordx4", "code")
)
DECLINED = FAILED | {"verdict": "unsupported", "reason": "no FP8", "config": None, "kernel": ""}


def test_a_summary_counts_binaries_and_what_is_none():
    found = summarize(
        frame(
            {"store_short": 64},
            {"store_dwordx4": 8, "vgprs": 128, "occupancy": 4.0, "scratch_bytes": 16},
            FAILED,
            DECLINED | {"problems": 7},
            {"provider": "q", "agprs": None},
        )
    )
    p, declined, q = found.to_dict("records")
    assert (p["binaries"], p["failed"], p["unsupported"]) == (2, 1, 0)
    assert (declined["kernel"], declined["binaries"], declined["failed"], declined["unsupported"]) == ("", 0, 0, 7)
    assert (p["with_short_stores"], p["with_dwordx4_stores"], p["with_spills"], p["with_matrix"]) == (1, 1, 1, 2)
    assert (p["vgprs_low"], p["vgprs_high"], p["occupancy_low"], p["occupancy_high"]) == (64, 128, 4.0, 8.0)
    assert q["provider"] == "q"
    assert q["agprs_low"] is None or q["agprs_low"] != q["agprs_low"]


def test_a_claim_is_about_binaries_and_the_unknown_does_not_hold():
    rows = frame({"store_short": 64}, {}, {"agprs": None}, FAILED, DECLINED)
    (short,) = check_claim(rows, "store_short == 0").to_dict("records")
    assert (short["holds"], short["binaries"]) == (2, 3)
    (agprs,) = check_claim(rows, "agprs == 0").to_dict("records")
    assert (agprs["holds"], agprs["binaries"]) == (2, 3)
    assert check_claim(frame(DECLINED), "store_short == 0").empty


def test_equal_machine_code_of_two_configurations_is_one_binary():
    rows = frame({"config": {"T": 1}, "code": "a"}, {"config": {"T": 2}, "code": "a"}, {"kernel": "l", "code": "a"})
    assert [(row["kernel"], row["binaries"], row["failed"]) for row in summarize(rows).to_dict("records")] == [
        ("k", 1, 0),
        ("l", 1, 0),
    ]


@pytest.mark.parametrize("claim", ["store_short", "stores == 0", "store_short ==", "vgprs + 1", "@x == 1"])
def test_what_is_no_condition_is_refused(claim):
    with pytest.raises(UsageError, match="--claim"):
        check_claim(frame({}), claim)
    with pytest.raises(UsageError, match="--filter"):
        select(frame({}), claim)


def test_equal_rows_changed_rows_and_rows_of_one_side():
    base = frame({"M": 1}, {"M": 2, "store_short": 64}, {"M": 3}, {"M": 4})
    head = frame({"M": 1}, {"M": 2, "store_dwordx4": 8, "code": "b"}, {"M": 3, "code": "b"}, {"M": 5})
    found = compare(base, head)
    assert (found.common, found.identical, found.recoded) == (3, 1, 1)
    changes = [(row["M"], row["column"], row["base"], row["head"]) for row in found.changes.to_dict("records")]
    assert changes == [(2, "store_short", 64, 0), (2, "store_dwordx4", 0, 8)]
    assert list(found.added["M"]) == [5]
    assert list(found.removed["M"]) == [4]


def test_two_kernels_of_one_name_are_told_apart_by_their_order():
    base = frame({"vgprs": 10}, {"vgprs": 20})
    head = frame({"vgprs": 10}, {"vgprs": 21, "code": "d"})
    (change,) = compare(base, head).changes.to_dict("records")
    assert (change["base"], change["head"]) == (20, 21)


def test_a_kernel_that_no_longer_compiles_is_a_change_of_its_verdict():
    (verdict, *_) = compare(frame({}), frame(FAILED)).changes.to_dict("records")
    assert (verdict["column"], verdict["base"], verdict["head"]) == ("verdict", "passed", "crashed")


def test_changes_are_summarized_as_ranges_in_the_order_of_the_columns():
    base = frame(*({"M": m, "store_short": 64 * m, "vgprs": 64, "occupancy_limit": "slots"} for m in (1, 2, 3)))
    head = frame(
        {"M": 1, "vgprs": 65, "occupancy_limit": "shared"},
        {"M": 2, "vgprs": 70, "occupancy_limit": "registers"},
        {"M": 3, "vgprs": 64, "occupancy_limit": "slots"},
    )
    told = summarize_changes(compare(base, head))
    assert [tuple(row)[6:] for row in told.itertuples(index=False)] == [
        ("vgprs", 2, "64", "65 to 70"),
        ("occupancy_limit", 2, "slots", "registers, shared"),
        ("store_short", 3, "64 to 192", "0"),
    ]


def test_another_compiler_is_told():
    assert compare(frame({}), frame({"triton": "3.10.0"})).compilers == ("3.9.0", "3.10.0")
    assert summarize_changes(compare(frame({}), frame({"triton": "3.10.0"}))).empty

"""What is told beside the winners: disturbed searches, failed candidates once each, and why nothing is compared."""

import pytest
from rooflens.analysis.frames.tables import parse_table
from rooflens.analysis.tuning.searches import disturbed, failures, hits, whole_searches, why_no_drift
from rooflens.shapes.run_folder.columns import TUNING

from ..planted_searches import candidate as one


def test_hits_count_what_searches_chose_of_what_varies(frame):
    plain, narrow = (
        {"K_MAJOR": False, "fwd": {"BM": 256}, "dgrad": {"BM": 256} | more} for more in ({}, {"nonkdim": 16})
    )
    rows = []
    for search, winner in enumerate((narrow, plain, narrow)):
        for number, config in enumerate((plain, narrow)):
            rows.append(one(config, search, candidate=number, candidates=2, time_s=1e-6, winner=config == winner))
    found = hits(frame(*rows))
    assert found.to_dict("records") == [
        {"provider": "tri", "option": "dgrad.nonkdim", "value": "16", "hits": 2, "searches": 3},
        {"provider": "tri", "option": "dgrad.nonkdim", "value": "", "hits": 1, "searches": 3},
    ]


def test_a_search_is_disturbed_when_one_of_its_candidates_is_and_the_worst_is_told(frame):
    table = frame(
        one({"t": 1}, candidates=2, disturbed="other processes used 12% of the cores"),
        one({"t": 2}, candidate=1, candidates=2, disturbed="other processes used 50% of the cores"),
        one({"t": 1}, search=1, disturbed="other processes used 30% of the cores"),
        one({"t": 1}, search=2),
        one({"t": 1}, cell="c1", M=2),
    )
    assert [*disturbed(table).values()] == [2, 4, "other processes used 50% of the cores"]
    assert whole_searches(table) == 4
    assert whole_searches(frame(one({"t": 1}, candidates=2))) is None, "a row is missing"
    assert whole_searches(frame()) == 0
    quiet = frame(one({"t": 1}))
    assert [*disturbed(quiet).values()] == [0, 1, ""]
    older = quiet.drop(columns="disturbed").to_csv(index=False).replace("True", "true").replace("False", "false")
    assert disturbed(parse_table(older.encode(), TUNING, "tuning.csv")) == disturbed(quiet)


def test_a_failure_is_one_row_whatever_numbers_its_reason_holds(frame):
    wrong = [
        one({"form": "wrong", "n": 1} if number % 2 else {"n": 1, "form": "wrong"}, search=number % 2,
            cell=f"c{number // 2}", M=number // 2 + 1, verdict="incorrect",
            reason=f"SNR {3.1 + number} dB is below the 40 dB of bf16; largest error {number}e-05")
        for number in range(4)
    ]  # fmt: skip
    right = [one({"form": "right"}, search=number) for number in range(2)]
    (row,) = failures(frame(*wrong, *right)).to_dict("records")
    assert (row["provider"], row["config"]) == ("tri", '{"form": "wrong", "n": 1}')
    assert (row["verdict"], row["failed"], row["searches"], row["others"]) == ("incorrect", 4, 4, 0)
    assert row["reason"] == "SNR 3.1 dB is below the 40 dB of bf16; largest error 0e-05"


def test_a_cell_that_failed_as_a_whole_counts_against_all_searches_of_its_provider(frame):
    table = frame(
        one({}, verdict="unsupported", reason="M > 1 only"),
        one({"t": 1}, cell="c1", M=2),
        one({"t": 1}, search=1, cell="c1", M=2),
        one({"t": 1}, cell="c2", M=2, provider="other"),
    )
    (row,) = failures(table).to_dict("records")
    assert (row["config"], row["failed"], row["searches"]) == ("{}", 1, 3)
    assert failures(frame(one({"t": 1}))).empty
    rows = [one({"t": 1}, search=number) for number in range(3)]  # fails now and then, and in two ways
    rows[1] |= {"verdict": "oom", "reason": "shared memory"}
    rows[2] |= {"verdict": "oom", "reason": "the device's memory"}
    (row,) = failures(frame(*rows)).to_dict("records")
    assert (row["failed"], row["searches"], row["reason"], row["others"]) == (2, 3, "shared memory", 1)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([one({"t": 1}, verdict="oom"), one({"t": 1}, search=1, verdict="oom")], "no cell has a winner"),
        ([one({"t": 1}, winner=True, time_s=1e-6), one({"t": 1}, search=1, verdict="oom")],
         "no cell has a winner in two searches"),
        ([one({"t": 1}, winner=True, time_s=1e-6)], "no cell was searched twice: --searches 2"),
        ([], "no cell has a winner"),
    ],
)  # fmt: skip
def test_why_no_two_searches_are_compared(frame, rows, words):
    assert why_no_drift(frame(*rows)).startswith(words)

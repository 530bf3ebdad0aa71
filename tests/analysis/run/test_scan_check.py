"""What a scan says of itself at its end: configurations that were held, and equal numbers of workgroups."""

import pandas as pd
import pytest
from rooflens.analysis.run.scan_check import held
from rooflens.shapes.run_folder.manifest import StoredScan

SCAN = StoredScan(axis="N", sizes=[64, 80, 96], of=[])


def cells(*rows):
    """Rows of cells.csv: (provider, N, tuning, workgroups), of two rounds each."""
    fixed = {"model": "m", "M": 1, "K": 96, "pass": "fwd", "dtype": "bf16", "scheme": "nf4-g64", "cache": "cold"}
    return pd.DataFrame(
        [
            fixed
            | {"cell_id": f"{name}-{n}", "verdict": "passed", "round": number, "provider": name, "N": n}
            | {"layer": f"down N={n}", "tuning": tuning, "workgroups": workgroups}
            for name, n, tuning, workgroups in rows
            for number in (0, 1)
        ]
    ).astype({"workgroups": "Int64"})


@pytest.mark.parametrize(
    ("workgroups", "words"),
    [
        ((4, 4, 4), "as many workgroups at every size"),
        ((4, 5, 6), "other workgroups at every size"),
        ((4, 4, 6), "at most 2 sizes have as many workgroups"),
        ((None, None, None), "workgroups unknown"),
    ],
)
def test_workgroups(workgroups, words):
    rows = [("a", n, "pinned", count) for n, count in zip((64, 80, 96), workgroups, strict=True)]
    assert list(held(cells(*rows), SCAN)) == [f"scan of N: a held its configuration; {words}"]


def test_what_could_not_be_held_is_named_with_its_sizes():
    rows = [("a", n, "pinned" if n < 70 else "default", None) for n in (64, 80, 96)]
    rows += [("b", n, "default", None) for n in (64, 80)]
    first, second = held(cells(*rows), SCAN)
    assert "a was not held at N=80,96, where it does not offer that configuration" in first
    assert "b chooses for itself at every size" in second
    many = [("a", 64, "pinned", None), *(("a", 100 + n, "default", None) for n in range(9))]
    assert "N=100,101,102,103,104,105 and 3 more" in next(held(cells(*many), SCAN))


def test_one_series_with_equal_workgroups_is_enough_to_say_so():
    rows = [("a", n, "pinned", count) for n, count in ((64, 4), (80, 4), (96, 6))]
    frame = cells(*rows)
    other = frame.assign(M=2, workgroups=frame["N"] // 16, cell_id="again " + frame["cell_id"])  # 4, 5, 6
    (told,) = held(pd.concat([frame, other]), SCAN)
    assert told.endswith("at most 2 sizes have as many workgroups")


@pytest.mark.parametrize("scan", [None, StoredScan(), StoredScan(axis="Q")])
def test_a_scan_that_run_json_does_not_tell_says_nothing(scan):
    frame = cells(("a", 64, "pinned", 4))
    assert list(held(frame, scan)) == list(held(frame.assign(verdict="oom"), SCAN)) == []

"""Telemetry and canary over time: where a reading lies, what thinning keeps, which stretches are slowed down."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.stability.timeline import (
    canary_over_time,
    pauses,
    slowdown_spans,
    telemetry_over_time,
    thinned,
    without_pauses,
)

from ..synthetic import write_run

CANARY = [
    {"at": "2026-01-02T03:01:00Z", "process": 0, "gemm_s": 1e-3, "copy_s": 2e-3},
    {"at": "2026-01-02T03:00:00Z", "process": 0, "gemm_s": 1.1e-3, "copy_s": 2e-3},
]
SHAPE = (("toy", "up", 512, 2048),)


def run(folder: Path, **options):
    usual = {"shapes": SHAPE, "Ms": (1,), "providers": ("dequant_blas",), "rounds": 2}
    return load_run(write_run(folder, **(usual | options)))


def test_batches_lie_within_their_round_after_the_first_reading(tmp_path):
    """Rounds begin at 3:00:05 and 3:01:05 and last 0.25 s; two batches lie at a quarter and three quarters of that."""
    readings = lambda cell, round_: [{"power_w": 100.0 + round_}, {"power_w": 200.0}]  # noqa: E731
    found = run(tmp_path / "run", telemetry=readings, canary=CANARY)
    rows = telemetry_over_time(found)
    assert rows["at_s"].tolist() == pytest.approx([5.0625, 5.1875, 65.0625, 65.1875])
    assert rows["power_w"].tolist() == [100, 200, 101, 200]
    assert canary_over_time(found)["at_s"].tolist() == [0, 60]
    assert canary_over_time(found)["gemm_s"].tolist() == [1.1e-3, 1e-3]


def test_nothing_stored_is_nothing_over_time(tmp_path):
    found = run(tmp_path / "run")
    assert telemetry_over_time(found).empty
    assert canary_over_time(found).empty


def test_thinning_keeps_the_extremes():
    values = np.full(10_000, 5.0)
    values[7777], values[123] = 9.0, 1.0
    rows = pd.DataFrame({"at_s": np.arange(10_000.0), "clock_hz": values})
    thin = thinned(rows, ["clock_hz"], 100)
    assert len(thin) == 100
    assert (thin["clock_hz"] == 5).all()
    assert thin["clock_hz_high"].max() == 9
    assert thin["clock_hz_low"].min() == 1
    assert np.flatnonzero(thin["clock_hz_high"] == 9).tolist() == [77]
    assert len(thinned(rows.head(7), ["clock_hz"], 100)) == 7


def test_slowdowns_are_stretches_by_word():
    rows = pd.DataFrame(
        {
            "at_s": [0.0, 1, 2, 3, 10, 11],
            "slowdown": ["power_cap", "power_cap thermal", "", "power_cap", "power_cap", ""],
        }
    )
    assert slowdown_spans(rows, 2.0) == [("power_cap", 0, 3), ("power_cap", 10, 10), ("thermal", 1, 1)]
    assert slowdown_spans(rows.assign(slowdown=""), 2.0) == []


def test_pauses_are_cut_to_their_longest():
    at = np.array([0.0, 10, 5000, 5010, 9000])
    cut = pauses(at, 100)
    assert cut == [(5000, 4890), (9000, 3890)]
    assert without_pauses(at, cut).tolist() == [0, 10, 110, 120, 220]
    assert without_pauses(at, []).tolist() == at.tolist()

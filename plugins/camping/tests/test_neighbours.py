"""Neighbours: a step of any kind never stands out, whatever lies beside it."""

import numpy as np
import pandas as pd
from hypothesis import given, settings
from hypothesis import strategies as st
from rooflens.plugins.camping.neighbour_test import around, neighbour_test
from rooflens.plugins.camping.quantization import predicted


def rows_of(sizes, times, expected, **columns):
    frame = pd.DataFrame({"size": sizes, "time_s": times, "expected_s": expected, "series": 0, "axis": "N"})
    names = {"provider": "p", "pass": "fwd", "dtype": "bf16", "scheme": "nf4-g64", "cache": "cold"}
    unknown = dict.fromkeys(("workgroups", "waves", "ln_idle", "ln_busy", "ln_padded"), np.nan)
    return frame.assign(e=np.log(frame["time_s"] / frame["expected_s"]), **names, **(unknown | columns))


def stood(rows):
    return neighbour_test(rows, rows["e"].to_numpy(), np.zeros(len(rows)), np.full(len(rows), np.nan))


@settings(max_examples=2 * settings().max_examples)
@given(st.lists(st.floats(0, 2), min_size=20, max_size=60), st.sampled_from([1, 2, 5, 20]))
def test_time_that_never_falls_never_stands_out(steps, flat):
    """A staircase of any heights and widths, over sizes whose expected time grows."""
    rise = np.where(np.arange(len(steps)) % flat == 0, steps, 0.0)
    sizes = 1024 + 64 * np.arange(len(steps))
    found = stood(rows_of(sizes, 1e-5 * np.exp(np.cumsum(rise)), sizes * 1e-9))
    assert not found.stands_out.any()
    assert not found.explained.any()


def test_a_size_above_both_sides_stands_out_alone():
    sizes = 1024 + 64 * np.arange(40)
    times = sizes * 2e-9 * np.exp(np.random.default_rng(0).normal(0, 0.01, 40))
    times[20] *= 1.3
    found = stood(rows_of(sizes, times, sizes * 1e-9))
    assert np.flatnonzero(found.stands_out).tolist() == [20]
    assert abs(np.exp(found.over[20]) - 1.3) < 0.12
    assert not found.tested[[0, -1]].any()


def test_ten_percent_and_five_spreads_are_both_needed():
    sizes = 1024 + 16 * np.arange(60)
    for noise, factor, stands in ((0.002, 1.08, False), (0.002, 1.2, True), (0.05, 1.2, False)):
        times = sizes * 2e-9 * np.exp(np.random.default_rng(4).normal(0, noise, 60))
        times[30] *= factor
        assert stood(rows_of(sizes, times, sizes * 1e-9)).stands_out[30] == stands


def test_a_size_that_only_a_model_of_waves_makes_slow_does_not_stand_out():
    """Its time is that of its neighbours; taking out waves that it has fewer of lifts it above them."""
    sizes = 1024 + 16 * np.arange(40)
    rows = rows_of(sizes, sizes * 2e-9 * np.exp(np.random.default_rng(1).normal(0, 0.002, 40)), sizes * 1e-9)
    effect = np.where(np.arange(40) == 20, -0.4, 0.0)
    found = neighbour_test(rows, rows["e"].to_numpy(), effect, np.full(40, np.nan))
    assert found.over[20] > 0.35
    assert not found.stands_out.any()


def test_an_excess_within_its_own_error_does_not_stand_out():
    sizes = 1024 + 16 * np.arange(40)
    times = sizes * 2e-9 * np.exp(np.random.default_rng(2).normal(0, 0.002, 40))
    times[20] *= 1.3
    rows = rows_of(sizes, times, sizes * 1e-9)
    for error, stands in ((0.001, True), (0.1, False)):
        errors = np.where(np.arange(40) == 20, error, np.nan)
        assert neighbour_test(rows, rows["e"].to_numpy(), np.zeros(40), errors).stands_out[20] == stands


def test_neighbours_are_of_one_series_and_within_a_factor_of_two():
    sizes = np.array([1000, 1500, 2500, 6000, 1000, 1500])
    near = around(sizes, np.array([0, 0, 0, 0, 1, 1]))
    assert [sorted(set(row) - {-1}) for row in near.tolist()] == [[1], [0, 2], [1], [], [5], [4]]


def test_waves_and_tiles_are_followed_as_far_as_a_series_does():
    """Known shares of idle waves and padding, campers among them: both shares come back."""
    rng = np.random.default_rng(5)
    idle, padded = rng.uniform(0, 0.5, 80), rng.uniform(0, 0.3, 80)
    sizes = 1024 + 64 * np.arange(80)
    noise = rng.normal(0, 0.002, 80) + 0.4 * (sizes % 1024 == 0)
    times = sizes * 1e-9 * np.exp(0.8 * idle + 0.3 * padded + noise)
    rows = rows_of(sizes, times, sizes * 1e-9, ln_idle=idle, ln_busy=0.0, ln_padded=padded)
    effect = predicted(rows)
    shares = np.linalg.lstsq(np.stack([idle, padded, np.ones(80)], axis=1), effect, rcond=None)[0]
    np.testing.assert_allclose(shares[:2], [0.8, 0.3], atol=0.02)

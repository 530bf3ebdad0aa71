"""t = a + b M: against scipy's Theil-Sen, and against planted stalls of both kinds."""

import numpy as np
import pytest
from rooflens.plugins.camping.find import find
from rooflens.plugins.camping.intercept import intercepts
from rooflens.plugins.camping.points import points
from rooflens.plugins.camping.processes import times_by
from scipy.stats import t, theilslopes

from .planted import planted, usual

SIZES = range(1024, 4097, 64)


def lines(made):
    found = points(made[0])
    return found, intercepts(found, times_by("round", found, *made))


def test_lines_are_those_of_scipy():
    made = planted(SIZES, Ms=(1, 2, 4, 8, 16, 32), noise=0.05, seed=1)
    found, fitted = lines(made)
    assert len(fitted) == len(SIZES)
    for line in fitted.to_dict("records"):
        own = found.loc[(found["N"] == line["N"]) & (found["M"] <= 16)]
        slope, intercept, *_ = theilslopes(own["time_s"], own["M"])
        assert line["slope_s"] == pytest.approx(slope)
        # scipy takes the median of t less the slope at the median M; here it is the median of what is left.
        assert line["intercept_s"] == pytest.approx(intercept, abs=0.1 * line["intercept_s"])
        assert line["Ms"] == (1, 2, 4, 8, 16)


def test_exact_lines_and_one_point_out_of_line():
    made = planted(SIZES, noise=0, round_noise=0, time=lambda cells: usual(cells) * (1 + 2.0 * (cells["M"] == 4)))
    _, fitted = lines(made)
    expected = 3e-6 + fitted["N"] * 4096 * 0.5625 / 2e12
    np.testing.assert_allclose(fitted["intercept_s"], expected, rtol=1e-9)
    np.testing.assert_allclose(fitted["slope_s"], 0.2e-6, rtol=1e-9)


def test_standard_errors_cover_the_truth():
    """Rounds that differ by 2 %: 95 % of the shapes lie within the t interval of 8 rounds, give or take chance."""
    covered = []
    for seed in range(4):
        _, fitted = lines(planted(SIZES, noise=0, round_noise=0.02, rounds=8, seed=seed))
        expected = 3e-6 + fitted["N"] * 4096 * 0.5625 / 2e12
        off = (fitted["intercept_s"] - expected).abs() / fitted["intercept_se_s"]
        covered += (off < t.ppf(0.975, 7)).tolist()
    assert 0.90 < np.mean(covered) < 0.99


def test_one_round_has_no_standard_error_and_two_M_no_line():
    assert lines(planted(SIZES, rounds=1))[1]["intercept_se_s"].isna().all()
    assert lines(planted(SIZES, Ms=(1, 16)))[1].empty


def test_a_stall_raises_the_intercept_and_traffic_the_slope():
    def stalled(cells):
        return usual(cells) + 12e-6 * (cells["N"] == 2048)

    def re_read(cells):
        return usual(cells) + 4e-6 * cells["M"] * (cells["N"] == 3072)

    (stall,) = find(*planted(SIZES, time=stalled)).suspects.to_dict("records")
    assert (stall["N"], stall["raises"]) == (2048, "intercept")
    assert stall["intercept_s"] - stall["usual_intercept_s"] == pytest.approx(12e-6, rel=0.1)
    assert stall["Ms"] == (1, 2, 4, 8, 16)
    (steep,) = find(*planted(SIZES, time=re_read)).suspects.to_dict("records")
    assert steep["N"] == 3072
    assert "slope" in steep["raises"]


def test_a_stall_that_no_single_M_shows_is_seen_in_the_line():
    """4 us of 45, 65 and 85: under 10 % at each M, but as much again as the usual intercept."""

    def time(cells):
        return usual(cells) + 5e-6 * cells["M"] + 4e-6 * (cells["N"] == 2048)

    (found,) = find(*planted(SIZES, Ms=(8, 12, 16), noise=0.001, round_noise=0.001, time=time)).suspects.to_dict(
        "records"
    )
    assert (found["N"], found["raises"], found["reproduced"]) == (2048, "intercept", "unknown")
    assert found["remark"] == "only the line through its M stands out, no single M does"
    assert found["excess_s"] == pytest.approx(4e-6, rel=0.2)
    assert find(
        *planted(SIZES, Ms=(8, 12, 16), noise=0.001, time=lambda cells: usual(cells) + 5e-6 * cells["M"])
    ).suspects.empty

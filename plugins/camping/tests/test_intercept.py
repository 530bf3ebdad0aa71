"""t = a + b M: against scipy's Theil-Sen, and against planted stalls of both kinds."""

import numpy as np
import pytest
from rooflens.plugins.camping.find import find
from rooflens.plugins.camping.intercept import line, raised
from scipy.stats import theilslopes

from .planted import planted, usual

SIZES = range(1024, 4097, 64)


def test_lines_are_those_of_scipy():
    generator, x = np.random.default_rng(1), np.array([1.0, 2, 4, 8, 16])
    for _ in range(50):
        y = (3 + x) * (1 + 0.05 * generator.normal(size=5))
        slope, *_ = theilslopes(y, x)
        # scipy takes the median of t less the slope at the median M; here it is the median of what is left.
        assert line(x, y) == pytest.approx((np.median(y - slope * x), slope))


def test_one_point_out_of_line_does_not_matter():
    x = np.array([1.0, 2, 4, 8, 16])
    assert line(x, (3 + 0.2 * x) * [1, 1, 3, 1, 1]) == pytest.approx((3, 0.2))


@pytest.mark.parametrize(
    ("more", "raises"),
    [
        (lambda M: 0.01 * M + 2, "intercept"),
        (lambda M: M - 0.1, "slope"),
        (lambda M: M + 2, "intercept and slope"),
    ],
)
def test_what_is_above_the_neighbours_is_named(more, raises):
    M = np.array([1.0, 2, 4, 8, 16, 32, 64, 128])
    time = 3 + 0.2 * M + np.where(M <= 16, more(M), 1000)
    found = raised(M, time, np.log(time / (3 + 0.2 * M)))
    assert (found["raises"], found["usual_intercept_s"]) == (raises, pytest.approx(3))
    few = np.where(M < 8, np.log(time), np.nan)  # those of M = 8 and 16 are unknown
    assert raised(M, time, few)["raises"] != ""
    assert raised(M, time, np.where(M < 4, few, np.nan))["raises"] == ""


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

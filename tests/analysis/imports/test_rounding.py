"""The step of a column is found from its texts, and never called coarser than they show."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rooflens.analysis.imports.rounding import Rounding, RoundingKind, detect

TIMES = np.random.default_rng(7).lognormal(0, 2, 60)


@pytest.mark.parametrize("places", [3, 4, 6])
def test_significant_digits(places):
    for shape in (f"#.{places}g", f".{places}g"):
        assert detect([f"{time:{shape}}" for time in TIMES]) == Rounding(RoundingKind.DIGITS, places), shape


def test_full_precision_is_no_rounding():
    rounding = detect([repr(float(time)) for time in TIMES])
    assert rounding == Rounding(RoundingKind.NONE)
    assert rounding.step("0.1") == 0


@pytest.mark.parametrize(
    "texts, step",
    [
        (["1.50", "2.30", "10.90"], 0.01),  # all end in zero: printed all the same
        (["1200", "3400", "5600"], 1),
        (["1.39"], 0.01),
        (["0.28", "180.93"], 0.01),
        (["1.5", "12.25"], 0.01),
        (["1.23", "12.3"], 0.01),  # three digits, or a zero that was not printed: the finer one
    ],
)
def test_never_coarser_than_proven(texts, step):
    assert {detect(texts).step(text) for text in texts} == {step}


def test_exponents_zeros_and_nothing():
    rounding = detect(["1.234e-05", "4.321e-03", "5.678e-04", "9.876e-02"])
    assert rounding == Rounding(RoundingKind.DIGITS, 4)
    assert rounding.step("4.321e-03") == pytest.approx(1e-6)
    kept = detect(["1.20", "12.3"])  # digits of two decades with their zeros
    assert [kept.step("1.20"), kept.step("12.3")] == [0.01, 0.1]
    assert detect(["0", "0.0", "0.00"]) == detect([]) == Rounding(RoundingKind.NONE)
    assert str(detect(["0", "1.25"])) == "2 decimals"


@given(st.lists(st.decimals(min_value="0.01", max_value="999.99", places=2), min_size=1, max_size=30))
def test_two_decimals_whatever_the_values(values):
    for places in (2, 4):
        assert detect([f"{value:.{places}f}" for value in values]) == Rounding(RoundingKind.DECIMALS, places)


@given(st.lists(st.floats(0.01, 1000), min_size=3, max_size=30))
def test_step_is_at_most_what_each_text_shows(values):
    texts = [f"{value:.5g}" for value in values]
    rounding = detect(texts)
    for text in texts:
        shown = 10.0 ** -(len(text.partition(".")[2]) if "e" not in text else 5)
        assert rounding.step(text) <= shown * (1 + 1e-9)

"""The worst of several texts of a `disturbed` column."""

import pytest
from rooflens.shapes.run_folder.disturbance import worst


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        ([], ""),
        (["", ""], ""),
        (["other processes used 12% of the cores", "", "other processes used 50% of the cores"],
         "other processes used 50% of the cores"),
        (["clock from 1500 to 1980 MHz", "clock from 345 to 1980 MHz", "clock from 1900 to 1990 MHz"],
         "clock from 345 to 1980 MHz"),
        (["2 other processes on the device", "1 other process on the device"], "2 other processes on the device"),
        (["9 other processes on the device", "10 other processes on the device"], "10 other processes on the device"),
        (["clock from 1500 to 1980 MHz; 1 other process on the device", "1 other process on the device"],
         "clock from 1500 to 1980 MHz; 1 other process on the device"),
    ],
)  # fmt: skip
def test_of_causes_that_differ_in_their_numbers_the_worst_is_told(texts, told):
    assert worst(texts) == told


def test_causes_without_numbers_are_told_once():
    assert worst(["the canary moved", "the canary moved"]) == "the canary moved"

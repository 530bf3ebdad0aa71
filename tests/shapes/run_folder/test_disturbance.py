"""The worst of several texts of a `disturbed` column."""

import pytest
from rooflens.shapes.run_folder.disturbance import disturbances, worst


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        ([], ""),
        (["other processes used 12% of the cores", "", "other processes used 50% of the cores"],
         "other processes used 50% of the cores"),
        (["clock from 1500 to 1980 MHz", "clock from 345 to 1980 MHz", "clock from 1900 to 1990 MHz"],
         "clock from 345 to 1980 MHz"),
        (["9 other processes on the device", "10 other processes on the device"], "10 other processes on the device"),
        (["clock from 1500 to 1980 MHz; 1 other process on the device", "1 other process on the device"],
         "clock from 1500 to 1980 MHz; 1 other process on the device"),
    ],
)  # fmt: skip
def test_of_causes_that_differ_in_their_numbers_the_worst_is_told(texts, told):
    assert worst(texts) == told


def test_causes_without_numbers_are_told_once():
    assert worst(["the canary moved", "the canary moved"]) == "the canary moved"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("clock from 345 to 1980 MHz", "clock"),
        ("1 other process on the device", "other processes on the device"),
        ("12 other processes on the device", "other processes on the device"),
        ("other processes used 12% of the cores", "other processes on the cores"),
        ("canary slowed down by 4.0 % (gemm)", "canary's gemm"),
        ("canary slowed down by 4.0 % (gemm), 13.5 % (copy)", "canary's gemm and copy"),
        ("not blocked during 3 of 12 samples, all of them kept", "not blocked"),
        ("the canary moved by 3 %", "the canary moved by 3 %"),  # of an earlier version
    ],
)
def test_a_stored_text_is_read_back(text, name):
    (found,) = disturbances(text)
    assert (str(found), found.name) == (text, name)

"""A log that is trimmed while others write: what stays, what is said to be missing, how much of the disk it takes."""

import re
import subprocess
import sys
import time

import numpy as np
import pytest
from rooflens.harness.storage.worker_log import KEPT_BYTES, MOST_BYTES, take, trim

NUMBERED = np.arange(4 * MOST_BYTES // 8, dtype=">u8").tobytes()
"""Every 8 bytes of it are other ones."""


@pytest.fixture
def log(tmp_path):
    return tmp_path / "worker.log"


def parts(content):
    """Split a trimmed log into its beginning, the number of dropped bytes, and its end."""
    beginning, number, end = re.split(rb"\n--- (\d+) bytes were dropped here\n", content)
    return beginning, int(number), end


@pytest.mark.parametrize("size", [0, 1, MOST_BYTES])
def test_a_log_within_the_limit_is_left_alone(log, size):
    log.write_bytes(NUMBERED[:size])
    trim(log)
    assert log.read_bytes() == NUMBERED[:size]


def test_the_first_and_the_last_part_stay_and_a_line_says_what_is_missing(log):
    log.write_bytes(NUMBERED)
    trim(log)
    beginning, dropped, end = parts(log.read_bytes())
    assert NUMBERED.startswith(beginning)
    assert NUMBERED.endswith(end)
    assert len(beginning) == len(end) == KEPT_BYTES
    assert dropped == len(NUMBERED) - len(beginning) - len(end)


def test_what_is_missing_adds_up_over_many_trims(log):
    log.touch()
    chunk = MOST_BYTES // 2 + 16
    for begin in range(0, len(NUMBERED), chunk):
        with log.open("ab") as file:
            file.write(NUMBERED[begin : begin + chunk])
        trim(log)
    beginning, dropped, end = parts(log.read_bytes())
    assert len(beginning) + dropped + len(end) == len(NUMBERED)
    assert NUMBERED.startswith(beginning)
    assert NUMBERED.endswith(end)


def test_what_was_taken_is_not_taken_again(log):
    assert take(log) == b""
    with log.open("ab", buffering=0) as writer:
        writer.write(b"first\n")
        assert take(log) == b"first\n"
        writer.write(b"second\n")
    assert take(log) == b"second\n"
    assert take(log) == b""


def test_a_flood_loses_only_the_middle_and_what_comes_after_it_is_there(log):
    writes = "time.sleep(number // 95); os.write(1, b'%07d\\n' % number * (1 << 17))"
    code = f"import os, time\nfor number in range(96): {writes}"
    with log.open("ab") as file:
        writer = subprocess.Popen([sys.executable, "-c", code], stdout=file)
    while writer.poll() is None:
        trim(log)
        time.sleep(0.001)
    trim(log)
    beginning, dropped, end = parts(log.read_bytes())
    numbers = [int(line) for line in (beginning + end).split() if len(line) == 7]  # others were cut
    assert numbers == sorted(numbers)
    assert (numbers[0], numbers[-1]) == (0, 95)
    missing = (96 << 20) - len(beginning) - dropped - len(end)
    assert 0 <= missing < MOST_BYTES

"""The time of an audit is linear in its text, and what is too long for it is refused or named."""

import gc
import time

import pytest
from audit_scaling import HOSTILE, cpu_seconds
from rooflens.analysis.imports.devices import devices_in, devices_of_cell
from rooflens.analysis.imports.printed import read_printed
from rooflens.analysis.imports.recognition import numbers_of

SHORT, TIMES = 10_000, 4

GROWTH = 2.4
"""What 4 times the text may take beyond 4 times as long: a quadratic cost takes 4 times that."""

FLOOR_S = 0.02
"""Less is what an audit takes for a few lines, and the noise of the clock."""


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_four_times_the_text_takes_four_times_as_long(name):
    short, long = HOSTILE[name](SHORT), HOSTILE[name](TIMES * SHORT)
    most = GROWTH * len(long) / len(short)
    gc.disable()  # a collection looks at all that the other tests have made
    try:
        base = max(min(cpu_seconds(short) for _ in range(3)), FLOOR_S)
        # The least of some: other work takes caches and shared cores away, a quadratic cost is there every time.
        assert any(cpu_seconds(long) <= most * base for _ in range(4)), f"more than {most:.1f} times as long"
    finally:
        gc.enable()


def test_ten_times_the_rows_of_a_column_take_ten_times_as_long():
    """Longer than the texts above, at which what is quadratic in the rows of a column does not show."""

    def seconds(count):
        texts = [f"1.{at}" for at in range(count)]
        read_printed.cache_clear()
        start = time.process_time()
        numbers_of(texts)
        return time.process_time() - start

    assert min(seconds(20_000) for _ in range(2)) < 25 * min(seconds(2000) for _ in range(3))


@pytest.mark.parametrize("read", [devices_in, devices_of_cell])
def test_a_long_word_is_searched_once_for_a_device(read):
    """A claim on the command line has no limit."""
    start = time.process_time()
    assert read("MI300X " + 100_000 * "x") == read("MI300X")
    assert time.process_time() - start < 2.0, "from every letter to the end takes half a minute"

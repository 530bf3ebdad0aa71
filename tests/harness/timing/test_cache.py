"""Cold is cold: flush and rotation over an exact model of the cache, the flush on the real CPU, names of levels."""

import dataclasses
import time

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from rooflens.harness.machine.device import find_device
from rooflens.harness.timing.cache import Flush, Rotation, flushed, flushed_together, level_of, rotated
from rooflens.harness.timing.cache_sizes import FLUSH, MOST_COPIES, REUSE, copies_needed, copies_per_flush
from rooflens.harness.timing.event_timer import EventTimer
from rooflens.shapes.device import Device
from rooflens.shapes.errors import UsageError
from rooflens.shapes.suite import Cache

from ..fake_cache import Buffer, FakeCache
from ..fake_device import FakeDevice
from ..fake_script import FREE

CPU = Device("cpu", 0, "test", "", "x86-64", 2, 32 << 20, 2 << 20, 1 << 34)

LLC = 1 << 20

SMALL = dataclasses.replace(CPU, kind="cuda", llc_bytes=LLC)

MEMORY, CACHED = 4e12, 12e12
"""Bytes per second of the model."""

TICK = 32e-9


def new_device(**script):
    return FakeDevice(FREE, resolution_s=1e-9, cache=FakeCache(LLC, MEMORY, CACHED), **script)


sizes = st.integers(LLC // 64, 3 * LLC)


class Counted:
    """A flush that counts its calls."""

    def __init__(self, flush):
        self.flush, self.calls = flush, 0

    def __call__(self):
        self.calls += 1
        self.flush()


@given(size=sizes)
def test_after_a_flush_all_of_any_size_is_read_from_memory(size):
    device = new_device()
    kernel = device.kernel(1e-6, reads=[Buffer(size)])
    timer = EventTimer(device, flushed(device.launcher(kernel), device.flusher(), 2))
    assert timer.batch(6).times_s == pytest.approx([1e-6 + size / MEMORY] * 6, abs=2e-9)


@given(size=sizes, copies=st.integers(1, 12), count=st.integers(1, 30))
def test_copies_that_share_a_flush_are_all_read_from_memory(size, copies, count):
    device = new_device()
    kernels = [device.kernel(1e-6, reads=[Buffer(size)]) for _ in range(copies)]
    flush = Counted(device.flusher())
    subject = flushed_together([device.launcher(kernel) for kernel in kernels], flush, 2)
    device.synchronize()
    touched = [len(kernel.durations_s) for kernel in kernels]
    for _ in range(count):
        subject.before()
        subject.launch()
    device.synchronize()
    cold = [time for kernel, before in zip(kernels, touched, strict=True) for time in kernel.durations_s[before:]]
    assert touched == [0, *[1] * (copies - 1)]
    assert cold == pytest.approx([1e-6 + size / MEMORY] * count, abs=2e-9)
    assert flush.calls == -(-count // copies)


def test_a_gpu_flushes_before_every_launch_and_a_cpu_as_rarely_as_pays():
    server = dataclasses.replace(CPU, llc_bytes=480 << 20)
    decode, prefill = (4096 * 4096 // 2, 2 * 4096 * 4096), (4096 * 4096 // 2, 2 * 512 * 4096 * 4096)
    assert copies_per_flush(*decode, dataclasses.replace(server, kind="cuda")) == 1
    assert copies_per_flush(*decode, server) == 3  # 32 MiB dequantized, in a quarter of the cache
    assert copies_per_flush(*decode, dataclasses.replace(CPU, llc_bytes=1 << 20)) == 1  # a flush takes 0.3 ms
    assert copies_per_flush(*prefill, server) == 1  # a launch takes longer than the flush
    assert copies_per_flush(1 << 27, 1 << 28, server) == 1  # more than one copy would not fit


@given(size=sizes)
def test_a_rotation_among_enough_copies_reads_all_from_memory(size):
    device = new_device()
    kernels = [device.kernel(1e-6, reads=[Buffer(size)]) for _ in range(copies_needed(size, SMALL))]
    rotation = Rotation([device.launcher(kernel) for kernel in kernels], size, SMALL)
    for count in (len(rotation), len(rotation) + 3):
        times = EventTimer(device, rotated(rotation)).batch(count).times_s
        assert times == pytest.approx([1e-6 + size / MEMORY] * len(times), abs=2e-9)


@given(size=st.integers(64, 3 * LLC), short=st.integers(1, 1000))
def test_an_undersized_rotation_is_refused_every_time(size, short):
    assume(REUSE * LLC / size < MOST_COPIES - 1)
    enough = copies_needed(size, SMALL)
    assert len(Rotation(range(enough), size, SMALL)) == enough
    for copies in {enough - 1, max(1, enough - short)}:
        with pytest.raises(UsageError, match=rf"make {enough} copies"):
            Rotation(range(copies), size, SMALL)


@given(size=st.integers(LLC // 64, LLC))
def test_the_copies_needed_are_the_fewest_with_enough_bytes_between_two_uses(size):
    copies = copies_needed(size, SMALL)
    assert (copies - 1) * size >= REUSE * LLC > (copies - 2) * size


@pytest.mark.parametrize("size", [0, 1, 2 * LLC // MOST_COPIES])
def test_weights_too_small_to_rotate_among_are_for_a_flush(size):
    with pytest.raises(UsageError, match="use --set cold_by=flush"):
        copies_needed(size, SMALL)


def test_the_real_flush_reads_more_than_rotation_asks_for_and_writes_nothing():
    flush = Flush(dataclasses.replace(CPU, llc_bytes=1 << 20))
    assert flush._clean.nbytes == FLUSH << 20 > REUSE << 20
    flush()
    assert bool((flush._clean == 1).all())


@pytest.mark.parametrize(
    ("size", "cache", "kind", "arch", "level"),
    [
        (1 << 20, Cache.COLD, "cpu", "x86-64", "dram"),
        (1 << 20, Cache.WARM, "cpu", "x86-64", "llc"),
        (33 << 20, Cache.WARM, "cpu", "x86-64", "dram"),
        (1 << 20, Cache.WARM, "cuda", "gfx950", "l2"),
        (3 << 20, Cache.WARM, "cuda", "gfx950", "llc"),
        (1 << 20, Cache.WARM, "cuda", "gfx942", "llc"),
    ],
)
def test_the_level_that_a_working_set_fits_in(size, cache, kind, arch, level):
    assert level_of(size, cache, dataclasses.replace(CPU, kind=kind, arch=arch)) == level


@pytest.mark.exclusive
def test_a_flush_makes_the_next_read_slower():
    """1 MiB that was just read is read again: from the cache when warm, from memory after a flush.

    The fastest of 30 on one thread, so that a busy neighbour does not decide it.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        data = torch.ones(1 << 18)
        cold, hot = _fastest_read(data, Flush(find_device("cpu"))), _fastest_read(data, lambda: None)
    finally:
        torch.set_num_threads(threads)
    assert cold > 1.2 * hot


def _fastest_read(data, before):
    taken = []
    for _ in range(30):
        before()
        start = time.perf_counter()
        data.sum()
        taken.append(time.perf_counter() - start)
    return min(taken)

"""Cache control on the real CPU: what is read after a cold flush comes from memory, and the labels of levels."""

import dataclasses
import time

import pytest
import torch
from rooflens.harness.cache import control, level_of
from rooflens.harness.device import find_device
from rooflens.shapes.device import Device
from rooflens.shapes.suite import Cache

CPU = Device("cpu", 0, "test", "", "x86-64", 2, 32 << 20, 2 << 20, 1 << 34)


def test_cold_writes_twice_and_reads_once_the_last_level():
    cold = control(Cache.COLD, dataclasses.replace(CPU, llc_bytes=1 << 20))
    assert cold._dirty.nbytes == 2 << 20
    assert cold._clean.nbytes == 1 << 20
    cold()
    assert bool((cold._dirty == 1).all())
    assert float(cold._sum) == cold._clean.numel()


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


def test_a_flush_makes_the_next_read_slower():
    """1 MiB that was just read is read again: from the cache after Warm, from memory after Cold.

    The fastest of 30 on one thread, so that a busy neighbour does not decide it.
    """
    device = find_device("cpu")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        data = torch.ones(1 << 18)
        fastest = {state: _fastest_read(data, control(state, device)) for state in Cache}
    finally:
        torch.set_num_threads(threads)
    assert fastest[Cache.COLD] > 1.2 * fastest[Cache.WARM]


def _fastest_read(data, before):
    taken = []
    for _ in range(30):
        before()
        start = time.perf_counter()
        data.sum()
        taken.append(time.perf_counter() - start)
    return min(taken)

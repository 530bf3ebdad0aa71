"""Providers that have help: pools of processes, and a library that changes how the CPU computes once it is loaded."""

import ctypes
import multiprocessing
import os
import sys

from faulty_providers import Right, right_launch
from rooflens.kernels.provider import Launch


def square(number):
    return number * number


class Pools(Right):
    name = "pools"

    def prepare(self, inputs, config=None):
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(square, range(4)) == [0, 1, 4, 9]
        return super().prepare(inputs, config)


class Keeps(Right):
    name = "keeps"
    pool = None

    def prepare(self, inputs, config=None):
        type(self).pool = self.pool or multiprocessing.get_context("forkserver").Pool(2)
        assert self.pool.map(abs, range(4)) == [0, 1, 2, 3]
        return super().prepare(inputs, config)


class Flushes(Right):
    """Loads the library that $FLUSHING names."""

    name = "flushes"

    def prepare(self, inputs, config=None):
        ctypes.CDLL(os.environ["FLUSHING"])
        return super().prepare(inputs, config)


class Sees(Right):
    """Stores whether its launch finds denormals flushed."""

    name = "sees"

    def prepare(self, inputs, config=None):
        run, out = right_launch(inputs)
        seen = {}
        return Launch(lambda: (run(), seen.update(flushes=sys.float_info.min / 2 == 0.0)), out, config=seen)


PROVIDERS = [Pools(), Keeps(), Flushes(), Sees()]

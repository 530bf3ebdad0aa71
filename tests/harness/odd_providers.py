"""Providers that are right, and say odd things of themselves: the material of the tests of what is stored."""

import os
import subprocess
import sys
import time
from types import MappingProxyType

import torch
from faulty_providers import Prepares, raises, right_launch
from rooflens.kernels.provider import Launch, Provider


class Odd(Provider):
    def __init__(self, name, config=MappingProxyType({}), kernels=(), moved=lambda problem: None):
        self.name, self.config, self.kernels, self._moved = name, config, kernels, moved

    def prepare(self, inputs, config=None):
        return Launch(*right_launch(inputs), dict(self.config), self.kernels)

    def moved_bytes(self, problem, scheme, config):
        return self._moved(problem)


class NoLaunch(Odd):
    def prepare(self, inputs, config=None):
        return None


class Tuples(Odd):
    """Its configurations hold tuples, which JSON stores as lists; the second is the faster one."""

    def candidates(self, problem, scheme, device):
        return [{"tile": (1, 2)}, {"tile": (3, 4)}]

    def prepare(self, inputs, config=None):
        tile = config["tile"]
        assert isinstance(tile, tuple), tile
        launch = super().prepare(inputs)
        product = launch.run

        def run():
            if tile == (1, 2):
                time.sleep(5e-3)
            product()

        return Launch(run, launch.output, config={"tile": tile})


class BreaksCanary(Odd):
    """Makes the canary's GEMM end the process: what a BLAS that aborts would do."""

    def prepare(self, inputs, config=None):
        def fatal(a, b, *, out):
            if a.shape[0] == 768:
                os._exit(3)
            return torch.bmm(a[None], b[None], out=out[None])[0]

        self.library = torch.library.Library("aten", "IMPL")  # no setting that is compared: that would move it
        self.library.impl("mm.out", fatal, "CPU")
        return super().prepare(inputs)


class LeavesChild(Odd):
    """Starts a program and hangs: a compiler, say."""

    def prepare(self, inputs, config=None):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
        with open("child.pid", "w") as file:
            file.write(str(child.pid))
        time.sleep(300)


LONG_NAMES = tuple(f"void elementwise_kernel<{'é' * 1000}, {number}>" for number in range(3000))
"""As torch's kernels are called, and as many as a decoder made of torch operations launches."""

PROVIDERS = [
    Odd("plain"),
    Odd("typed_config", {"accumulate": torch.float32}),
    Odd("long_config", {"table": "x" * 200_000}),
    Odd("long_names", kernels=LONG_NAMES),
    Odd("half_bytes", moved=lambda problem: 0.5 * problem.N * problem.K),  # a float, and for an even N * K a whole one
    Odd("broken_bytes", moved=lambda problem: 12.5),
    Odd("negative_bytes", moved=lambda problem: -5),
    Prepares("long_reason", raises("y" * 200_000, ValueError)),
    NoLaunch("no_launch"),
    Tuples("tuples"),
    BreaksCanary("breaks_canary"),
    LeavesChild("leaves_child"),
]

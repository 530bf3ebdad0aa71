"""Providers that are right, and say odd things of themselves: the material of the tests of what is stored."""

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
]

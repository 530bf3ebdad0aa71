"""Two CPU providers whose crossover is planted: the challenger is slower from a known number of rows on.

All sleep, the incumbent for a constant time. The time of `growing` rises with M squared and reaches it at
`CROSSING`; `stepped` is twice as fast up to the end of a tile, and twice as slow beyond it.
"""

import time

from rooflens.kernels.fourbit.quantize import dequantize
from rooflens.kernels.provider import Launch, Provider, Role

CROSSING = 21.5
"""Rows at which `growing` is as fast as `constant`."""

TILE = 16
"""Rows of a tile of `stepped`."""

EDGE = 48
"""Last M at which `stepped` wins."""

SECONDS = 8e-3
"""Of the incumbent: long enough for a sleep to be exact on a busy machine."""


class Sleeper(Provider):
    """Right, after a sleep of `seconds(M)`."""

    def __init__(self, name, role, seconds, candidates=()):
        self.name, self.role, self._seconds, self._candidates = name, role, seconds, candidates

    def candidates(self, problem, scheme, device):
        return self._candidates

    def prepare(self, inputs, config=None):
        out = inputs.empty_output()
        weight = dequantize(inputs.weight, inputs.x.dtype).view(inputs.problem.N, -1).float()
        pause = self._seconds(inputs.problem.M)

        def run():
            out.copy_(inputs.x.float() @ weight.t())
            time.sleep(pause)

        return Launch(run, out, config=dict(config or {}))


PROVIDERS = [
    Sleeper("constant", Role.DEQUANT_BLAS, lambda m: SECONDS),
    Sleeper("growing", Role.CANDIDATE, lambda m: SECONDS * (m / CROSSING) ** 2),
    Sleeper("stepped", Role.CANDIDATE, lambda m: SECONDS / 2 if m <= EDGE else SECONDS * 2, [{"BLOCK_M": TILE}]),
]

"""A provider that begins only when six processes are about to: what six stations do at once, they then do together."""

import os
import time
from pathlib import Path

import torch
from rooflens.kernels.fourbit.quantize import dequantize
from rooflens.kernels.provider import Launch, Provider

STATIONS = 6


class Meets(Provider):
    name = "meets"

    def prepare(self, inputs, config=None):
        folder = Path(os.environ["MEETING"])
        (folder / str(os.getpid())).touch()
        while sum(1 for _ in folder.iterdir()) < STATIONS:
            time.sleep(0.02)
        weight = dequantize(inputs.weight, torch.float32).view(inputs.problem.N, -1)
        out = inputs.empty_output()
        return Launch(lambda: torch.mm(inputs.x, weight.t(), out=out), out)


PROVIDERS = [Meets()]

"""A kernel with a choice of configurations, most of which misbehave: the material of the tuning tests.

What a candidate does is its `do`: `slow` sleeps, `fast` is the product alone, the others fail in the way of their name.
"""

import os
import signal
import time

import torch
from faulty_providers import right_launch
from rooflens.kernels.provider import Launch, Provider, Support

SLOW_S = 1e-2


class Choosy(Provider):
    def __init__(self, name, *wishes):
        self.name, self._wishes = name, wishes

    def candidates(self, problem, scheme, device):
        return [{"do": wish} for wish in self._wishes]

    def prepare(self, inputs, config=None):
        do = (config or {"do": "slow"})["do"]
        run, out = right_launch(inputs)
        calls = 0

        def product():
            nonlocal calls
            calls += 1
            if do == "slow":
                time.sleep(SLOW_S)
            run()
            if do == "wrong" or (do == "late_wrong" and calls > 3):
                out[-1, -1] += 10
            if do == "raises" and calls > 5:
                raise RuntimeError("shared memory exhausted")
            if do == "crash":
                os.kill(os.getpid(), signal.SIGSEGV)
            if do == "hang":
                time.sleep(1000)
            if do == "leaves":
                os.umask(0o007)

        if do == "no_tile":
            raise ValueError("no such tile")
        if do == "oom":
            torch.empty(1 << 60, dtype=torch.uint8)
        if do == "repacks":
            inputs.packed.add_(1)
        return Launch(product, out, config={"do": do})


class Refuses(Choosy):
    def supports(self, problem, scheme, device):
        return Support.no("only on Tuesdays")


class Confused(Choosy):
    def candidates(self, problem, scheme, device):
        raise KeyError("sm99")


PROVIDERS = [
    Choosy("choosy", "slow", "fast"),
    # Every failure that an exception or a check tells.
    Choosy("harmless", "slow", "fast", "wrong", "late_wrong", "raises", "no_tile", "oom"),
    # Every failure that ends the worker.
    Choosy("deadly", "slow", "crash", "fast", "repacks"),
    Choosy("hanging", "hang", "fast"),
    Choosy("hopeless", "no_tile", "wrong"),
    Choosy("no_choice"),
    Choosy("leaving", "fast", "leaves"),  # a changed setting of the process
    Refuses("refuses", "slow", "fast"),
    Confused("confused"),
]

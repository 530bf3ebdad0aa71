"""A kernel with a choice of configurations, most of which misbehave: the material of the tuning tests.

What a candidate does is its `do`: `slow` sleeps, `fast` is the product alone, the others fail in the way of their name.
"""

import os
import signal
import time

import torch
from rooflens.kernels.fourbit.quantize import dequantize
from rooflens.kernels.provider import Launch, Provider, Support

SLOW_S = 1e-2


class Choosy(Provider):
    name = "choosy"
    wishes = ("slow", "fast")

    def candidates(self, problem, scheme, device):
        return [{"do": wish} for wish in self.wishes]

    def prepare(self, inputs, config=None):
        do = (config or {"do": self.wishes[0]})["do"]
        weight = dequantize(inputs.weight, torch.float32).view(inputs.problem.N, -1)
        out = inputs.empty_output()
        calls = 0

        def product():
            nonlocal calls
            calls += 1
            if do == "slow":
                time.sleep(SLOW_S)
            torch.mm(inputs.x, weight.t(), out=out)
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


class Leaving(Choosy):
    """One of its candidates changes a setting of the process."""

    name = "leaving"
    wishes = ("fast", "leaves")


class Harmless(Choosy):
    """Every failure that an exception or a check tells."""

    name = "harmless"
    wishes = ("slow", "fast", "wrong", "late_wrong", "raises", "no_tile", "oom")


class Deadly(Choosy):
    """Every failure that ends the worker."""

    name = "deadly"
    wishes = ("slow", "crash", "fast", "repacks")


class Hanging(Choosy):
    name = "hanging"
    wishes = ("hang", "fast")


class Hopeless(Choosy):
    name = "hopeless"
    wishes = ("no_tile", "wrong")


class NoChoice(Choosy):
    name = "no_choice"

    def candidates(self, problem, scheme, device):
        return ()


class Refuses(Choosy):
    name = "refuses"

    def supports(self, problem, scheme, device):
        return Support.no("only on Tuesdays")


class Confused(Choosy):
    name = "confused"

    def candidates(self, problem, scheme, device):
        raise KeyError("sm99")


PROVIDERS = [Choosy(), Harmless(), Deadly(), Hanging(), Hopeless(), NoChoice(), Refuses(), Confused(), Leaving()]

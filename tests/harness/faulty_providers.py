"""Providers that misbehave on purpose, in real processes: the material of the fault tests.

Each computes the right product until something happens; which call does what is decided by M, so that neighbours of the
faulty cell exist in the same run.
"""

import os
import signal
import time

import torch
from rooflens.kernels.provider import Launch, Provider, Role, Support

FAULTY_M = 2


def right_launch(inputs):
    weight = inputs.dequantized(torch.float32)
    out = inputs.empty_output()

    def run():
        out.copy_(inputs.x.float() @ weight.t())

    return run, out


class Right(Provider):
    name = "right"
    role = Role.DEQUANT_BLAS

    def prepare(self, inputs, config=None):
        run, out = right_launch(inputs)
        print("a library that prints to stdout")
        return Launch(run, out, config={"kind": "right"}, kernels=("matmul",))


class Faulty(Provider):
    """Misbehaves in the timed call at M == FAULTY_M, after `grace` good calls."""

    grace = 0

    def misbehave(self, out):
        raise NotImplementedError

    def prepare(self, inputs, config=None):
        run, out = right_launch(inputs)
        calls = 0

        def faulty():
            nonlocal calls
            calls += 1
            run()
            if inputs.problem.M == FAULTY_M and calls > self.grace:
                self.misbehave(out)

        return Launch(faulty, out)


class Crash(Faulty):
    name = "crash"

    def misbehave(self, out):
        os.kill(os.getpid(), signal.SIGSEGV)


class Hang(Faulty):
    name = "hang"

    def misbehave(self, out):
        time.sleep(1000)


class Wrong(Faulty):
    name = "wrong"

    def misbehave(self, out):
        out[0, 0] += 1000


class LateWrong(Wrong):
    """Right when checked before timing, wrong after some launches."""

    name = "late_wrong"
    grace = 5


class Unwritten(Provider):
    name = "unwritten"

    def prepare(self, inputs, config=None):
        return Launch(lambda: None, inputs.empty_output())


class Raises(Faulty):
    name = "raises"

    def misbehave(self, out):
        raise RuntimeError("shared memory exhausted\nsecond line")


class OutOfMemory(Faulty):
    name = "oom"

    def misbehave(self, out):
        torch.empty(1 << 46)


class PrepareFails(Provider):
    name = "prepare_fails"

    def prepare(self, inputs, config=None):
        raise ValueError("no such tile")


class Refuses(Provider):
    name = "refuses"

    def supports(self, problem, scheme, device):
        return Support.no("only on Tuesdays")

    def prepare(self, inputs, config=None):
        raise AssertionError("prepare of an unsupported problem")


class Stale(Provider):
    """Computes once and returns the same result for ever: caught by the other activations after timing."""

    name = "stale"

    def prepare(self, inputs, config=None):
        run, out = right_launch(inputs)
        kept = None

        def stale():
            nonlocal kept
            if kept is None:
                run()
                kept = out.clone()
            out.copy_(kept)

        return Launch(stale, out)


class Scribbles(Provider):
    """Right at first, but leaves its own numbers in the activations that all providers share."""

    name = "scribbles"

    def prepare(self, inputs, config=None):
        run, out = right_launch(inputs)

        def scribbles():
            run()
            inputs.x.add_(1)

        return Launch(scribbles, out)


class Repacks(Provider):
    """Repacks the weights in place, which all its neighbours share."""

    name = "repacks"

    def prepare(self, inputs, config=None):
        inputs.packed[0] ^= 255
        return Launch(*right_launch(inputs))


PROVIDERS = [
    Right(),
    Crash(),
    Hang(),
    Wrong(),
    LateWrong(),
    Unwritten(),
    Raises(),
    OutOfMemory(),
    PrepareFails(),
    Refuses(),
    Stale(),
    Scribbles(),
    Repacks(),
]

"""Providers that misbehave on purpose, in real processes: the material of the fault tests.

Each computes the right product until something happens; which call does what is decided by M, so that neighbours of the
faulty cell exist in the same run.
"""

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import torch
from rooflens.kernels.fourbit.quantize import dequantize
from rooflens.kernels.provider import Launch, Provider, Role, Support

FAULTY_M = 2


def right_launch(inputs):
    weight = dequantize(inputs.weight, torch.float32).view(inputs.problem.N, -1)
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


class Licensed(Right):
    """Needs a file, but for M other than FAULTY_M."""

    name = "licensed"

    def prepare(self, inputs, config=None):
        if inputs.problem.M == FAULTY_M and not Path("licence").exists():
            raise RuntimeError("no licence")
        return super().prepare(inputs, config)


class Faulty(Provider):
    """Calls `misbehave(inputs, out)` at the end of the timed call at M == FAULTY_M, after `grace` good calls."""

    def __init__(self, name, misbehave, grace=0):
        self.name, self.misbehave, self.grace = name, misbehave, grace

    def prepare(self, inputs, config=None):
        run, out = right_launch(inputs)
        calls = 0

        def faulty():
            nonlocal calls
            calls += 1
            run()
            if inputs.problem.M == FAULTY_M and calls > self.grace:
                self.misbehave(inputs, out)

        return Launch(faulty, out)


class Prepares(Provider):
    """Calls `spoil(inputs)` in `prepare`."""

    def __init__(self, name, spoil):
        self.name, self._spoil = name, spoil

    def prepare(self, inputs, config=None):
        self._spoil(inputs)
        return Launch(*right_launch(inputs))


class Launches(Provider):
    """Its timed call is what `launch(inputs, run, out)` returns; `run` computes the right product."""

    def __init__(self, name, launch):
        self.name, self._launch = name, launch

    def prepare(self, inputs, config=None):
        run, out = right_launch(inputs)
        return Launch(self._launch(inputs, run, out), out)


def kill(number):
    os.kill(os.getpid(), number)


def stamp(name):
    """Leave a stamp of the moment in the working directory."""
    Path(f"{name}.stamp").write_text(repr(time.time()))


def hang(name):
    stamp(name)
    while True:
        time.sleep(1000)


class HangSupports(Provider):
    name = "hang_supports"

    def supports(self, problem, scheme, device):
        if problem.M == FAULTY_M:
            hang(self.name)
        return Support.yes()

    def prepare(self, inputs, config=None):
        return Launch(*right_launch(inputs))


def stops(inputs, out):
    """Stop by a signal: it does not even react to SIGTERM."""
    stamp("stopped")
    kill(signal.SIGSTOP)


def one_element_off(inputs, out):
    out[0, 0] += 1000


def raises(text, kind=RuntimeError):
    def call(*_):
        raise kind(text)

    return call


class Refuses(Provider):
    name = "refuses"

    def supports(self, problem, scheme, device):
        return Support.no("only on Tuesdays")

    def prepare(self, inputs, config=None):
        raise AssertionError("prepare of an unsupported problem")


def stale(inputs, run, out):
    """Compute once and return the same result for ever: caught by the other activations after timing."""
    kept = []

    def call():
        if not kept:
            run()
            kept.append(out.clone())
        out.copy_(kept[0])

    return call


def repacks(inputs):
    """Repack the weights in place, which all its neighbours share."""
    inputs.packed[0] ^= 255


def repacks_and_fails(inputs):
    repacks(inputs)
    raise ValueError("no such tile")


class UnwindingError(BaseException):
    """No Exception, so nothing that catches those catches it."""


def floods(inputs, out):
    """Write a megabyte to stdout and to stderr, above and below Python."""
    for stream in (sys.stdout, sys.stderr):
        print("flood " * 50_000, file=stream)
    for handle in (1, 2):
        os.write(handle, b"flood\n" * 50_000)


def babbles(inputs, out):
    """Write to every pipe and socket of this process."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                os.write(int(name), b"babble" * 9)


def journal(inputs, run, out):
    """Write a line to journal.txt when a unit begins: activations are its own in every round."""
    begun = set()

    def writes():
        run()
        unit = f"{inputs.problem.N} {inputs.problem.M} {inputs.x.abs().sum():.6f}"
        if unit not in begun:
            begun.add(unit)
            with open("journal.txt", "a") as file:
                file.write(unit + "\n")

    return writes


FAULTY = {
    "crash": lambda inputs, out: kill(signal.SIGSEGV),
    "hang": lambda inputs, out: hang("hang"),
    "stopped": stops,
    "wrong": one_element_off,
    "raises": raises("shared memory exhausted\nsecond line"),
    "oom": lambda inputs, out: torch.empty(1 << 46),
    # The packed weights, which all its neighbours share.
    "overwrites": lambda inputs, out: inputs.packed.zero_(),
    "exits": lambda inputs, out: os._exit(0),
    "sys_exits": lambda inputs, out: sys.exit(0),
    "interrupts": raises("", KeyboardInterrupt),
    "unwinds": raises("all the way up", UnwindingError),
    "floods": floods,
    "babbles": babbles,
}

IN_PREPARE = {
    "hang_prepare": lambda inputs: hang("hang_prepare") if inputs.problem.M == FAULTY_M else None,
    "prepare_fails": raises("no such tile", ValueError),
    "repacks": repacks,
    "repacks_and_fails": repacks_and_fails,
    # Nobody may write into the shared activations any more.
    "differentiates": lambda inputs: inputs.x.requires_grad_(True),
}

IN_LAUNCH = {
    "unwritten": lambda inputs, run, out: lambda: None,
    "stale": stale,
    # Right at first, but its own numbers are in the activations that all providers share.
    "scribbles": lambda inputs, run, out: lambda: (run(), inputs.x.add_(1)),
    # From the first launch on, all rows of the shared activations are the first one.
    "reshapes": lambda inputs, run, out: lambda: (run(), inputs.x.as_strided_(inputs.x.shape, (0, 1))),
    "journal": journal,
}

PROVIDERS = [
    *(Right(), Licensed(), HangSupports(), Refuses()),
    Faulty("late_wrong", one_element_off, grace=5),  # right when checked before timing
    *(Faulty(name, misbehave) for name, misbehave in FAULTY.items()),
    *(Prepares(name, spoil) for name, spoil in IN_PREPARE.items()),
    *(Launches(name, launch) for name, launch in IN_LAUNCH.items()),
]

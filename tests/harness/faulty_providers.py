"""Providers that misbehave on purpose, in real processes: the material of the fault tests.

Each computes the right product until something happens; which call does what is decided by M, so that neighbours of the
faulty cell exist in the same run.
"""

import os
import signal
import sys
import tempfile
import threading
import time
from abc import abstractmethod
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


class Faulty(Provider):
    """Misbehaves in the timed call at M == FAULTY_M, after `grace` good calls."""

    grace = 0

    @abstractmethod
    def misbehave(self, out):
        """What goes wrong in the timed call."""

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


def hang(name):
    """Hang, after a stamp of the moment in the working directory."""
    Path(f"{name}.stamp").write_text(repr(time.time()))
    while True:
        time.sleep(1000)


class Hang(Faulty):
    name = "hang"

    def misbehave(self, out):
        hang(self.name)


class HangPrepare(Right):
    name = "hang_prepare"
    role = Role.CANDIDATE

    def prepare(self, inputs, config=None):
        if inputs.problem.M == FAULTY_M:
            hang(self.name)
        return super().prepare(inputs, config)


class HangSupports(Right):
    name = "hang_supports"
    role = Role.CANDIDATE

    def supports(self, problem, scheme, device):
        if problem.M == FAULTY_M:
            hang(self.name)
        return Support.yes()


class Stopped(Faulty):
    """Stopped by a signal: it does not even react to SIGTERM."""

    name = "stopped"

    def misbehave(self, out):
        Path("stopped.stamp").write_text(repr(time.time()))
        os.kill(os.getpid(), signal.SIGSTOP)


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


class RepacksAndFails(Repacks):
    """As the one above, and does not come to its end."""

    name = "repacks_and_fails"

    def prepare(self, inputs, config=None):
        super().prepare(inputs, config)
        raise ValueError("no such tile")


class Reshapes(Provider):
    """Lets all rows of the shared activations be the first one, in the first launch."""

    name = "reshapes"

    def prepare(self, inputs, config=None):
        run, out = right_launch(inputs)
        return Launch(lambda: (run(), inputs.x.as_strided_(inputs.x.shape, (0, 1))), out)


class Differentiates(Provider):
    """Asks for gradients of the shared activations, so that nobody may write into them any more."""

    name = "differentiates"

    def prepare(self, inputs, config=None):
        inputs.x.requires_grad_(True)
        return Launch(*right_launch(inputs))


class Overwrites(Faulty):
    """Right, but its first timed call changes the packed weights, which all its neighbours share."""

    name = "overwrites"

    def prepare(self, inputs, config=None):
        self.packed, self.done = inputs.packed, False
        return super().prepare(inputs, config)

    def misbehave(self, out):
        if not self.done:
            self.packed[0] ^= 255
            self.done = True


class Exits(Faulty):
    name = "exits"

    def misbehave(self, out):
        os._exit(0)


class SysExits(Faulty):
    name = "sys_exits"

    def misbehave(self, out):
        sys.exit(0)


class Interrupts(Faulty):
    name = "interrupts"

    def misbehave(self, out):
        raise KeyboardInterrupt


class UnwindingError(BaseException):
    """No Exception, so nothing that catches those catches it."""


class Unwinds(Faulty):
    name = "unwinds"

    def misbehave(self, out):
        raise UnwindingError("all the way up")


class Floods(Faulty):
    """Writes a megabyte to stdout and to stderr at every call, above and below Python."""

    name = "floods"

    def misbehave(self, out):
        for stream in (sys.stdout, sys.stderr):
            print("flood " * 50_000, file=stream)
        for handle in (1, 2):
            os.write(handle, b"flood\n" * 50_000)


class Witness(Provider):
    """Right, and stores what it found of the process when it was called last."""

    name = "witness"

    def prepare(self, inputs, config=None):
        run, out = right_launch(inputs)
        found = {}

        def observes():
            run()
            found["folder"] = os.getcwd()
            found["threads"] = torch.get_num_threads()
            found["dtype"] = str(torch.get_default_dtype())
            found["reseeded"] = torch.initial_seed() == Reseeds.SEED
            found["spinning"] = any(thread.name == Spins.name for thread in threading.enumerate())

        return Launch(observes, out, config=found)


class Wanders(Faulty):
    name = "wanders"

    def misbehave(self, out):
        os.chdir(tempfile.gettempdir())


class Throttles(Faulty):
    name = "throttles"

    def misbehave(self, out):
        torch.set_num_threads(1)


class Retypes(Faulty):
    name = "retypes"

    def misbehave(self, out):
        torch.set_default_dtype(torch.float64)


class Reseeds(Faulty):
    name = "reseeds"
    SEED = 12345

    def misbehave(self, out):
        torch.manual_seed(self.SEED)


class Spins(Faulty):
    """Leaves a thread behind that takes a core for itself."""

    name = "spins"

    def misbehave(self, out):
        if all(thread.name != self.name for thread in threading.enumerate()):
            threading.Thread(target=self.spin, name=self.name, daemon=True).start()

    def spin(self):
        while True:
            pass


class Journal(Provider):
    """Right, and writes a line to journal.txt when it begins a unit: activations are its own in every round."""

    name = "journal"

    def prepare(self, inputs, config=None):
        run, out = right_launch(inputs)
        begun = set()

        def writes():
            run()
            unit = f"{inputs.problem.N} {inputs.problem.M} {inputs.x.abs().sum():.6f}"
            if unit not in begun:
                begun.add(unit)
                with open("journal.txt", "a") as file:
                    file.write(unit + "\n")

        return Launch(writes, out)


PROVIDERS = [
    Right(),
    Crash(),
    Hang(),
    HangPrepare(),
    HangSupports(),
    Stopped(),
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
    RepacksAndFails(),
    Reshapes(),
    Differentiates(),
    Overwrites(),
    Exits(),
    SysExits(),
    Interrupts(),
    Unwinds(),
    Floods(),
    Witness(),
    Wanders(),
    Throttles(),
    Retypes(),
    Reseeds(),
    Spins(),
    Journal(),
]

"""What the benchmarks of timers share: a device with what times launches on it, and kernels with operands."""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median

import torch
from rooflens.harness.machine.device import find_device
from rooflens.harness.telemetry.source import telemetry
from rooflens.harness.timing.accelerator import Action, accelerator
from rooflens.harness.timing.cache import Flush
from rooflens.harness.timing.measure import measure
from rooflens.harness.timing.stop import StopRule
from rooflens.harness.timing.timer import Subject
from rooflens.harness.timing.timers import make_timer
from rooflens.kernels import registry
from rooflens.kernels.fourbit.inputs import FourBitInputs
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.provider import Provider
from rooflens.shapes.device import Device
from rooflens.shapes.problem import Problem
from rooflens.shapes.protocol import Protocol
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme

Case = tuple[str, int, int, int]
"""Provider, M, N, K."""


RUN = Protocol()
"""That of a run by default."""


class Machine:
    """A device, and what times launches on it."""

    def __init__(self, name: str = "auto") -> None:
        self.device = find_device(name)
        if self.device.is_gpu:
            torch.cuda.set_device(self.device.index)
        self.host, self.flush, self.telemetry = accelerator(self.device), Flush(self.device), telemetry(self.device)

    def measure(self, timer_name: str, subject: Subject, protocol: Protocol = RUN):
        """Time a subject until the stop rule of a protocol is satisfied."""
        timer = make_timer(timer_name, self.host, subject, self.device)
        return measure(subject, timer, StopRule.of(protocol, timer.resolution_s), self.host, self.telemetry)

    def median_s(self, timer_name: str, subject: Subject, protocol: Protocol = RUN) -> float:
        """Median time of a subject."""
        return median(self.measure(timer_name, subject, protocol).times_s)


@dataclass(frozen=True)
class Kernel:
    """A provider with operands in nf4-g64 and bf16, ready to be launched."""

    label: str
    provider: Provider
    inputs: FourBitInputs
    launch: Action


def kernels(cases: Iterable[Case], device: Device) -> Iterator[Kernel]:
    """Prepare the cases that their providers support here."""
    scheme = parse_scheme("nf4-g64", DType.BF16)
    for name, m, n, k in cases:
        problem, provider, label = Problem(M=m, N=n, K=k), registry.load([name])[name], f"{name} M={m} {n}x{k}"
        if provider.supports(problem, scheme, device).ok:
            inputs = make_inputs(problem, scheme, device, seed=0)
            yield Kernel(label, provider, inputs, provider.prepare(inputs).run)
        else:
            print(f"{label}: not supported here", file=sys.stderr)

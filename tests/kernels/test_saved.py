"""Values that a launch derives ahead of time follow every change of the operands that they come from."""

import pytest
import torch
from rooflens.harness.machine.device import find_device
from rooflens.harness.timing.accelerator import TorchHost
from rooflens.harness.timing.cache import flushed_together, warm
from rooflens.harness.timing.timer import nothing
from rooflens.harness.worker.messages import ChosenConfig
from rooflens.harness.worker.operands import Operands
from rooflens.harness.worker.prepared import prepare
from rooflens.harness.worker.watch import Watch
from rooflens.kernels import registry
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.provider import support
from rooflens.kernels.saved import Saved
from rooflens.shapes.scheme import DType

from .contract_cases import CASES, schemes
from .test_provider_contract import ON_EVERY_MACHINE

CPU = find_device("cpu")
HOST = TorchHost()


def test_saved_values_follow_their_sources():
    source, seen = torch.zeros(3), []
    saved = Saved([source], lambda: seen.append(source.sum().item()))
    saved.refresh()
    assert seen == [0.0]
    source.add_(2)
    source[:1].mul_(3)
    saved.refresh()
    saved.refresh()
    assert seen == [0.0, 10.0]


def test_a_change_through_a_view_of_another_type_is_seen():
    source, seen = torch.zeros(4).to(torch.float8_e4m3fn), []
    saved = Saved([source], lambda: seen.append(source.float().sum().item()))
    source.view(torch.uint8)[0] = 0x38
    saved.refresh()
    assert seen == [0.0, 1.0]


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("family", CASES)
def test_what_a_launch_finds_ready_is_updated_outside_of_the_timed_call(monkeypatch, family, copies):
    """For what a reference decodes ahead, and what the forward pass saves, its time would include either otherwise."""
    updates, init = [], Saved.__init__
    monkeypatch.setattr(
        Saved, "__init__", lambda self, sources, update: init(self, sources, lambda: (updates.append(1), update()))
    )
    providers = registry.load(ON_EVERY_MACHINE[family])
    for scheme, problems in schemes(family, DType.BF16):
        problem = problems[-1]
        for name, provider in providers.items():
            if not support(provider, problem, scheme, CPU).ok:
                continue
            operands = Operands(make_inputs(problem, scheme, CPU, 3))
            inputs = operands.copies(copies)
            operands.draw(5)
            ready = prepare(provider, inputs, ChosenConfig(None, "default"), HOST, refreshes=True)
            launches = ready.launches
            runs = [launch.run for launch in launches]
            subject = flushed_together(runs, nothing) if copies > 1 else warm(runs[0])
            watch = Watch(operands, launches, subject, HOST, 0, refreshes=ready.refreshes)
            updates.clear()
            for _ in range(6):
                watch.subject.before()
                updated = len(updates)
                watch.subject.launch()
                assert len(updates) == updated, f"{name}, {scheme.name}"
                watch.subject.after()
            watch.check()

"""Memory of a task is free when the task ends, without a garbage collection: the next problem may need all of it."""

import dataclasses
import gc
from pathlib import Path

import pytest
import torch
from rooflens.harness.plan.plan import plan, tasks
from rooflens.harness.worker import wire
from rooflens.harness.worker.messages import Setup, Stored, UnitResult, Work
from rooflens.harness.worker.operands import Operands
from rooflens.harness.worker.worker import Worker
from rooflens.kernels.provider import Launch
from rooflens.shapes import suite
from rooflens.shapes.protocol import Protocol

PROVIDERS = Path(__file__).parents[1] / "memory_providers.py"

NAMES = ("fine", "wrong", "full", "declined", "searched", "cyclic")


class Parent:
    """The other end of the pipe."""

    def __init__(self, names):
        self.names, self.verdicts = names, {}

    def send_bytes(self, content):
        message = wire.from_bytes(content)
        if isinstance(message, UnitResult):
            self.verdicts[self.names[message.index]] = message.columns["verdict"]

    def recv_bytes(self, most):
        return wire.to_bytes(Stored(False))


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield before
    torch.set_num_threads(before)


@pytest.mark.parametrize("tuning", ["default", "cold"])
@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_task_leaves_no_operands(device, tuning, threads, uncollected):
    names = NAMES if device == "cuda" else NAMES[:-1]  # on a CPU, Python collects a provider's cycles in its own time
    quick = suite.load("llm4bit-quick").override(axes={"M": (4,)}, providers=names)
    llc_bytes = 1 << 20 if device == "cpu" else None
    protocol = Protocol(rounds=2, budget_s=0.02, tuning=tuning, threads=threads, llc_bytes=llc_bytes)
    cells = plan(dataclasses.replace(quick, shapes=quick.shapes[:1], protocol=protocol))
    (task,) = tasks(cells)
    parent = Parent(names)
    setup = Setup(device, protocol, names, (PROVIDERS,))
    worker = Worker(parent, setup)
    gc.collect()
    worker.answer(Work(task, ((0, 1),) * len(task.cells)))
    left = [type(one).__name__ for one in gc.get_objects() if type(one) in (Operands, Launch)]
    assert not left
    verdicts = ("passed", "incorrect", "oom", "oom", "passed", "passed")
    assert parent.verdicts == dict(zip(names, verdicts, strict=False))

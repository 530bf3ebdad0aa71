"""A scripted clock: calls take the time that they are planted to take, and nothing else does."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
from rooflens.api import sampling
from rooflens.harness.timing.accelerator import TorchHost
from rooflens.harness.worker.bench import Bench


@dataclass
class PlantedTimes:
    """Makes calls whose time on the clock is planted; `sd` is the scatter of ln time from sample to sample.

    All return the same.
    """

    now_s: float = 0.0
    canary: dict[str, float] = field(default_factory=lambda: {"gemm_s": 1e-3, "copy_s": 2e-3})

    def __post_init__(self) -> None:
        self.random = random.Random(0)
        self.order: list[str] = []

    def read(self) -> float:
        self.now_s += 1e-9  # a clock that never moves has no step
        return self.now_s

    def call(self, name: str, time_s: float, sd: float = 0.0, round_sd: float = 0.0) -> Callable[[], torch.Tensor]:
        state = {"level": 1.0, "calls": 0}

        def call() -> torch.Tensor:
            if not self.order or self.order[-1] != name:
                self.order.append(name)
                state["level"] = self.random.lognormvariate(0, round_sd)
            self.now_s += time_s * state["level"] * self.random.lognormvariate(0, sd)
            return torch.ones(1)

        call.__name__ = name
        return call


@pytest.fixture
def planted(monkeypatch) -> PlantedTimes:
    times = PlantedTimes()
    monkeypatch.setattr(TorchHost, "now", lambda self: times.read())
    monkeypatch.setattr(TorchHost, "preemptions", lambda self: 0)
    monkeypatch.setattr(Bench, "canary", lambda self: times.canary | {"at": ""})
    monkeypatch.delenv("PYTEST_XDIST_WORKER_COUNT", raising=False)
    sampling._opened.cache_clear()
    sampling._canary.cache_clear()
    yield times
    sampling._opened.cache_clear()
    sampling._canary.cache_clear()

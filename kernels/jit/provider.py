"""The base of providers whose launch consists of Triton kernels."""

from abc import abstractmethod
from collections.abc import Sequence

import torch

from ...shapes.device import Device
from ...shapes.problem import Problem
from ..aot import BuildRequest
from ..inputs import placeholders
from ..provider import Config, InputsT, Launch, Provider, SchemeT
from .call import KernelCall, launch_calls, requests


class TritonProvider(Provider[SchemeT, InputsT]):
    """Kernels that `calls` lists, launched on operands or compiled ahead of time for their shapes."""

    @abstractmethod
    def calls(self, inputs: InputsT, outputs: tuple[torch.Tensor, ...], config: Config) -> Sequence[KernelCall]:
        """Kernel calls of one launch, in order. Intermediates are allocated here, where `inputs` are ("meta", too)."""

    def prepare(self, inputs: InputsT, config: Config | None = None) -> Launch:
        """Allocate outputs and intermediates, compile and warm up."""
        config = config or self.default_config(inputs)
        outputs = inputs.empty_outputs()
        return launch_calls(self.calls(inputs, outputs, config), outputs, config)

    def moved_bytes(self, problem: Problem, scheme: SchemeT, config: Config) -> int:
        """Operands and outputs as they are stored, once each: re-reads are served by the caches."""
        return scheme.compulsory_bytes(problem)

    def builds(self, problem: Problem, scheme: SchemeT, device: Device, config: Config) -> Sequence[BuildRequest]:
        """Every kernel of `calls`."""
        inputs: InputsT = placeholders(problem, scheme, device)
        return requests(self.calls(inputs, inputs.empty_outputs(), config))

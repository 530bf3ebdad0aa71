"""A provider: one way to compute an operation, split into setup (`prepare`) and the only timed call (`Launch`).

To bring a kernel of your own, put this into a file and run `rooflens run SUITE --providers FILE`:

    from rooflens.kernels.provider import Launch, Provider

    class MyGemm(Provider):
        name = "my_gemm"

        def prepare(self, inputs, config=None):
            weight = my_package.pack(inputs.packed, inputs.absmax)          # untimed
            out = inputs.empty_output()
            return Launch(lambda: my_package.gemm(inputs.x, weight, out=out), out)

    PROVIDERS = [MyGemm()]
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

import torch

from ..shapes.device import Device
from ..shapes.problem import Problem
from ..shapes.scheme import Scheme
from .inputs import FourBitInputs

Config = Mapping[str, Any]
"""Tile sizes, warps, threads, ...: plain JSON values."""


class Role(StrEnum):
    """What a provider stands for in a comparison."""

    CANDIDATE = "candidate"
    DEQUANT_BLAS = "dequant_blas"
    STOCK_TRITON = "stock_triton"
    BLAS = "blas"
    UPSTREAM = "upstream"


@dataclass(frozen=True, slots=True)
class Support:
    """Whether a provider can compute a problem here; `reason` says why not, and how to get it where that can be."""

    ok: bool
    reason: str = ""

    @classmethod
    def yes(cls) -> "Support":
        """Supported."""
        return cls(True)

    @classmethod
    def no(cls, reason: str) -> "Support":
        """Not supported, for `reason`: one line, with the way out where there is one."""
        return cls(False, reason)


@dataclass(slots=True)
class Launch:
    """The timed call: computes into the preallocated `output`; neither allocates device memory nor synchronizes.

    A library that allocates its own result rebinds `output` to it in `run`, so read `launch.output` after the call.

    `config` is what ran, `kernels` the names of the device kernels of one call, `dispatched` the choice of a provider
    with a dispatch rule of its own, `artifact` a hash of the compiled code. All but `run` and `output` may be empty.
    """

    run: Callable[[], object]
    output: torch.Tensor
    config: Config = field(default_factory=dict)
    kernels: tuple[str, ...] = ()
    dispatched: str = ""
    artifact: str = ""

    def __call__(self) -> None:
        """Run once."""
        self.run()


class Provider(ABC):
    """One implementation. Subclasses set `name` and `role` and define `prepare`; the rest has defaults."""

    name: ClassVar[str]
    role: ClassVar[Role] = Role.CANDIDATE
    sources: ClassVar[tuple[str, ...]] = ()
    """Files beside the module that belong to its source hash (a .cpp or .cu, relative to the module)."""

    def supports(self, problem: Problem, scheme: Scheme, device: Device) -> Support:
        """Say whether this problem can be computed on this device. Cheap: imports and compiles nothing heavy."""
        return Support.yes()

    def candidates(self, problem: Problem, scheme: Scheme, device: Device) -> Sequence[Config]:
        """Configurations worth trying, the default first. Empty: there is nothing to choose."""
        return ()

    @abstractmethod
    def prepare(self, inputs: FourBitInputs, config: Config | None = None) -> Launch:
        """Pack, allocate, compile and warm up; everything that is not the timed call. `config` None: the default.

        The launch must read activations from `inputs.x` at every call (they are overwritten with fresh values to check
        the output again after timing) and write all of its `output`, [M,N] in the scheme's dtype.
        """

    def moved_bytes(self, problem: Problem, scheme: Scheme, config: Config) -> int | None:
        """Bytes that this algorithm really moves per call (re-reads, intermediates); None when unknown."""
        return None

    def working_set_bytes(self, problem: Problem, scheme: Scheme, config: Config) -> int:
        """Bytes of distinct memory that one call touches: which cache holds them when nothing is evicted in between.

        The default is right for what reads the operands as they are stored; what keeps a dense copy touches that.
        """
        return scheme.compulsory_bytes(problem)

"""The Triton GEMM providers: the shared kernel, and the specialised ones with their quantizers."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import torch

from ...shapes.device import Device
from ...shapes.problem import Pass, Problem
from ...shapes.scheme import Scheme
from ...shapes.schemes.fp8train import COMPUTES, READS_DY, READS_W, READS_X, Fp8Train
from ..aot import Request
from ..jit.call import compile_calls, moved_bytes, requests, touched_bytes
from ..needs import fp8_missing
from ..provider import Config, Launch, Provider, Support
from .blas import NO_GEMM
from .inputs import TrainInputs, placeholders
from .plans import Plan, prepare_saved, shared_plan, specialised_plan
from .products import output_shapes
from .triton_configs import shared_configs, specialised_configs

_MOST_ELEMENTS = 1 << 31
"""Elements of an operand or of a result that 32-bit offsets do not reach any more."""

_MOST_LINE = 1 << 22
"""Elements of a row: up to 256 rows of a tile are reached by 32-bit offsets."""


_RESULTS = {Pass.FWD: "Y[M,N]", Pass.DGRAD: "dX[M,K]", Pass.WGRAD: "dW[N,K]"}


class _Planned(Provider[Scheme, TrainInputs]):
    """A provider whose launch is a plan of Triton kernels."""

    family = "fp8train"

    @abstractmethod
    def plan(self, inputs: TrainInputs, outputs: tuple[torch.Tensor, ...], config: dict[str, Any]) -> Plan:
        """Kernel calls of one launch."""

    def supports(self, problem: Problem, scheme: Scheme, device: Device) -> Support:
        """Any sizes, on GPUs that multiply FP8."""
        if not isinstance(scheme, Fp8Train):
            return Support.no(NO_GEMM)
        if missing := fp8_missing(device):
            return Support.no(missing)
        return self.fits(problem)

    def fits(self, problem: Problem) -> Support:
        """Whether the kernels' offsets reach all of the operands."""
        if max(problem.M, problem.N, problem.K) > _MOST_LINE:
            return Support.no(f"M, N and K are limited to {_MOST_LINE} (32-bit offsets inside a tile)")
        return Support.yes()

    def prepare(self, inputs: TrainInputs, config: Config | None = None) -> Launch:
        """Allocate outputs, FP8 forms and scales, compile, and fill what the forward pass saves."""
        chosen = dict(config or self.default_config(inputs))
        outputs = inputs.empty_outputs()
        plan = self.plan(inputs, outputs, chosen)
        refresh, calls = prepare_saved(plan), compile_calls(plan.timed)

        def run() -> None:
            refresh()
            calls.run()

        return Launch(run, outputs, chosen, calls.kernels, artifact=calls.artifact, geometry=calls.geometry)

    def moved_bytes(self, problem: Problem, scheme: Scheme, config: Config) -> int:
        """Every operand of every kernel once, FP8 forms and transposed copies in between included."""
        return moved_bytes(self._described(problem, scheme, config).timed)

    def working_set_bytes(self, problem: Problem, scheme: Scheme, config: Config) -> int:
        """Distinct memory of all kernels."""
        return touched_bytes(self._described(problem, scheme, config).timed)

    def builds(self, problem: Problem, scheme: Scheme, device: Device, config: Config) -> Sequence[Request]:
        """Every kernel of the plan, those that fill what the forward pass saves included."""
        plan = self._described(problem, scheme, config, device)
        return requests((*plan.timed, *plan.saved))

    def _described(self, problem: Problem, scheme: Scheme, config: Config, device: Device | None = None) -> Plan:
        inputs = placeholders(problem, scheme, device or Device("cuda", 0, "", "", "", 1, 1, 1, 1))
        assert isinstance(inputs, TrainInputs)
        return self.plan(inputs, inputs.empty_outputs(), dict(config))


class Shared(_Planned):
    """One kernel for the three layouts, masked along K, with a launch per quantizer: where training started from.

    Its offsets are 32-bit, so that operands and results of 2^31 elements and more are beyond it.
    """

    name = "shared_fp8"

    def plan(self, inputs: TrainInputs, outputs: tuple[torch.Tensor, ...], config: dict[str, Any]) -> Plan:
        """One kernel per operand that is quantized, two or three per product."""
        return shared_plan(inputs, outputs, config)

    def fits(self, problem: Problem) -> Support:
        """Operands and results below 2^31 elements."""
        m, n, k, pass_ = problem.M, problem.N, problem.K, problem.pass_
        sizes = {
            "X[M,K]": m * k if pass_ in READS_X else 0,
            "W[N,K]": n * k if pass_ in READS_W else 0,
            "dY[M,N]": m * n if pass_ in READS_DY else 0,
        }
        for product, (rows, columns) in zip(COMPUTES[pass_], output_shapes(problem), strict=True):
            sizes[_RESULTS[product]] = rows * columns
        for name, size in sizes.items():
            if size >= _MOST_ELEMENTS:
                return Support.no(f"{name} has {size} elements, 32-bit offsets reach 2^31: use specialised_fp8")
        return super().fits(problem)

    def candidates(self, problem: Problem, scheme: Scheme, device: Device) -> Sequence[Config]:
        """A tile for each product."""
        return shared_configs(problem.pass_, device)


class Specialised(_Planned):
    """A kernel per layout, without masks where K is a multiple of 128, 64-bit addresses, and fused quantizers.

    On sm90 a persistent, warp-specialized kernel whose operands come through the tensor memory accelerator.
    """

    name = "specialised_fp8"

    def plan(self, inputs: TrainInputs, outputs: tuple[torch.Tensor, ...], config: dict[str, Any]) -> Plan:
        """One kernel per tensor that is quantized, one per product, and one per transposition of a given operand."""
        return specialised_plan(inputs, outputs, config)

    def candidates(self, problem: Problem, scheme: Scheme, device: Device) -> Sequence[Config]:
        """A tile for each product, and the layout that the GPU's matrix units want."""
        return specialised_configs(problem, device)


SHARED = Shared()
SPECIALISED = Specialised()

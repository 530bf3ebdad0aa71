"""The Triton GEMM providers: the shared kernel, and the specialised ones with their quantizers."""

from collections.abc import Sequence
from typing import ClassVar

from ...shapes.device import Device
from ...shapes.problem import Op, Pass, Problem
from ...shapes.schemes.fp8train import COMPUTES, READS_DY, READS_W, READS_X, Fp8Train
from ..aot import BuildRequest
from ..inputs import placeholders
from ..jit.call import launch_calls, moved_bytes, requests, touched_bytes
from ..needs import fp8_missing
from ..provider import Config, Launch, Provider, Support
from .inputs import TrainInputs
from .plans import Plan, plan_of, prepare_saved
from .products import output_shapes
from .triton_configs import gemm_configs

_MOST_ELEMENTS = 1 << 31
"""Elements of an operand or of a result that 32-bit offsets do not reach any more."""

_MOST_LINE = 1 << 22
"""Elements of a row: up to 256 rows of a tile are reached by 32-bit offsets."""


_RESULTS = {Pass.FWD: "Y[M,N]", Pass.DGRAD: "dX[M,K]", Pass.WGRAD: "dW[N,K]"}


class _Planned(Provider[Fp8Train, TrainInputs]):
    """A provider whose launch is a plan of Triton kernels."""

    family = "fp8train"
    op = Op.GEMM
    specialised: ClassVar[bool]

    def supports(self, problem: Problem, scheme: Fp8Train, device: Device) -> Support:
        """Any sizes, on GPUs that multiply FP8."""
        if missing := fp8_missing(device):
            return Support.no(missing)
        return self.fits(problem)

    def fits(self, problem: Problem) -> Support:
        """Whether the kernels' offsets reach all of the operands."""
        if max(problem.M, problem.N, problem.K) > _MOST_LINE:
            return Support.no(f"M, N and K are limited to {_MOST_LINE} (32-bit offsets inside a tile)")
        return Support.yes()

    def candidates(self, problem: Problem, scheme: Fp8Train, device: Device) -> Sequence[Config]:
        """A tile for each product, and the layout that the GPU's matrix units want."""
        return gemm_configs(problem, device, specialised=self.specialised)

    def prepare(self, inputs: TrainInputs, config: Config | None = None) -> Launch:
        """Allocate outputs, FP8 forms and scales, compile, and fill what the forward pass saves."""
        chosen = dict(config or self.default_config(inputs))
        outputs = inputs.empty_outputs()
        plan = plan_of(inputs, outputs, chosen, specialised=self.specialised)
        return launch_calls(plan.timed, outputs, chosen, prepare_saved(plan))

    def moved_bytes(self, problem: Problem, scheme: Fp8Train, config: Config) -> int:
        """Every operand of every kernel once, FP8 forms and transposed copies in between included."""
        return moved_bytes(self._described(problem, scheme, config).timed)

    def working_set_bytes(self, problem: Problem, scheme: Fp8Train, config: Config) -> int:
        """Distinct memory of all kernels."""
        return touched_bytes(self._described(problem, scheme, config).timed)

    def builds(self, problem: Problem, scheme: Fp8Train, device: Device, config: Config) -> Sequence[BuildRequest]:
        """Every kernel of the plan, those that fill what the forward pass saves included."""
        plan = self._described(problem, scheme, config, device)
        return requests((*plan.timed, *plan.saved))

    def _described(self, problem: Problem, scheme: Fp8Train, config: Config, device: Device | None = None) -> Plan:
        inputs: TrainInputs = placeholders(problem, scheme, device or Device("cuda", 0, "", "", "", 1, 1, 1, 1))
        return plan_of(inputs, inputs.empty_outputs(), dict(config), specialised=self.specialised)


class Shared(_Planned):
    """One kernel for the three layouts, masked along K, with a launch per quantizer: where training started from.

    Its offsets are 32-bit, so that operands and results of 2^31 elements and more are beyond it.
    """

    name = "shared_fp8"
    specialised = False

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


class Specialised(_Planned):
    """A kernel per layout, without masks where K is a multiple of 128, 64-bit addresses, and fused quantizers."""

    name = "specialised_fp8"
    specialised = True


SHARED = Shared()
SPECIALISED = Specialised()

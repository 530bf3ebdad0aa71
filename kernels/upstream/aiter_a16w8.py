"""aiter's batched A16W8 GEMM with block scales (ROCm/aiter pull request 2297), through its public wrapper.

`batched_gemm_a16w8(x, w, w_scale, bias, dtype, y, config, prequant)`: it transposes weights and scales at every call,
which is timed, and writes into `y`.

Tried with commit 98fad3a8 (the branch of the pull request): the call against its signature, the function on an H200
(docs/case-studies.md).
"""

import inspect
from typing import Any

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.schemes.a16w8 import A16W8
from .. import needs
from ..a16w8.inputs import A16W8Inputs
from ..provider import Config, DeclinedError, Launch, Provider, Role, Support
from .observe import triton_kernels
from .packages import find_function, support, version

_FILES = (
    "ops/triton/gemm/batched/batched_gemm_a16w8_blockscale.py",
    "ops/triton/gemm/batched/batched_gemm_a16w8.py",
)
_PARAMETERS = ("x", "w", "w_scale", "bias", "dtype", "y", "prequant")


class AiterA16W8(Provider[A16W8, A16W8Inputs]):
    """The upstream wrapper, transposes included: compare with `wrapper_a16w8`."""

    family = "a16w8"
    name = "aiter_a16w8"
    role = Role.UPSTREAM

    def supports(self, problem: Problem, scheme: A16W8, device: Device) -> Support:
        """Where aiter with this kernel is installed, on its GPUs; any sizes."""
        return support(needs.AITER_A16W8, _FILES, device)

    def prepare(self, inputs: A16W8Inputs, config: Config | None = None) -> Launch:
        """Import aiter, allocate Y, and run once: its kernel compiles at the first call."""
        module, function = find_function("aiter", _FILES, "batched_gemm_a16w8")
        if missing := [name for name in _PARAMETERS if name not in inspect.signature(function).parameters]:
            raise DeclinedError(f"{module.__name__}.batched_gemm_a16w8 is another function: it takes no {missing[0]}")
        out, prequant = inputs.empty_output(), inputs.scheme.prequant

        def call() -> Any:
            return function(
                inputs.x, inputs.q, inputs.scale, bias=inputs.bias, dtype=inputs.dtype, y=out, prequant=prequant
            )

        config = {"aiter": version("aiter"), "function": f"{module.__name__}.batched_gemm_a16w8"}
        launch = Launch.returning(call, out, config)
        launch.kernels = triton_kernels(launch.run)
        launch.dispatched = " ".join(launch.kernels)
        return launch

    def moved_bytes(self, problem: Problem, scheme: A16W8, config: Config) -> int:
        """Beside what the kernel reads and writes, weights and scales are read and written once more."""
        copies = scheme.weight_bytes(problem) + scheme.scale_bytes(problem)
        return scheme.compulsory_bytes(problem) + 2 * copies

    def working_set_bytes(self, problem: Problem, scheme: A16W8, config: Config) -> int:
        """Weights and scales exist twice."""
        return scheme.compulsory_bytes(problem) + scheme.weight_bytes(problem) + scheme.scale_bytes(problem)


AITER_A16W8 = AiterA16W8()

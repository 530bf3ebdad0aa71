"""aiter's small-M MX-FP8 GEMM (ROCm/aiter pull request 3783), through its public wrapper.

`mxfp8_gemv(xq, x_scale, wq, w_scale, out_dtype)` chooses between a GEMV and a kernel on the matrix units. It returns
None for a problem that it leaves to others, and also when a kernel raises: this module distinguishes the two.

Tried with commit c8b3154f (branch pr/m3-mxfp8-decode-kernels): the calls against its signatures. Its kernels are HIP,
for gfx950, and have not run.
"""

from typing import Any

import torch

from ...shapes.device import Device
from ...shapes.problem import Op, Problem
from ...shapes.schemes.mxfp8 import BLOCK, MxFp8
from .. import needs
from ..mxfp8.inputs import MxFp8Inputs
from ..provider import Config, DeclinedError, Launch, Provider, Role, Support
from .observe import Calls, watched
from .packages import find_function, support, version

_FILES = ("ops/smallm_gemm_mxfp8.py",)
_ENTRY_POINTS = {"smallm_mxfp8_gemv": ("block_n",), "smallm_mxfp8_mfma": ("n_sub", "k_splits")}
_GEMV_ROWS = (1, 2, 4, 8, 16)
"""Rows that its GEMV is compiled for; others are padded at every call."""


class AiterMx(Provider[MxFp8, MxFp8Inputs]):
    """The upstream wrapper; `dispatched` says which of its kernels ran."""

    family = "mxfp8"
    op = Op.GEMM
    name = "aiter_mx"
    role = Role.UPSTREAM

    def supports(self, problem: Problem, scheme: MxFp8, device: Device) -> Support:
        """Where aiter with these kernels is installed, on gfx950; which problems it takes shows when it is called."""
        return support(needs.AITER_MX, _FILES, device, ("gfx950",))

    def prepare(self, inputs: MxFp8Inputs, config: Config | None = None) -> Launch:
        """Import aiter and run once: its kernels are built at the first call.

        Raises DeclinedError when it returns None, with what its kernels raised, if they did.
        """
        module, function = find_function("aiter", _FILES, "mxfp8_gemv")

        def call() -> torch.Tensor:
            result: torch.Tensor | None = function(inputs.x, inputs.x_scale, inputs.w, inputs.w_scale, torch.bfloat16)
            if result is None:
                raise DeclinedError(f"aiter's mxfp8_gemv returned None for {inputs.problem}: it leaves it to Triton")
            return result

        launch = Launch.returning(call, inputs.empty_output())
        with watched(module, _ENTRY_POINTS) as calls:
            try:
                launch()
            except DeclinedError as error:
                raise _explained(error, calls) from None
        name, values = calls.made[-1] if calls.made else ("unknown", {})
        launch.config = {"aiter": version("aiter"), "kernel": name, **values}
        launch.kernels = (name,)
        launch.dispatched = " ".join((name, *(f"{key}={value}" for key, value in values.items())))
        return launch

    def moved_bytes(self, problem: Problem, scheme: MxFp8, config: Config) -> int | None:
        """Operands and Y once; also the fp32 parts of a divided K, and the padding of rows."""
        total = scheme.compulsory_bytes(problem)
        if config.get("kernel") == "smallm_mxfp8_mfma":
            splits = int(config["k_splits"])
            return total + (2 * 4 * problem.M * problem.N * splits if splits > 1 else 0)
        if config.get("kernel") != "smallm_mxfp8_gemv":
            return None
        rows = next((tile for tile in _GEMV_ROWS if tile >= problem.M), problem.M)
        if rows == problem.M:
            return total
        row = problem.K + problem.K // BLOCK
        # Zeros are written, X is copied over them, the kernel reads all rows; of Y the first M are copied.
        padded_x = rows * row + problem.M * row + rows * row
        padded_y = 2 * problem.N * (rows + problem.M)
        return total + padded_x + padded_y


def _explained(declined: DeclinedError, calls: Calls) -> Exception:
    """What really happened: it declined, or one of its kernels raised and the wrapper hid it."""
    if not calls.raised:
        return declined
    return DeclinedError(f"aiter's mxfp8_gemv hid an error and returned None: {'; '.join(calls.raised)}")


AITER_MX: Provider[Any, Any] = AiterMx()

"""bitsandbytes itself, as its users call it: the fused GEMM, the GEMV, and dequantize + linear.

Read against bitsandbytes 0.50.2. Its ops are called through their `out` variants where its backend has them (CUDA and
ROCm: GEMV and dequantization); the others allocate their result, and the launch rebinds its output to it instead of
copying.
"""

import importlib
import logging
import warnings
from abc import abstractmethod
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import Any

import torch

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.scheme import DType
from ...shapes.schemes.fourbit import FourBit
from ...shapes.schemes.w4a16 import W4A16
from ..needs import BITSANDBYTES, NO_BF16_CPU
from ..provider import Config, Launch, Provider, Role, Support
from . import bitsandbytes_dispatch as dispatch
from .inputs import FourBitInputs

_CPU_ROWS_PER_PANEL = 32
"""The CPU's GEMV takes W in panels of so many rows."""

_GPU_LOAD_ELEMENTS = 32
"""The GPU's GEMV loads W 16 bytes at a time, from addresses that it rounds down: rows must be whole loads."""


class _Bitsandbytes(Provider[FourBit, FourBitInputs]):
    """What the three have in common: availability, and a launch whose `output` is what the library returned last."""

    family = "fourbit"
    role = Role.UPSTREAM

    def supports(self, problem: Problem, scheme: FourBit, device: Device) -> Support:
        """Installed, and able to read these blocks on this device."""
        if isinstance(scheme, W4A16):
            return Support.no(f"bitsandbytes has NF4 and FP4 of its own, not {scheme.name}")
        if missing := BITSANDBYTES.missing():
            return Support.no(missing)
        if not device.is_gpu and dispatch.cpu_misreads_absmax(problem, scheme):
            return Support.no(
                f"bitsandbytes on the CPU reads the wrong absmax when K={problem.K} is not a multiple of the block "
                f"size {scheme.group}: choose another block size"
            )
        return Support.yes()

    def prepare(self, inputs: FourBitInputs, config: Config | None = None) -> Launch:
        """Import bitsandbytes, arrange its arguments, and call it once: kernels load and compile on first use."""
        library = import_quietly()
        call = self._call(library, inputs)
        kernel = self._dispatched(inputs)
        config = {"bitsandbytes": library.__version__, "kernel": kernel}
        launch = Launch.returning(call, inputs.empty_output(), config, dispatched=kernel)
        warnings.filterwarnings("ignore", message="inner dimension .* is not aligned")  # `dispatched` says it already
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            launch()
        return launch

    def moved_bytes(self, problem: Problem, scheme: FourBit, config: Config) -> int | None:
        """Known for its SIMT and GEMV kernels and for dequantize + linear.

        SIMT reads W and its scales once per 8 rows of X; a nested absmax is rebuilt in memory except in SIMT.
        """
        kernel = config["kernel"]
        elements = problem.B * problem.N * problem.K
        weight = scheme.weight_bytes(problem) + scheme.scale_bytes(problem)
        rebuilt = 2 * 4 * -(-elements // scheme.group) if scheme.nested else 0
        rest = scheme.activation_bytes(problem) + scheme.bias_bytes(problem) + scheme.output_bytes(problem)
        if kernel == dispatch.DEQUANT_LINEAR:
            return weight + rebuilt + 2 * elements * scheme.dtype.bytes + rest
        if kernel == dispatch.GEMV:
            return weight + rebuilt + rest
        return weight * -(-problem.M // 8) + rest if kernel == dispatch.SIMT else None

    @abstractmethod
    def _call(self, library: ModuleType, inputs: FourBitInputs) -> Callable[[], torch.Tensor]:
        """Return the call that yields Y."""

    @abstractmethod
    def _dispatched(self, inputs: FourBitInputs) -> str:
        """Which kernel that call runs."""


class Gemm(_Bitsandbytes):
    """`bitsandbytes::gemm_4bit`, nested absmax and bias included; its rule chooses a fused kernel or the fallback."""

    name = "bitsandbytes_gemm"

    def _call(self, library: ModuleType, inputs: FourBitInputs) -> Callable[[], torch.Tensor]:
        arguments = _weight_arguments(inputs)
        keywords: dict[str, Any] = {"bias": inputs.bias}
        if inputs.nested:
            arguments[2] = inputs.nested.scale
            keywords |= {
                "absmax_8bit": inputs.nested.q,
                "absmax_code": inputs.nested.code,
                "absmax_offset": inputs.nested.offset,
            }
        gemm = torch.ops.bitsandbytes.gemm_4bit.default
        return lambda: gemm(inputs.x, *arguments, **keywords)

    def _dispatched(self, inputs: FourBitInputs) -> str:
        return dispatch.gemm_kernel(inputs.problem, inputs.scheme, inputs.device)


class Gemv(_Bitsandbytes):
    """`bitsandbytes::gemv_4bit`: one row on GPUs; on CPUs with AVX-512 BF16 its kernel takes any M, in bf16.

    absmax is rebuilt from a nested one and the bias is added outside the op, as `bitsandbytes.functional` does.
    """

    name = "bitsandbytes_gemv"

    def supports(self, problem: Problem, scheme: FourBit, device: Device) -> Support:
        """M = 1 and K a multiple of 32 on GPUs; on CPUs bf16, K a multiple of the block size and N of 32."""
        support = super().supports(problem, scheme, device)
        if not support.ok:
            return support
        if device.is_gpu and problem.M != 1:
            return Support.no("its GEMV computes one row: M must be 1")
        if device.is_gpu and problem.K % _GPU_LOAD_ELEMENTS:
            return Support.no(f"its GEMV misreads rows of W when K is not a multiple of {_GPU_LOAD_ELEMENTS}")
        if device.is_gpu:
            return Support.yes()
        if scheme.dtype is not DType.BF16:
            return Support.no(f"its GEMV computes in bf16 on the CPU, below the accuracy of {scheme.dtype}: use bf16")
        if problem.K % scheme.group or problem.N % _CPU_ROWS_PER_PANEL:
            return Support.no(f"its GEMV needs N % {_CPU_ROWS_PER_PANEL} = 0 and K % {scheme.group} = 0 on the CPU")
        if not dispatch.cpu_has_gemv():
            return Support.no(NO_BF16_CPU)
        return Support.yes()

    def _call(self, library: ModuleType, inputs: FourBitInputs) -> Callable[[], torch.Tensor]:
        packed, shape, absmax, group, _ = _weight_arguments(inputs)
        rebuild = _rebuild(inputs)
        if not inputs.device.is_gpu:
            packed, absmax = _cpu_layout(library, inputs)
            rebuild = None  # its CPU layout stores absmax in bf16, never nested
        gemv, x, bias, code = torch.ops.bitsandbytes.gemv_4bit, inputs.x, inputs.bias, inputs.code
        out = inputs.empty_output()

        def call() -> torch.Tensor:
            scales = rebuild() if rebuild else absmax
            if x.is_cuda:
                gemv.out(x, packed, shape, scales, code, group, out=out)
                result = out
            else:
                result = gemv.default(x, packed, shape, scales, code, group)
            return result if bias is None else result.add_(bias)

        return call

    def _dispatched(self, inputs: FourBitInputs) -> str:
        return dispatch.gemv_kernel(inputs.device)


class DequantLinear(_Bitsandbytes):
    """`bitsandbytes::dequantize_4bit` (absmax rebuilt first when nested), then torch's linear: its path for large M."""

    name = "bitsandbytes_dequant"

    def working_set_bytes(self, problem: Problem, scheme: FourBit, config: Config) -> int:
        """What it reads as stored, and the dense weight in between."""
        dense = problem.B * problem.N * problem.K * scheme.dtype.bytes
        return super().working_set_bytes(problem, scheme, config) + dense

    def _call(self, library: ModuleType, inputs: FourBitInputs) -> Callable[[], torch.Tensor]:
        packed, shape, absmax, group, kind = _weight_arguments(inputs)
        rebuild = _rebuild(inputs)
        dequantize, x, bias = torch.ops.bitsandbytes.dequantize_4bit, inputs.x, inputs.bias
        buffer = torch.empty(shape, dtype=x.dtype, device=x.device) if x.is_cuda else None

        def call() -> torch.Tensor:
            scales = rebuild() if rebuild else absmax
            if buffer is None:
                weight = dequantize.default(packed, scales, group, kind, shape, x.dtype)
            else:
                dequantize.out(packed, scales, group, kind, shape, x.dtype, out=buffer)
                weight = buffer
            return torch.nn.functional.linear(x, weight, bias)

        return call

    def _dispatched(self, inputs: FourBitInputs) -> str:
        return dispatch.DEQUANT_LINEAR


GEMM = Gemm()
GEMV = Gemv()
DEQUANT_LINEAR = DequantLinear()


@cache
def import_quietly() -> ModuleType:
    """Import bitsandbytes without the line that it logs on CPUs when Hugging Face's `kernels` is absent."""
    logger = logging.getLogger("bitsandbytes")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("bitsandbytes")
    finally:
        logger.setLevel(level)


def _weight_arguments(inputs: FourBitInputs) -> list[Any]:
    """B [(N*K+1)//2, 1], shape [N, K], absmax, blocksize, quant_type, in the order that its ops take them."""
    shape = [inputs.problem.N, inputs.problem.K]
    return [inputs.packed.view(-1, 1), shape, inputs.absmax, inputs.scheme.group, inputs.scheme.weight]


def _rebuild(inputs: FourBitInputs) -> Callable[[], torch.Tensor] | None:
    """The call that makes fp32 absmax from a nested one, None when it is not nested."""
    nested = inputs.nested
    if nested is None:
        return None
    dequantize = torch.ops.bitsandbytes.dequantize_blockwise.default
    return lambda: dequantize(nested.q, nested.scale, nested.code, 256, torch.float32).add_(nested.offset)


def _cpu_layout(library: ModuleType, inputs: FourBitInputs) -> tuple[torch.Tensor, torch.Tensor]:
    """W in panels of 32 rows, and absmax in bf16 [K/group, N], by its own converter (as its Linear4bit does)."""
    functional = library.functional
    state = functional.QuantState(
        absmax=inputs.absmax,
        shape=torch.Size((inputs.problem.N, inputs.problem.K)),
        code=inputs.code,
        blocksize=inputs.scheme.group,
        quant_type=inputs.scheme.weight,
        dtype=inputs.dtype,
    )
    packed, state = functional._convert_weight_packed_for_cpu(inputs.packed, state)
    return packed, state.absmax

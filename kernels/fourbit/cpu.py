"""The 4-bit GEMM of the CPU, and the dequantization that its baseline uses, both in C++ (cpu.cpp).

`simd_4bit_cpu` decodes weights in vector registers and accumulates in fp32: nothing is rounded but the output. Scales
of INT4, MXFP4 and NVFP4 are widened to fp32 when weights are repacked.
"""

import math
from collections.abc import Callable

import torch

from ...shapes.device import Device
from ...shapes.errors import UsageError
from ...shapes.problem import Problem
from ...shapes.schemes.fourbit import FourBit
from ...shapes.schemes.w4a16 import W4A16
from ..provider import Config, Launch, Provider, Support
from .cpu_library import NO_COMPILER, Call, artifact, compiler_command, compiler_version
from .inputs import FourBitInputs

ROWS, CHUNK, BLOCK_M = 16, 8, 240
"""Layout of the packed weights, and the batch rows that pass over them together, as in cpu.cpp."""

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
"""Element types in the order of their numbers in cpu.cpp."""


class SimdCpu(Provider[FourBit, FourBitInputs]):
    """Fused decode + GEMM in C++; an activation meets a vector of rows of W."""

    family = "fourbit"
    name = "simd_4bit_cpu"
    sources = ("cpu.cpp", "cpu_library.py")

    def supports(self, problem: Problem, scheme: FourBit, device: Device) -> Support:
        """On the CPU, unbatched, with scales that need no second look-up and a C++ compiler (found, not run)."""
        if device.kind != "cpu":
            return Support.no("runs on the CPU only")
        if isinstance(scheme, W4A16) and scheme.zero_point:
            return Support.no("zero points are not implemented: choose a symmetric scheme")
        if scheme.nested:
            return Support.no("nested scales are not implemented: choose a scheme without")
        if problem.B != 1:
            return Support.no("batched GEMMs are not implemented")
        if problem.K % CHUNK:
            return Support.no(f"K must be a multiple of {CHUNK}")
        return Support.yes() if compiler_command() else Support.no(NO_COMPILER)

    def math_dtype(self, problem: Problem, scheme: FourBit, device: Device) -> str:
        """fp32, whatever the type of the activations: they are widened."""
        return "fp32"

    def prepare(self, inputs: FourBitInputs, config: Config | None = None) -> Launch:
        """Repack the weights into panels of 16 rows, and absmax to match. `config` may choose "threads"."""
        problem, group = inputs.problem, _group(inputs.problem, inputs.scheme)
        M, N, K = problem.M, problem.N, problem.K
        threads = _threads(config)
        if not inputs.x.is_contiguous():
            raise UsageError(f"{self.name}: x must be contiguous")
        out, panels = inputs.empty_output(), -(-N // ROWS)
        weights = torch.zeros(panels, K // CHUNK, ROWS, dtype=torch.int32)
        Call("pack", inputs.packed, weights, N, K, threads)()
        blocks = inputs.absmax.repeat_interleave(inputs.scheme.group // group)[: N * K // group]
        rows = torch.zeros(panels * ROWS, K // group)
        rows[:N] = blocks.view(N, -1)
        scales = rows.view(panels, ROWS, -1).transpose(1, 2).contiguous()
        copy, dtype = torch.empty(M * K), DTYPES.index(inputs.dtype)
        operands = (inputs.x, weights, scales, inputs.code, inputs.bias, out, copy)
        call = Call("gemm", *operands, M, N, K, group, dtype, threads)
        ran = {"threads": threads, "vector_bits": 32 * Call("lanes")(), "compiler": compiler_version()}
        return Launch(call, out, ran, kernels=("gemm_4bit",), artifact=artifact())

    def moved_bytes(self, problem: Problem, scheme: FourBit, config: Config) -> int | None:
        """Count W and its scales once per 240 rows of X, X and its copy in fp32 (written and read) once, Y once.

        Of the packed layout, padding included. Reads from caches by further tiles are not memory traffic.
        """
        weights = -(-problem.N // ROWS) * ROWS * problem.K
        packed = weights // 2 + 4 * weights // _group(problem, scheme)
        copy = 2 * 4 * problem.M * problem.K
        x, y, bias = scheme.activation_bytes(problem), scheme.output_bytes(problem), scheme.bias_bytes(problem)
        return -(-problem.M // BLOCK_M) * packed + x + copy + y + bias


SIMD_CPU = SimdCpu()


def prepare_dequantize(inputs: FourBitInputs, out: torch.Tensor, config: Config | None = None) -> Callable[[], object]:
    """Return a call that writes W[N,K] into `out` (bf16, fp16 or fp32, contiguous), bit-identical to `dequantized`.

    It runs at the speed of memory: 4-bit weights and absmax read, `out` written; scales that are stored in fewer bits
    than fp32 has are rebuilt first, at every call. `config` may choose "threads" and "streaming" (stores that bypass
    the caches).
    """
    problem, weight = inputs.problem, inputs.weight
    if tuple(out.shape) != (problem.N, problem.K) or not out.is_contiguous() or out.dtype not in DTYPES:
        raise ValueError(f"out must be a contiguous [{problem.N}, {problem.K}] tensor of bf16, fp16 or fp32")
    streaming = bool((config or {}).get("streaming")) and out.data_ptr() % 64 == 0
    rebuilt = inputs.nested is not None or inputs.groups is not None
    absmax = torch.empty_like(weight.absmax) if rebuilt else weight.absmax
    zero = None if weight.zero is None else torch.empty_like(weight.zero)
    sizes = (weight.numel, weight.group, DTYPES.index(out.dtype), streaming, _threads(config))
    dequantize = Call("dequantize", weight.packed, absmax, zero, inputs.code, out, *sizes)
    if not rebuilt:
        return dequantize

    def from_stored_scales() -> None:
        for buffer, values in zip((absmax, zero), weight.rebuild(), strict=True):
            if buffer is not None:
                buffer.copy_(values)
        dequantize()

    return from_stored_scales


def _group(problem: Problem, scheme: FourBit) -> int:
    """Columns of one row that surely share one absmax: the block size if it divides K, else a smaller power of two."""
    return math.gcd(problem.K, scheme.group)


def _threads(config: Config | None) -> int:
    """Return the number of threads: torch's, or the one that is wanted."""
    threads: int = (config or {}).get("threads", torch.get_num_threads())
    if threads < 1:
        raise UsageError(f"threads={threads}: at least one is needed")
    return threads

"""The fused 4-bit GEMM on the CPU, and the dequantization that its baseline uses.

`simd_4bit_cpu` decodes weights in vector registers (AVX-512, AVX2 or portable code, chosen at run time) and accumulates
in fp32; see cpu_gemm.cpp. Rounding beyond that of the output: none for fp16 and fp32, nor for bf16 without AVX512_BF16.
With it (vdpbf16ps: bf16 pairs into fp32 sums, subnormals flushed) the `stream` kernel rounds the sixteen codes to bf16
and keeps absmax in fp32, and the `panel` kernel rounds code * absmax to bf16, as dequantizing to bf16 does.

Scales of INT4, MXFP4 and NVFP4 are widened to fp32 when weights are repacked; a nested absmax is rebuilt in the launch.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ...shapes.device import Device
from ...shapes.errors import UsageError
from ...shapes.problem import Problem
from ...shapes.scheme import DType
from ...shapes.schemes.fourbit import NESTED_BLOCK_SIZE, FourBit
from ...shapes.schemes.w4a16 import W4A16
from ..provider import Config, Launch, Provider, Support
from . import cpu_build
from .cpu_library import (
    CHUNK,
    DTYPE_NUMBERS,
    PAIR,
    ROWS,
    Call,
    DequantizeArguments,
    GemmArguments,
    Isa,
    Kernel,
    artifact,
    instruction_sets,
    library,
    pack,
    padded_rows,
    team,
)
from .inputs import FourBitInputs

STREAM_MAX_M = {Isa.portable: 2, Isa.avx2: 8}
"""Largest M that the `stream` kernel is the default for; beyond, decoding once into a panel is cheaper. With AVX-512 a
lookup is one instruction, and decoding again for every register tile never loses (measured up to M = 256)."""

BLOCK_M = 264
"""Batch rows that pass over W together (cpu_gemm.cpp): W is read again for each further block."""

LEAST_GROUP = 32
"""Scales are repacked per gcd(K, block size) columns, which lie in one row and one block, unless there are fewer (and
the block size itself is no smaller)."""


class SimdCpu(Provider[FourBit, FourBitInputs]):
    """Fused decode + GEMM in C++; one row of X meets sixteen rows of W per vector instruction."""

    family = "fourbit"
    name = "simd_4bit_cpu"
    sources = (*cpu_build.SOURCES, "cpu_build.py", "cpu_library.py")

    def supports(self, problem: Problem, scheme: FourBit, device: Device) -> Support:
        """On the CPU, unbatched, without zero points, with a C++ compiler (which is looked for, not run)."""
        if device.kind != "cpu":
            return Support.no("runs on the CPU only")
        if isinstance(scheme, W4A16) and scheme.zero_point:
            return Support.no("zero points are not implemented: choose a symmetric scheme")
        if problem.B != 1:
            return Support.no("batched GEMMs are not implemented")
        if cpu_build.compiler_command() is None:
            return Support.no(cpu_build.NO_COMPILER)
        return Support.yes()

    def candidates(self, problem: Problem, scheme: FourBit, device: Device) -> Sequence[Config]:
        """Return both kernels, the default of this CPU first; `panel` alone when K % 32 != 0."""
        default = _default_kernel(problem, scheme, instruction_sets()[-1])
        if _straddles(problem, scheme):
            return ({"kernel": default.value},)
        return tuple({"kernel": kernel.value} for kernel in sorted(Kernel, key=lambda kernel: kernel is not default))

    def prepare(self, inputs: FourBitInputs, config: Config | None = None) -> Launch:
        """Repack the weights into pairs of tiles of 16 rows x 8 columns (four bits each), and absmax to match.

        `config` may choose "kernel" (stream, panel), "isa" (portable, avx2, avx512, avx512bf16) and "threads".
        """
        problem, scheme = inputs.problem, inputs.scheme
        wanted = dict(config or {})
        isa = _instruction_set(wanted.get("isa"))
        threads = _threads(wanted.get("threads"))
        name = wanted.get("kernel", _default_kernel(problem, scheme, isa).value)
        if name not in list(Kernel):
            raise UsageError(f"{self.name}: unknown kernel {name!r}: {', '.join(Kernel)}")
        kernel = Kernel(name)
        straddled = _straddles(problem, scheme)
        if straddled and kernel is Kernel.STREAM:
            raise UsageError(f"{self.name}: kernel 'stream' needs K % 32 == 0, not K={problem.K}: use 'panel'")
        if not inputs.x.is_contiguous():
            raise UsageError(f"{self.name}: x must be contiguous")
        out = inputs.empty_output()
        weights = pack(inputs.packed, problem.N, problem.K, threads)
        nested = inputs.nested
        scales = _tiled_scales(nested.q if nested else inputs.absmax, problem, scheme, straddled)
        arguments = GemmArguments(
            x=inputs.x.data_ptr(),
            w=weights.data_ptr(),
            scales=scales.data_ptr(),
            nested_code=nested.code.data_ptr() if nested else None,
            nested_scale=nested.scale.data_ptr() if nested else None,
            nested_offset=float(nested.offset) if nested else 0.0,
            bias=inputs.bias.data_ptr() if inputs.bias is not None else None,
            y=out.data_ptr(),
            M=problem.M,
            N=problem.N,
            K=problem.K,
            group_log2=_group(problem, scheme).bit_length() - 1,
            block_log2=scheme.group.bit_length() - 1,
            nested=nested is not None,
            straddled=straddled,
            dtype=DTYPE_NUMBERS[inputs.dtype],
            kernel=list(Kernel).index(kernel),
            isa=isa,
            threads=threads,
        )
        arguments.code[:] = inputs.code.tolist()
        scratch = torch.empty(library().rooflens_scratch_bytes(arguments), dtype=torch.uint8)
        arguments.scratch = scratch.data_ptr()
        ran: dict[str, Any] = {
            "kernel": kernel.value,
            "isa": isa.name,
            "threads": threads,
            "team": team(),
            "layout": f"{PAIR}x{ROWS} rows x {CHUNK} columns",
            "compiler": cpu_build.compiler_version(),
        }
        call = Call(library().rooflens_gemm, arguments, inputs, weights, scales, scratch, out)
        return Launch(call, out, ran, kernels=(f"{kernel.value}_{isa.name}",), artifact=artifact())

    def moved_bytes(self, problem: Problem, scheme: FourBit, config: Config) -> int | None:
        """Count W and its scales once per 264 rows of X, X and its repacked copy (written and read) once, Y once.

        Of the packed layout, padding included. Reads from L2 by further register tiles are not memory traffic.
        """
        rows, K = padded_rows(problem.N), problem.K
        columns = -(-K // CHUNK) * CHUNK
        if _straddles(problem, scheme):
            scales = scheme.scale_bytes(problem) if scheme.nested else 4 * -(-problem.N * K // scheme.group)
        else:
            groups = rows * K // _group(problem, scheme)
            second = 4 * -(-problem.N * K // (scheme.group * NESTED_BLOCK_SIZE)) + 4 * 256 + 4
            scales = groups + second if scheme.nested else 4 * groups
        passes = -(-problem.M // BLOCK_M)
        pairs = scheme.dtype is DType.BF16 and config.get("isa") == Isa.avx512bf16.name
        in_place = problem.M == 1 and K % CHUNK == 0 and (pairs or scheme.dtype is DType.FP32)
        copy = 0 if in_place else 2 * problem.M * columns * (2 if pairs else 4)
        x, y, bias = scheme.activation_bytes(problem), scheme.output_bytes(problem), scheme.bias_bytes(problem)
        return passes * (rows * columns // 2 + scales) + x + copy + y + bias


SIMD_CPU = SimdCpu()


def prepare_dequantize(inputs: FourBitInputs, out: torch.Tensor, config: Config | None = None) -> Callable[[], None]:
    """Return a call that writes W[N,K] into `out` (bf16, fp16 or fp32, contiguous), bit-identical to `dequantized`.

    It runs at the speed of memory: 4-bit weights and absmax read, `out` written; scales that are stored in fewer bits
    than fp32 has are rebuilt into a buffer first, at every call. `config` may choose "isa", "threads" and "streaming"
    (stores that bypass the caches).
    """
    problem, scheme, weight = inputs.problem, inputs.scheme, inputs.weight
    if tuple(out.shape) != (problem.N, problem.K) or not out.is_contiguous() or out.dtype not in DTYPE_NUMBERS:
        raise ValueError(f"out must be a contiguous [{problem.N}, {problem.K}] tensor of bf16, fp16 or fp32")
    wanted = dict(config or {})
    isa = _instruction_set(wanted.get("isa"))
    threads = _threads(wanted.get("threads"))
    aligned = out.data_ptr() % 64 == 0
    nested, groups = inputs.nested, inputs.groups
    absmax = torch.empty_like(inputs.absmax) if nested or groups else inputs.absmax
    zero = None if weight.zero is None else torch.empty_like(weight.zero)
    arguments = DequantizeArguments(
        packed=weight.packed.data_ptr(),
        absmax=absmax.data_ptr(),
        zero=None if zero is None else zero.data_ptr(),
        out=out.data_ptr(),
        numel=weight.numel,
        group_log2=scheme.group.bit_length() - 1,
        dtype=DTYPE_NUMBERS[out.dtype],
        streaming=aligned and bool(wanted.get("streaming", False)),
        isa=isa,
        threads=threads,
    )
    arguments.code[:] = inputs.code.tolist()
    dequantize = Call(library().rooflens_dequantize, arguments, inputs, absmax, zero, out)
    if groups is not None:

        def from_groups() -> None:
            for buffer, values in zip((absmax, zero), groups.rebuild(), strict=True):
                if buffer is not None:
                    buffer.copy_(values)
            dequantize()

        return from_groups
    if nested is None:
        return dequantize
    rebuild = library().rooflens_rebuild_absmax
    pointers = (nested.q.data_ptr(), nested.scale.data_ptr(), nested.code.data_ptr(), float(nested.offset))
    target, blocks = absmax.data_ptr(), absmax.numel()

    def both() -> None:
        rebuild(*pointers, target, blocks, threads)
        dequantize()

    return both


def _group(problem: Problem, scheme: FourBit) -> int:
    """Columns of one row that surely share one absmax: the block size if it divides K, else a smaller power of two."""
    return math.gcd(problem.K, scheme.group)


def _straddles(problem: Problem, scheme: FourBit) -> bool:
    return _group(problem, scheme) < min(LEAST_GROUP, scheme.group)


def _default_kernel(problem: Problem, scheme: FourBit, isa: Isa) -> Kernel:
    stream = not _straddles(problem, scheme) and STREAM_MAX_M.get(isa, problem.M) >= problem.M
    return Kernel.STREAM if stream else Kernel.PANEL


def _instruction_set(name: str | None) -> Isa:
    """Return the best instruction set of this CPU, or the one that is named."""
    usable = instruction_sets()
    if name is None:
        return usable[-1]
    if name not in [isa.name for isa in usable]:
        raise UsageError(f"isa {name!r} is not available here: {', '.join(isa.name for isa in usable)}")
    return Isa[name]


def _threads(wanted: int | None) -> int:
    """Return the number of threads: torch's, or the one that is wanted."""
    threads = torch.get_num_threads() if wanted is None else wanted
    if threads < 1:
        raise UsageError(f"threads={threads}: at least one is needed")
    return threads


def _tiled_scales(blocks: torch.Tensor, problem: Problem, scheme: FourBit, straddled: bool) -> torch.Tensor:
    """[cd(N*K, block)] in the format's order -> [pairs, K/group, 2*16], zero beyond N; straddling blocks stay flat."""
    if straddled:
        return blocks.contiguous()
    group = _group(problem, scheme)
    groups = problem.K // group
    repeated = blocks.repeat_interleave(scheme.group // group)[: problem.N * groups]
    rows = torch.zeros(padded_rows(problem.N), groups, dtype=blocks.dtype)
    rows[: problem.N] = repeated.view(problem.N, groups)
    return rows.view(-1, PAIR * ROWS, groups).transpose(1, 2).contiguous()

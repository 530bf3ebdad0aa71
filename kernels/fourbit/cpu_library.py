"""The CPU library as typed Python functions: one-to-one with the C interface of cpu_entry.cpp, over torch tensors.

Nothing here allocates in the timed path: a `Call` holds a filled argument block, and calling it is one foreign call
that releases the interpreter lock.
"""

import ctypes
import hashlib
import os
from collections.abc import Callable
from enum import IntEnum, StrEnum
from functools import cache

import torch

from ...shapes.errors import unknown_name
from .cpu_build import build

ROWS, CHUNK, PAIR = 16, 8, 2
"""Layout of the packed weights: tiles of 16 rows in pairs, 8 columns to a 32-bit word (cpu_api.hpp)."""

DTYPE_NUMBERS = {torch.bfloat16: 0, torch.float16: 1, torch.float32: 2}
"""Number of each element type in the C interface."""


FILLING = 0x9E3779B97F4A7C15
"""What the first pass of a fill writes; not zero, which some machines write faster."""


class Kernel(StrEnum):
    """The two kernels of the GEMM, in the order of their numbers."""

    STREAM = "stream"
    PANEL = "panel"


class Isa(IntEnum):
    """Instruction sets with a path of their own, each one including those before it."""

    portable = 0
    avx2 = 1
    avx512 = 2
    avx512bf16 = 3


class GemmArguments(ctypes.Structure):
    """`Gemm` of cpu_api.hpp, field by field."""

    _fields_ = (
        ("x", ctypes.c_void_p),
        ("w", ctypes.c_void_p),
        ("scales", ctypes.c_void_p),
        ("nested_code", ctypes.c_void_p),
        ("nested_scale", ctypes.c_void_p),
        ("bias", ctypes.c_void_p),
        ("y", ctypes.c_void_p),
        ("scratch", ctypes.c_void_p),
        ("M", ctypes.c_int64),
        ("N", ctypes.c_int64),
        ("K", ctypes.c_int64),
        ("code", ctypes.c_float * 16),
        ("nested_offset", ctypes.c_float),
        ("group_log2", ctypes.c_int32),
        ("block_log2", ctypes.c_int32),
        ("nested", ctypes.c_int32),
        ("straddled", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("kernel", ctypes.c_int32),
        ("isa", ctypes.c_int32),
        ("threads", ctypes.c_int32),
    )


class DequantizeArguments(ctypes.Structure):
    """`Dequantize` of cpu_api.hpp, field by field."""

    _fields_ = (
        ("packed", ctypes.c_void_p),
        ("absmax", ctypes.c_void_p),
        ("zero", ctypes.c_void_p),
        ("out", ctypes.c_void_p),
        ("numel", ctypes.c_int64),
        ("code", ctypes.c_float * 16),
        ("group_log2", ctypes.c_int32),
        ("dtype", ctypes.c_int32),
        ("streaming", ctypes.c_int32),
        ("isa", ctypes.c_int32),
        ("threads", ctypes.c_int32),
    )


class StreamArguments(ctypes.Structure):
    """`Stream` of cpu_api.hpp, field by field."""

    _fields_ = (
        ("from", ctypes.c_void_p),
        ("to", ctypes.c_void_p),
        ("bytes", ctypes.c_int64),
        ("passes", ctypes.c_int64),
        ("sum", ctypes.c_uint64),
        ("streaming", ctypes.c_int32),
        ("isa", ctypes.c_int32),
        ("threads", ctypes.c_int32),
    )


class Call:
    """One foreign call with its arguments and the tensors that they point into."""

    __slots__ = ("arguments", "function", "kept", "pointer")

    def __init__(self, function: Callable[..., object], arguments: ctypes.Structure, *kept: object) -> None:
        self.function, self.arguments, self.kept = function, arguments, kept
        self.pointer = ctypes.byref(arguments)

    def __call__(self) -> None:
        """Run it."""
        self.function(self.pointer)


@cache
def library() -> ctypes.CDLL:
    """Load the library, building it first if need be. Raises BuildError."""
    loaded = ctypes.CDLL(str(build()))
    pointer, size, number = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    signatures: dict[str, tuple[list[type], type | None]] = {
        "has_isa": ([number], number),
        "uses_openmp": ([], number),
        "force_pool": ([number], None),
        "scratch_bytes": ([ctypes.POINTER(GemmArguments)], size),
        "gemm": ([ctypes.POINTER(GemmArguments)], None),
        "pack": ([pointer, pointer, size, size, number], None),
        "dequantize": ([ctypes.POINTER(DequantizeArguments)], None),
        "rebuild_absmax": ([pointer, pointer, pointer, ctypes.c_float, pointer, size, number], None),
        "stream": ([ctypes.POINTER(StreamArguments)], None),
        "nothing": ([ctypes.POINTER(StreamArguments)], None),
    }
    for name, (arguments, result) in signatures.items():
        function = getattr(loaded, f"rooflens_{name}")
        function.argtypes, function.restype = arguments, result
    return loaded


@cache
def artifact() -> str:
    """Hash of the built library."""
    return hashlib.sha256(build().read_bytes()).hexdigest()[:16]


@cache
def instruction_sets() -> tuple[Isa, ...]:
    """Instruction sets that this CPU can run, the best last; none above ROOFLENS_CPU_ISA, where that is set.

    So a lesser CPU can be had on a better one: ROOFLENS_CPU_ISA=avx2 masks AVX-512, ROOFLENS_CPU_ISA=portable AVX2 too.
    It is read once. Raises UsageError for a name that is none of Isa.
    """
    best = os.environ.get("ROOFLENS_CPU_ISA") or Isa.avx512bf16.name
    if best not in Isa.__members__:
        raise unknown_name("instruction set (ROOFLENS_CPU_ISA)", best, list(Isa.__members__))
    return tuple(isa for isa in Isa if isa <= Isa[best] and library().rooflens_has_isa(isa))


def team() -> str:
    """What runs the threads: "openmp" (the runtime that torch brought into the process) or "threads" (our own)."""
    return "openmp" if library().rooflens_uses_openmp() else "threads"


def padded_rows(N: int) -> int:
    """Rows of W that the packed layout holds for N: whole pairs of tiles."""
    return -(-N // (PAIR * ROWS)) * PAIR * ROWS


def pack(packed: torch.Tensor, N: int, K: int, threads: int) -> torch.Tensor:
    """Repack bitsandbytes' nibbles, uint8 [(N*K+1)//2], into int32 [padded_rows(N)/32, cd(K,8), 2, 16]."""
    tiles = torch.empty(padded_rows(N) // (PAIR * ROWS), -(-K // CHUNK), PAIR, ROWS, dtype=torch.int32)
    library().rooflens_pack(packed.data_ptr(), tiles.data_ptr(), N, K, threads)
    return tiles


def stream_call(
    read_from: torch.Tensor | None,
    write_to: torch.Tensor | None,
    threads: int,
    passes: int = 1,
    streaming: bool = False,
    isa: Isa | None = None,
) -> Call:
    """Build a call that sweeps `passes` times over one tensor (reads or fills it) or two (copies), on the CPU.

    Each thread keeps to one contiguous share. Pass p of a fill, from 1, puts p x `FILLING` into every 64-bit word.
    `streaming` stores bypass the caches. Raises ValueError for tensors that are not contiguous, of different sizes, or
    (where written) not of whole, aligned cache lines of 64 bytes.
    """
    tensors = [tensor for tensor in (read_from, write_to) if tensor is not None]
    if not tensors or any(not tensor.is_contiguous() or tensor.device.type != "cpu" for tensor in tensors):
        raise ValueError("stream: the data must be a contiguous tensor on the CPU")
    size = tensors[0].nbytes
    if any(tensor.nbytes != size for tensor in tensors):
        raise ValueError("stream: a copy needs two tensors of one size")
    if write_to is not None and (size % 64 or write_to.data_ptr() % 64):
        raise ValueError("stream: what is written must be whole cache lines of 64 bytes")
    arguments = StreamArguments(
        read_from.data_ptr() if read_from is not None else None,
        write_to.data_ptr() if write_to is not None else None,
        size,
        passes,
        0,
        streaming,
        instruction_sets()[-1] if isa is None else isa,
        threads,
    )
    return Call(library().rooflens_stream, arguments, *tensors)


def stream_read(data: torch.Tensor, threads: int, isa: Isa | None = None) -> int:
    """Read the bytes of a contiguous CPU tensor once, each thread a contiguous share, and return a checksum.

    The access pattern of a kernel that streams weights: the time of this call against `data.nbytes` is the read
    bandwidth of the level of memory that the data are in.
    """
    call = stream_call(data, None, threads, isa=isa)
    call()
    return int(call.arguments.sum)


def empty_call() -> Call:
    """Build a call that does nothing: what reaching the library costs."""
    return Call(library().rooflens_nothing, StreamArguments())

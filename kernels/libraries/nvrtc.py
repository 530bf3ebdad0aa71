"""CUDA C++ compiled at run time, and launched: NVRTC and the driver, which every torch for CUDA comes with.

Both are called through ctypes, as torch offers its own use of them in a private function only.
"""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeAlias

import torch

from ...shapes.errors import RooflensError
from ..provider import DeclinedError
from .shared_libraries import load_library

_MAX_DYNAMIC_SHARED = 8
"""CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES."""

_ELEMENT_TYPES = {torch.uint8: 0, torch.float16: 6, torch.float32: 7, torch.bfloat16: 9}
"""CUtensorMapDataType."""

_SWIZZLES, _PROMOTE_256 = {64: 2, 128: 3}, 3
"""CU_TENSOR_MAP_SWIZZLE_64B and _128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B."""


class CudaError(RooflensError):
    """NVRTC or the driver rejects something; the message is theirs."""


@dataclass(frozen=True, slots=True)
class Boxes:
    """A tensor as TMA copies it to shared memory, in boxes; what a box has beyond the tensor is 0.

    sizes    elements along each dimension, the contiguous one first
    strides  bytes from one element to the next along the others, multiples of 16
    box      elements of a box; its first dimension has 64 or 128 bytes, of which 16-byte pieces are permuted by the row
    """

    tensor: torch.Tensor
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]


Argument: TypeAlias = "torch.Tensor | Boxes | bytes | int | float | None"
"""Of a kernel: tensors and None are pointers, bytes are a struct, int is 32 bits, float is fp32."""


@cache
def _library() -> Any:
    """NVRTC: torch's, or that of an installed wheel. Raises DeclinedError where there is none."""
    major = (torch.version.cuda or "12").split(".")[0]
    missing = "NVRTC is not installed: it comes with torch for CUDA, or pip install nvidia-cuda-nvrtc-cu12"
    return load_library("libnvrtc.so", [major], missing)


def available() -> bool:
    """Return whether there is an NVRTC to compile with; a GPU is not needed."""
    try:
        _library()
    except DeclinedError:
        return False
    return True


def compile_cubin(source: str, options: Sequence[str]) -> tuple[bytes, str]:
    """Return machine code and what the compiler said; CudaError with its first lines when it rejects `source`."""
    nvrtc, program = _library(), ctypes.c_void_p()
    nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
    status = nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    if status:
        raise CudaError(f"NVRTC: {nvrtc.nvrtcGetErrorString(status).decode()}")
    try:
        words = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        status = nvrtc.nvrtcCompileProgram(program, len(options), words)
        log = _bytes(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).decode(errors="replace")
        if status:
            raise CudaError(f"NVRTC rejects the kernel: {' '.join(log.split())[:400] or status}")
        return _bytes(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program), log
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _bytes(size: Any, fill: Any, program: ctypes.c_void_p) -> bytes:
    number = ctypes.c_size_t()
    size(program, ctypes.byref(number))
    buffer = ctypes.create_string_buffer(number.value)
    fill(program, buffer)
    return buffer.raw.rstrip(b"\0") if fill.__name__.endswith("Log") else buffer.raw


class CudaKernel:
    """A function of a compiled module, loaded into torch's current device."""

    def __init__(self, cubin: bytes, name: str, shared_bytes: int) -> None:
        torch.cuda.current_stream()  # makes torch's context the current one
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._module, self._function, self._shared = ctypes.c_void_p(), ctypes.c_void_p(), shared_bytes
        self._check(self._driver.cuModuleLoadData(ctypes.byref(self._module), cubin))
        self._check(self._driver.cuModuleGetFunction(ctypes.byref(self._function), self._module, name.encode()))
        self._check(self._driver.cuFuncSetAttribute(self._function, _MAX_DYNAMIC_SHARED, shared_bytes))

    def call(self, grid: int, threads: int, arguments: Sequence[Argument]) -> "CudaCall":
        """Bind arguments: what it returns launches with them."""
        return CudaCall(self, grid, threads, arguments)

    def launch(self, grid: int, threads: int, arguments: Any) -> None:
        """Launch on torch's current stream."""
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self._check(
            self._driver.cuLaunchKernel(
                self._function, grid, 1, 1, threads, 1, 1, self._shared, stream, arguments, None
            )
        )

    def encoded(self, boxes: Boxes) -> Any:
        """Return the 128 bytes that describe `boxes` to TMA."""
        room = ctypes.create_string_buffer(128 + 64)
        encoded = (ctypes.c_char * 128).from_buffer(room, -ctypes.addressof(room) % 64)
        rank = len(boxes.sizes)
        self._check(
            self._driver.cuTensorMapEncodeTiled(
                encoded,
                _ELEMENT_TYPES[boxes.tensor.dtype],
                rank,
                ctypes.c_void_p(boxes.tensor.data_ptr()),
                (ctypes.c_uint64 * rank)(*boxes.sizes),
                (ctypes.c_uint64 * (rank - 1))(*boxes.strides),
                (ctypes.c_uint32 * rank)(*boxes.box),
                (ctypes.c_uint32 * rank)(*[1] * rank),
                0,  # not interleaved
                _SWIZZLES[boxes.box[0] * boxes.tensor.element_size()],
                _PROMOTE_256,
                0,  # zeros beyond the tensor
            )
        )
        return encoded

    def _check(self, status: int) -> None:
        if status:
            text = ctypes.c_char_p()
            self._driver.cuGetErrorString(status, ctypes.byref(text))
            raise CudaError(f"CUDA: {(text.value or b'').decode() or status}")


class CudaCall:
    """A launch with its arguments, which it keeps alive."""

    def __init__(self, kernel: CudaKernel, grid: int, threads: int, arguments: Sequence[Argument]) -> None:
        self._kernel, self._grid, self._threads, self._tensors = kernel, grid, threads, arguments
        self._values = [self._value(argument) for argument in arguments]
        self._pointers = (ctypes.c_void_p * len(self._values))(*map(ctypes.addressof, self._values))

    def __call__(self) -> None:
        """Launch."""
        self._kernel.launch(self._grid, self._threads, self._pointers)

    def _value(self, argument: Argument) -> Any:
        if isinstance(argument, Boxes):
            return self._kernel.encoded(argument)
        if isinstance(argument, bytes):
            return ctypes.create_string_buffer(argument, len(argument))
        if isinstance(argument, int):
            return ctypes.c_int(argument)
        if isinstance(argument, float):
            return ctypes.c_float(argument)
        return ctypes.c_void_p(None if argument is None else argument.data_ptr())

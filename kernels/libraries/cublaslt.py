"""The best of the algorithms that cuBLASLt's heuristics list for a product; torch's `mm` runs the first of cuBLAS.

Called through ctypes, as torch offers no choice of the algorithm. Constants and the size of structures are those of
cublasLt.h in CUDA 12 and 13. Matrices are column-major there: Y^T [N,M] = (W^T)^T X^T, all without copies.
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from statistics import median
from typing import Any

import torch

from ...shapes.device import Device
from ...shapes.errors import RooflensError
from ...shapes.problem import Problem
from ...shapes.scheme import DType
from ..needs import ONLY_CUDA
from ..provider import Config, DeclinedError, InputsT, SchemeT, Support
from .dense import DenseBlas
from .library_names import cublas_name
from .shared_libraries import cublaslt

LT = "lt"
"""Form of a product by the fastest algorithm; followed by a number, by that one of the list."""

MOST_ALGORITHMS = 16
"""Asked of the heuristics, which order them by estimated time."""

_WORKSPACE_BYTES = 32 << 20
"""What NVIDIA recommends for Hopper (cuBLAS documentation, "cublasSetWorkspace()")."""

_TYPES = {torch.float16: 2, torch.bfloat16: 14}
"""cudaDataType_t."""

_FP32, _COMPUTE_FP32 = 0, 68
_FIRST_TRANSPOSED, _EPILOGUE, _BIAS, _ADD_BIAS = 3, 7, 8, 4
_BATCH, _STEP = 5, 6
_MOST_WORKSPACE, _FIRST_ALIGNMENT, _MOST_ALIGNMENT = 1, 5, 256

_LAUNCHES, _PASSES = 5, 3


class CublasLtError(RooflensError):
    """A call of cuBLASLt fails."""


class _Algorithm(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t."""

    _fields_ = (
        ("algo", ctypes.c_uint64 * 8),
        ("workspace_bytes", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


class LtGemm:
    """out[M,N] = x[M,K] weight[N,K]^T + bias[N] in 16 bits, contiguous, or batches [B,M,N] without a bias.

    `algorithms` is the list of the heuristics. Raises DeclinedError without cuBLASLt.
    """

    def __init__(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, out: torch.Tensor) -> None:
        self._library, self._handle, self._tensors = cublaslt(), _handle(x.device), (weight, x, out)
        self._operation = self._new("cublasLtMatmulDescCreate", _COMPUTE_FP32, _FP32)
        self._set(self._library.cublasLtMatmulDescSetAttribute, self._operation, _FIRST_TRANSPOSED, ctypes.c_int32(1))
        if bias is not None:
            self._bias = bias
            for attribute, value in ((_EPILOGUE, ctypes.c_int32(_ADD_BIAS)), (_BIAS, ctypes.c_void_p(bias.data_ptr()))):
                self._set(self._library.cublasLtMatmulDescSetAttribute, self._operation, attribute, value)
        self._layouts = [self._layout(tensor) for tensor in self._tensors]
        self._one, self._zero = ctypes.c_float(1), ctypes.c_float(0)
        weight_at, x_at, out_at = (ctypes.c_void_p(tensor.data_ptr()) for tensor in self._tensors)
        weights, activations, result = self._layouts
        self._operands = (
            *(self._handle, self._operation, ctypes.byref(self._one), weight_at, weights, x_at, activations),
            *(ctypes.byref(self._zero), out_at, result, out_at, result),
        )
        self._room = ctypes.c_void_p(_workspace(x.device).data_ptr()), ctypes.c_size_t(_WORKSPACE_BYTES)
        pointers = [tensor.data_ptr() for tensor in self._tensors]
        self.alignments = tuple(min(pointer & -pointer, _MOST_ALIGNMENT) for pointer in pointers)
        self.algorithms = self._listed()

    def launch(self, algorithm: _Algorithm) -> None:
        """Launch on torch's current stream."""
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self._check(self._library.cublasLtMatmul(*self._operands, ctypes.byref(algorithm.algo), *self._room, stream))

    def _layout(self, tensor: torch.Tensor) -> ctypes.c_void_p:
        """Of row-major matrices, which cuBLAS takes for transposed ones."""
        *batch, rows, columns = tensor.shape
        shape = (ctypes.c_uint64(columns), ctypes.c_uint64(rows), ctypes.c_int64(columns))
        made = self._new("cublasLtMatrixLayoutCreate", _TYPES[tensor.dtype], *shape)
        if batch:
            for attribute, value in ((_BATCH, ctypes.c_int32(batch[0])), (_STEP, ctypes.c_int64(rows * columns))):
                self._set(self._library.cublasLtMatrixLayoutSetAttribute, made, attribute, value)
        return made

    def _listed(self) -> list[_Algorithm]:
        found, count = (_Algorithm * MOST_ALGORITHMS)(), ctypes.c_int()
        weights, activations, result = self._layouts
        limits: list[tuple[int, Any]] = [(_MOST_WORKSPACE, ctypes.c_uint64(_WORKSPACE_BYTES))]
        for attribute, alignment in enumerate((*self.alignments, self.alignments[-1]), _FIRST_ALIGNMENT):
            limits.append((attribute, ctypes.c_uint32(alignment)))
        preference = self._new("cublasLtMatmulPreferenceCreate")
        try:
            for attribute, value in limits:
                self._set(self._library.cublasLtMatmulPreferenceSetAttribute, preference, attribute, value)
            self._check(
                self._library.cublasLtMatmulAlgoGetHeuristic(
                    *(self._handle, self._operation, weights, activations, result, result, preference),
                    *(MOST_ALGORITHMS, found, ctypes.byref(count)),
                )
            )
        finally:
            self._library.cublasLtMatmulPreferenceDestroy(preference)
        return [one for one in found[: count.value] if one.state == 0]

    def _new(self, create: str, *arguments: Any) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self._check(getattr(self._library, create)(ctypes.byref(made), *arguments))
        return made

    def _set(self, setter: Any, of: ctypes.c_void_p, attribute: int, value: Any) -> None:
        self._check(setter(of, attribute, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value))))

    def _check(self, status: int) -> None:
        if status:
            self._library.cublasLtGetStatusName.restype = ctypes.c_char_p
            raise CublasLtError(f"cuBLASLt: {self._library.cublasLtGetStatusName(status).decode()}")

    def __del__(self) -> None:
        for layout in getattr(self, "_layouts", ()):
            self._library.cublasLtMatrixLayoutDestroy(layout)
        if hasattr(self, "_operation"):
            self._library.cublasLtMatmulDescDestroy(self._operation)


class BestAlgorithm(DenseBlas[SchemeT, InputsT]):
    """Mixin before a reference: the same by the fastest of torch's choice and the algorithms that cuBLASLt lists.

    By default `prepare` searches, by cold launches. `rooflens tune` times every algorithm as its cells are timed.
    """

    def supports(self, problem: Problem, scheme: SchemeT, device: Device) -> Support:
        """What the reference takes, with activations of 16 bits and no bias of batches, on GPUs of NVIDIA."""
        if not device.is_gpu or device.is_rocm:
            return Support.no(ONLY_CUDA)
        if scheme.dtype is DType.FP32:
            return Support.no("searches algorithms for 16 bits: activations must be bf16 or fp16")
        if problem.B > 1 and scheme.bias_bytes(problem):
            return Support.no("adds no bias to batches")
        return super().supports(problem, scheme, device)

    def candidates(self, problem: Problem, scheme: SchemeT, device: Device) -> Sequence[Config]:
        """A search of its own first, then torch's choice and each algorithm, whose number holds for one version."""
        library = cublas_name("cuBLASLt")
        numbered = [{"gemm": f"{LT}{rank}", "library": library} for rank in range(MOST_ALGORITHMS)]
        return [{"gemm": LT}, {"gemm": "mm"}, *numbered]


@dataclass(frozen=True, slots=True)
class Chosen:
    """A call, and the configuration that it stands for."""

    run: Callable[[], object]
    config: Config

    def __call__(self) -> None:
        """Launch."""
        self.run()


_found: dict[Any, str] = {}


def chosen_gemm(
    form: str,
    default: Callable[[], object],
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    out: torch.Tensor,
) -> Chosen:
    """Return what `form` names: an algorithm ("lt3"), or the fastest of all and of `default`, torch's "mm".

    A process searches once per shape: all copies of operands get the same. Raises DeclinedError where the list is
    shorter.
    """
    gemm = LtGemm(x, weight, bias, out)
    found = [partial(gemm.launch, algorithm) for algorithm in gemm.algorithms]
    calls: dict[str, Callable[[], object]] = {"mm": default, **{f"{LT}{rank}": call for rank, call in enumerate(found)}}
    if form not in {LT, *calls}:
        raise DeclinedError(
            f"cuBLASLt lists {len(gemm.algorithms)} algorithms for {tuple(x.shape)} x {tuple(weight.shape)}"
        )
    name = form
    if form == LT:
        key = (tuple(x.shape), tuple(weight.shape), x.dtype, bias is None, x.device, gemm.alignments)
        name = _found[key] = _found.get(key) or fastest(calls, x.device)
    library = cublas_name("cuBLAS" if name == "mm" else "cuBLASLt")
    return Chosen(calls[name], {"gemm": name, "algorithms": len(gemm.algorithms), "library": library})


def fastest(calls: Mapping[str, Callable[[], object]], device: torch.device) -> str:
    """Return the name of the least median, of cold launches: in warm caches other algorithms win.

    In passes over all of them, so that a busy moment hits none alone. Reading twice what the last-level cache holds
    empties it, and takes so long that the host has queued a launch before it starts.
    """
    filler = torch.zeros(torch.cuda.get_device_properties(device).L2_cache_size // 2, dtype=torch.int32, device=device)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(_PASSES + 1):
        for name, call in calls.items():
            pairs = []
            for _ in range(_LAUNCHES):
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                filler.max()
                start.record()
                call()
                end.record()
                pairs.append((start, end))
            pairs[-1][1].synchronize()
            if number:  # the first pass loads modules
                times[name] += [start.elapsed_time(end) for start, end in pairs]
    return min(times, key=lambda name: median(times[name]))


@cache
def _workspace(device: torch.device) -> torch.Tensor:
    """One for all launches: they follow each other on a stream."""
    return torch.empty(_WORKSPACE_BYTES, dtype=torch.uint8, device=device)


@cache
def _handle(device: torch.device) -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    with torch.cuda.device(device):
        if status := cublaslt().cublasLtCreate(ctypes.byref(handle)):
            raise CublasLtError(f"cublasLtCreate fails with status {status}")
    return handle

"""The best of the algorithms that cuBLASLt or hipBLASLt lists for a product; torch's `mm` runs the first of cuBLAS.

Matrices are column-major there: Y^T [N,M] = (W^T)^T X^T, all without copies.
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from statistics import median
from typing import Any

import torch

from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.scheme import DType
from ..needs import LT_NEEDS_GPU
from ..provider import Config, DeclinedError, InputsT, SchemeT, Support
from .dense import DenseBlas
from .lt_library import CUBLASLT, HIPBLASLT, handle, lt_library, lt_version

LT = "lt"
"""Form of a product by the fastest algorithm; followed by a number, by that one of the list."""

MOST_ALGORITHMS = 16
"""Asked of the heuristics, which order them by estimated time."""

_TYPES = {torch.float16: 2, torch.bfloat16: 14}
"""cudaDataType_t and hipDataType."""

_FP32, _ADD_BIAS, _MOST_WORKSPACE, _MOST_ALIGNMENT = 0, 4, 1, 256
"""Of both libraries."""

_LAUNCHES, _PASSES = 5, 3
"""Of a search."""

_TURNS = 45
"""Launches of the winner of a search that confirm it, each after one of torch's choice."""

_WORTH_IT = 0.97
"""Of the time of torch's choice: an algorithm that gains less may as well be slower, as times scatter."""


@cache
def _result_type(algorithm_words: int) -> type[ctypes.Structure]:
    """cublasLtMatmulHeuristicResult_t, hipblasLtMatmulHeuristicResult_t."""
    fields = (
        ("algo", ctypes.c_uint64 * algorithm_words),
        ("workspace_bytes", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )
    return type("HeuristicResult", (ctypes.Structure,), {"_fields_": fields})


class LtGemm:
    """out[M,N] = x[M,K] weight[N,K]^T + bias[N] in 16 bits, contiguous, or batches [B,M,N] without a bias.

    `algorithms` is the list of the heuristics. Raises DeclinedError without the library.
    """

    def __init__(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None, out: torch.Tensor) -> None:
        self._library, self._tensors = lt_library(), (weight, x, out)
        numbers = self._library.numbers
        self._operation = self._library.new("MatmulDescCreate", numbers.compute, _FP32)
        settings: list[tuple[int | None, Any]] = [(numbers.first_transposed, ctypes.c_int32(numbers.transposed))]
        if bias is not None:
            self._bias = bias
            settings.append((numbers.epilogue, ctypes.c_int32(_ADD_BIAS)))
            settings.append((numbers.bias, ctypes.c_void_p(bias.data_ptr())))
            settings.append((numbers.bias_type, ctypes.c_int32(_TYPES[bias.dtype])))
        for attribute, value in settings:
            if attribute is not None:
                self._library.set("MatmulDescSetAttribute", self._operation, attribute, value)
        self._layouts = [self._layout(tensor) for tensor in self._tensors]
        self._one, self._zero = ctypes.c_float(1), ctypes.c_float(0)
        weight_at, x_at, out_at = (ctypes.c_void_p(tensor.data_ptr()) for tensor in self._tensors)
        weights, activations, result = self._layouts
        self._operands = (
            *(handle(x.device), self._operation, ctypes.byref(self._one), weight_at, weights, x_at, activations),
            *(ctypes.byref(self._zero), out_at, result, out_at, result),
        )
        room = _workspace(x.device, numbers.workspace_bytes)
        self._room = ctypes.c_void_p(room.data_ptr()), ctypes.c_size_t(numbers.workspace_bytes)
        pointers = [tensor.data_ptr() for tensor in self._tensors]
        self.alignments = tuple(min(pointer & -pointer, _MOST_ALIGNMENT) for pointer in pointers)
        self.algorithms = self._listed()

    def launch(self, algorithm: Any) -> None:
        """Launch on torch's current stream."""
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self._library.call("Matmul", *self._operands, ctypes.byref(algorithm.algo), *self._room, stream)

    def _layout(self, tensor: torch.Tensor) -> ctypes.c_void_p:
        """Of row-major matrices, which the library takes for transposed ones."""
        *batch, rows, columns = tensor.shape
        shape = (ctypes.c_uint64(columns), ctypes.c_uint64(rows), ctypes.c_int64(columns))
        made = self._library.new("MatrixLayoutCreate", _TYPES[tensor.dtype], *shape)
        if batch:
            numbers = self._library.numbers
            steps = ((numbers.batch, ctypes.c_int32(batch[0])), (numbers.step, ctypes.c_int64(rows * columns)))
            for attribute, value in steps:
                self._library.set("MatrixLayoutSetAttribute", made, attribute, value)
        return made

    def _listed(self) -> list[Any]:
        numbers = self._library.numbers
        found, count = (_result_type(numbers.algorithm_words) * MOST_ALGORITHMS)(), ctypes.c_int()
        weights, activations, result = self._layouts
        limits: list[tuple[int, Any]] = [(_MOST_WORKSPACE, ctypes.c_uint64(numbers.workspace_bytes))]
        if numbers.first_alignment is not None:
            each = (*self.alignments, self.alignments[-1])
            limits += [(attribute, ctypes.c_uint32(one)) for attribute, one in enumerate(each, numbers.first_alignment)]
        preference = self._library.new("MatmulPreferenceCreate")
        try:
            for attribute, value in limits:
                self._library.set("MatmulPreferenceSetAttribute", preference, attribute, value)
            self._library.call(
                "MatmulAlgoGetHeuristic",
                *(self._operands[0], self._operation, weights, activations, result, result, preference),
                *(MOST_ALGORITHMS, found, ctypes.byref(count)),
            )
        finally:
            self._library.function("MatmulPreferenceDestroy")(preference)
        return [one for one in found[: count.value] if one.state == 0]

    def __del__(self) -> None:
        for layout in getattr(self, "_layouts", ()):
            self._library.function("MatrixLayoutDestroy")(layout)
        if hasattr(self, "_operation"):
            self._library.function("MatmulDescDestroy")(self._operation)


class BestAlgorithm(DenseBlas[SchemeT, InputsT]):
    """Mixin before a reference: the same by the fastest of torch's choice and the algorithms that the library lists.

    By default `prepare` searches, by cold launches, and confirms what it found. `rooflens tune` times every algorithm
    as its cells are timed.
    """

    def supports(self, problem: Problem, scheme: SchemeT, device: Device) -> Support:
        """What the reference takes, with activations of 16 bits and no bias of batches, on GPUs."""
        if not device.is_gpu:
            return Support.no(LT_NEEDS_GPU)
        if scheme.dtype is DType.FP32:
            return Support.no("searches algorithms for 16 bits: activations must be bf16 or fp16")
        if problem.B > 1 and scheme.bias_bytes(problem):
            return Support.no("adds no bias to batches")
        return super().supports(problem, scheme, device)

    def candidates(self, problem: Problem, scheme: SchemeT, device: Device) -> Sequence[Config]:
        """A search of its own first, then torch's choice and each algorithm, whose number holds for one version."""
        library = _named(device.is_rocm)
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
    """Return what `form` names: an algorithm ("lt3"), or the fastest, unless `default`, torch's "mm", is about as fast.

    A process searches once per shape: all copies of operands get the same. Raises DeclinedError where the list is
    shorter.
    """
    gemm = LtGemm(x, weight, bias, out)
    found = [partial(gemm.launch, algorithm) for algorithm in gemm.algorithms]
    calls: dict[str, Callable[[], object]] = {"mm": default, **{f"{LT}{rank}": call for rank, call in enumerate(found)}}
    if form not in {LT, *calls}:
        raise DeclinedError(
            f"{_named(bool(torch.version.hip))} lists {len(gemm.algorithms)} algorithms for "
            f"{tuple(x.shape)} x {tuple(weight.shape)}"
        )
    name, config = form, {"gemm": form, "algorithms": len(gemm.algorithms)}
    if form == LT:
        key = (tuple(x.shape), tuple(weight.shape), x.dtype, bias is None, x.device, gemm.alignments)
        name = config["found"] = _found[key] = _found.get(key) or fastest(calls, x.device)
    if name != "mm":
        config["library"] = _named(bool(torch.version.hip))
    return Chosen(calls[name], config)


def _named(rocm: bool) -> str:
    return f"{(HIPBLASLT if rocm else CUBLASLT).name} {lt_version()}".strip()


def fastest(calls: Mapping[str, Callable[[], object]], device: torch.device) -> str:
    """Return the name of the least median, of cold launches, if it is clearly below that of torch's "mm".

    The least of many medians owes something to chance, so fresh samples alone must show the same gain over "mm".
    """
    medians = {name: median(taken) for name, taken in _cold_times(calls, device, _PASSES, _LAUNCHES).items()}
    best = min(medians, key=medians.__getitem__)
    if medians[best] >= _WORTH_IT * medians["mm"]:
        return "mm"
    times = _cold_times({"mm": calls["mm"], best: calls[best]}, device, _TURNS, 1)
    # Both launches of a pair ran at about the same clock rate. When it changes halfway, the median of one name may come
    # from before the change and that of the other from after it: their ratio would be that of the clock rates.
    ratio = median(own / torchs for own, torchs in zip(times[best], times["mm"], strict=True))
    return best if ratio < _WORTH_IT else "mm"


def _cold_times(
    calls: Mapping[str, Callable[[], object]], device: torch.device, passes: int, launches: int
) -> dict[str, list[float]]:
    """Return the milliseconds of cold launches by name, in the order in which they ran: `launches` of each pass.

    In warm caches other algorithms win. In passes over all of them, so that a busy moment hits none alone. Reading
    eight times what the last-level cache holds empties it, and takes so long that the host has queued a launch before
    it starts: with twice as much, a slow host had not (docs/measured-facts.md).
    """
    filler = torch.zeros(2 * torch.cuda.get_device_properties(device).L2_cache_size, dtype=torch.int32, device=device)
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(passes + 1):
        for name, call in calls.items():
            pairs = []
            for _ in range(launches):
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                filler.max()
                start.record()
                call()
                end.record()
                pairs.append((start, end))
            pairs[-1][1].synchronize()
            if number:  # the first pass loads modules
                times[name] += [start.elapsed_time(end) for start, end in pairs]
    return times


@cache
def _workspace(device: torch.device, size: int) -> torch.Tensor:
    """One for all launches: they follow each other on a stream."""
    return torch.empty(size, dtype=torch.uint8, device=device)

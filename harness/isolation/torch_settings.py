"""Settings of torch that any code in the process can change: modes, precision, threads, and those of the GPU."""

import sys
from collections.abc import Mapping
from typing import Any

import torch

from .setting import ProcessSetting, Read, Write, attribute


def torch_settings() -> tuple[ProcessSetting, ...]:
    """Return the settings in the order in which they are written back.

    Modes come first: one that was left would intercept the writing of the others.
    """
    return (*_modes(), *_of_torch(), *_of_cuda())


def _modes() -> tuple[ProcessSetting, ...]:
    context = getattr(torch, "_GLOBAL_DEVICE_CONTEXT", None)  # of `set_default_device`, which pushes a mode

    def default_device() -> Any:
        found = getattr(context, "device_context", None)
        return found and found.device

    def leave_dispatch_modes(depth: int) -> None:
        for place in range(torch._C._len_torch_dispatch_stack(), depth, -1):
            torch._C._get_dispatch_stack_at(place - 1).__exit__(None, None, None)

    def leave_function_modes(depth: int) -> None:
        for place in range(torch._C._len_torch_function_stack(), depth, -1):
            torch._C._get_function_stack_at(place - 1).__exit__(None, None, None)

    return (
        ProcessSetting("torch dispatch modes", torch._C._len_torch_dispatch_stack, leave_dispatch_modes),
        ProcessSetting("default device", default_device, torch.set_default_device),
        ProcessSetting("torch function modes", torch._C._len_torch_function_stack, leave_function_modes),
        # An object of the provider's ends it, whenever that is freed.
        ProcessSetting("inference mode", torch.is_inference_mode_enabled, None),
        ProcessSetting("autograd profiler", torch._C._autograd._profiler_enabled, None),
        ProcessSetting("grad mode", torch.is_grad_enabled, torch._C._set_grad_enabled),
        *(_autocast(kind) for kind in ("cpu", "cuda")),
        ProcessSetting("autocast cache", torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    )


def _autocast(kind: str) -> ProcessSetting:
    def read() -> tuple[bool, torch.dtype]:
        return torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)

    def write(value: tuple[bool, torch.dtype]) -> None:
        torch.set_autocast_enabled(kind, value[0])
        torch.set_autocast_dtype(kind, value[1])
        torch.clear_autocast_cache()

    return ProcessSetting(f"autocast of {kind}", read, write)


def _of_torch() -> tuple[ProcessSetting, ...]:
    backends = torch.backends

    def deterministic() -> tuple[bool, bool]:
        return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()

    return (
        ProcessSetting("torch.num_threads", torch.get_num_threads, torch.set_num_threads, paces=True),
        ProcessSetting("torch.num_interop_threads", torch.get_num_interop_threads, None),  # set once in a process
        ProcessSetting("default dtype", torch.get_default_dtype, torch.set_default_dtype),
        ProcessSetting(
            "deterministic algorithms",
            deterministic,
            lambda value: torch.use_deterministic_algorithms(value[0], warn_only=value[1]),
        ),
        attribute(torch.utils.deterministic, "fill_uninitialized_memory"),
        ProcessSetting("fp32 precision", _fp32_precision, _set_fp32_precision),
        # Threads that torch has started meanwhile inherited it.
        ProcessSetting("flush_denormal", lambda: _LEAST_NORMAL / 2 == 0.0, None),
        ProcessSetting(
            "oneDNN (torch.backends.mkldnn.enabled)",
            torch._C._get_mkldnn_enabled,
            torch._C._set_mkldnn_enabled,
        ),
        *(attribute(backends.cudnn, name) for name in ("enabled", "benchmark", "deterministic")),
        *(attribute(backends.cuda.matmul, name) for name in _REDUCED if hasattr(backends.cuda.matmul, name)),
        ProcessSetting(
            "preferred BLAS library", backends.cuda.preferred_blas_library, backends.cuda.preferred_blas_library
        ),
        attribute(backends.quantized, "engine"),
        ProcessSetting("random state of torch", torch.get_rng_state, torch.set_rng_state, is_consumed=True),
    )


_LEAST_NORMAL = sys.float_info.min
"""Half of it is 0 for a thread that flushes denormals."""

_REDUCED = (
    "allow_fp16_reduced_precision_reduction",
    "allow_bf16_reduced_precision_reduction",
    "allow_fp16_accumulation",
)

_PRECISIONS = (
    ("generic", "all"),
    *((backend, what) for backend in ("cuda", "mkldnn") for what in ("all", "matmul", "conv", "rnn")),
)
"""What newer releases of torch have a precision of its own for, the most general first."""


def _fp32_precision() -> Mapping[str, Any]:
    found = {f"{backend} {what}": torch._C._get_fp32_precision_getter(backend, what) for backend, what in _precisions()}
    for name, read in (
        ("matmul", torch.get_float32_matmul_precision),
        ("cudnn allow_tf32", torch._C._get_cudnn_allow_tf32),
    ):
        try:
            found[name] = read()
        except RuntimeError:  # refused while the newer interface has other values
            found[name] = "mixed"
    return found


def _set_fp32_precision(value: Mapping[str, Any]) -> None:
    torch.set_float32_matmul_precision(value["matmul"])
    torch._C._set_cudnn_allow_tf32(value["cudnn allow_tf32"])
    for backend, what in _precisions():
        torch._C._set_fp32_precision_setter(backend, what, value[f"{backend} {what}"])


def _precisions() -> tuple[tuple[str, str], ...]:
    return _PRECISIONS if hasattr(torch._C, "_get_fp32_precision_getter") else ()


def _of_cuda() -> tuple[ProcessSetting, ...]:
    """Of the current device, where CUDA or HIP is in use: asking would start it elsewhere."""
    cuda = torch.cuda

    def used(name: str, read: Read, write: Write, **more: Any) -> ProcessSetting:
        def write_where_used(value: Any) -> None:
            if value is not None:
                write(value)

        return ProcessSetting(name, lambda: read() if cuda.is_initialized() else None, write_where_used, **more)

    return (
        used("current GPU", cuda.current_device, cuda.set_device),
        used("current stream", cuda.current_stream, cuda.set_stream),
        used("synchronization debug mode", cuda.get_sync_debug_mode, cuda.set_sync_debug_mode),
        used("TunableOp", cuda.tunable.is_enabled, cuda.tunable.enable),
        used("tuning of TunableOp", cuda.tunable.tuning_is_enabled, cuda.tunable.tuning_enable),
        used(
            "share of the GPU's memory",
            getattr(cuda, "get_per_process_memory_fraction", lambda: 1.0),
            cuda.set_per_process_memory_fraction,
        ),
        used("random state of the GPU", cuda.get_rng_state, cuda.set_rng_state, is_consumed=True),
    )

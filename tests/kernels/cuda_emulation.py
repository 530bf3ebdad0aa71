"""Kernels in CUDA C++ on a CPU: their very source, compiled with `cuda_emulator.hpp`."""

import ctypes
import inspect
import re
import subprocess
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from rooflens.kernels.cuda.provider import CudaProvider, LaunchPlan
from rooflens.kernels.fourbit import cpu_library
from rooflens.kernels.libraries import nvrtc
from rooflens.kernels.libraries.nvrtc import Argument, Boxes
from rooflens.kernels.reference import measure

ALIGNED = ("-fsanitize=alignment", "-fsanitize-undefined-trap-on-error")
"""A GPU takes no address that is not a multiple of what is loaded, as this CPU does: let the test stop there too."""


def needs_compiler(test):
    missing = cpu_library.compiler_command() is None
    return pytest.mark.compile(pytest.mark.skipif(missing, reason=cpu_library.NO_COMPILER)(test))


def needs_nvrtc(test):
    return pytest.mark.compile(pytest.mark.skipif(not nvrtc.available(), reason="no NVRTC")(test))


def machine_code(provider, constants):
    """Compile for sm90 with these macros; return the binary, the registers of a thread, and the bytes that it spills.

    The assembler adds no waits between products.
    """
    return _machine_code(provider.source(), *(f"-D{name}={number}" for name, number in constants.items()))


@cache
def _machine_code(source, *macros):
    options = [*macros, "--gpu-architecture=sm_90a", "--std=c++17", "--ptxas-options=-v"]
    cubin, log = nvrtc.compile_cubin(source, options)
    assert "serialized" not in log
    assert "setmaxnreg" not in log
    (registers,), (spilled,) = (re.findall(text, log) for text in (r"Used (\d+) reg", r"(\d+) bytes spill stores"))
    return cubin, int(registers), int(spilled)


class Map(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("element", ctypes.c_longlong),
        ("rank", ctypes.c_longlong),
        ("sizes", ctypes.c_longlong * 3),
        ("strides", ctypes.c_longlong * 3),
        ("box", ctypes.c_longlong * 3),
    )


def value(argument: Argument) -> object:
    """An argument as the emulator takes it."""
    if isinstance(argument, Boxes):
        spare = (1,) * (3 - len(argument.sizes))
        element = argument.tensor.element_size()
        strides = (element, *argument.strides, *(0 for _ in spare))
        sizes, box = (*argument.sizes, *spare), (*argument.box, *spare)
        triple = ctypes.c_longlong * 3
        return Map(
            argument.tensor.data_ptr(), element, len(argument.sizes), triple(*sizes), triple(*strides), triple(*box)
        )
    if isinstance(argument, int):
        return ctypes.c_int(argument)
    if isinstance(argument, bytes):
        return ctypes.create_string_buffer(argument, len(argument))
    if isinstance(argument, float):
        return ctypes.c_float(argument)
    return ctypes.c_void_p(None if argument is None else argument.data_ptr())


def moved_by(plan: LaunchPlan) -> int:
    """Bytes of all tensors of a launch."""
    passed = [one.tensor if isinstance(one, Boxes) else one for one in plan.arguments]
    return sum({one.data_ptr(): one.nbytes for one in passed if isinstance(one, torch.Tensor)}.values())


def on_this_cpu(
    provider: CudaProvider[Any, Any], plan: LaunchPlan, device: torch.device
) -> tuple[Callable[[], None], str]:
    """Stand for `CudaProvider.compiled`: the launch is emulated, and there is no machine code."""

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            emulate(provider, plan, Path(folder))

    return run, ""


def recorded(monkeypatch, *kinds):
    """Let what these classes of providers compile run on this CPU; return the list that their plans go to."""
    found = []

    def compiled(self, plan, device):
        found.append(plan)
        return on_this_cpu(self, plan, device)

    for kind in kinds:
        monkeypatch.setattr(kind, "compiled", compiled)
    return found


@cache
def built(text: str, *macros: str) -> bytes:
    """Compile a source once, for all launches with these macros."""
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "kernel.cpp"), Path(folder, "kernel.so")
        source.write_text(text, encoding="utf-8")
        flags = ["-std=c++17", "-O1", "-w", "-shared", "-fPIC", f"-I{Path(__file__).parent}", *ALIGNED]
        command = [*(cpu_library.compiler_command() or ()), *flags, *macros, str(source), "-o", str(library)]
        subprocess.run(command, check=True)
        return library.read_bytes()


def emulate(provider: CudaProvider[Any, Any], plan: LaunchPlan, folder: Path) -> int:
    """Compile the kernel for this CPU, and run it. Return how many bytes of parts of tiles it stored."""
    body = (Path(inspect.getfile(type(provider))).parent / provider.sources[0]).read_text(encoding="utf-8")
    names = [f"a{i}" for i in range(len(plan.arguments))]
    heads = re.search(rf"{provider.kernel}\((.*?)\) \{{", body, re.DOTALL)
    assert heads
    declared = [one.rsplit(" ", 1)[0].strip() for one in heads[1].split(",")]
    parameters = ", ".join(
        f"{kind.replace(' __grid_constant__', '')}{'&' * isinstance(argument, Boxes | bytes)} {name}"
        for kind, argument, name in zip(declared, plan.arguments, names, strict=True)
    )
    headers = Path(inspect.getfile(CudaProvider)).parent
    text = [
        '#include "cuda_emulator.hpp"',
        # The other headers wrap instructions, which the emulator replaces.
        *(f'#include "{headers / name}"' for name in provider.headers if name in ("stream_k.cuh", "turns.cuh")),
        body.replace("extern __shared__ __align__(1024) char memory[];", ""),
        f'extern "C" int run_all(int grid, int count, int shared, {parameters})',
        f"{{ launch(grid, count, shared, [&] {{ {provider.kernel}({', '.join(names)}); }}); return stored; }}",
    ]
    macros = [f"-D{name}={number}" for name, number in plan.constants.items()]
    library = Path(tempfile.mkdtemp(dir=folder), "kernel.so")  # a file of its own has globals of its own
    library.write_bytes(built("\n".join(text), *macros))
    values = [value(argument) for argument in plan.arguments]
    arguments = [ctypes.byref(one) if isinstance(one, Map | ctypes.Array) else one for one in values]
    loaded = ctypes.CDLL(str(library))
    for argument in plan.arguments:
        if isinstance(argument, torch.Tensor):
            memory = argument.untyped_storage()
            loaded.add_tensor(ctypes.c_void_p(memory.data_ptr()), ctypes.c_longlong(memory.nbytes()))
    return int(loaded.run_all(plan.grid, plan.threads, plan.shared_bytes, *arguments))


def check_stream_k(provider, inputs, config, folder, least_db):
    """Emulate a launch whose blocks share tiles: right, twice the same, with the traffic that is stated."""
    (output,) = inputs.empty_outputs()
    plan = provider.plan(inputs, output, config)
    assert plan.grid == config["BLOCKS"]
    output.fill_(torch.nan)
    stored = emulate(provider, plan, folder)
    moved = provider.moved_bytes(inputs.problem, inputs.scheme, config)
    assert moved - provider.operand_bytes(inputs.problem, inputs.scheme) == 2 * stored
    found = measure(output, inputs.reference()[0])
    assert not found.failure(inputs.scheme), found
    assert found.snr_db > least_db(plan)
    first = output.clone()
    output.fill_(torch.nan)
    emulate(provider, plan, folder)  # with the parts as they were left, in the other turn
    assert output.equal(first)

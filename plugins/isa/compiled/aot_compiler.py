"""Compile ahead of time in a child process: one request at a time, and a death that costs one of them.

A compile that fails inside LLVM can abort its process, and it must not happen where TRITON_INTERPRET is set.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from ....harness.isolation.child import redirect_output
from ....harness.sweep.fault_attribution import Limit
from ....harness.sweep.supervisor import SupervisedWorker, WorkerEndedError, WorkerSetupError, WorkerTimeoutError
from ....harness.worker import wire
from ....harness.worker.messages import ChildCall, Plain
from ....kernels import registry
from ....kernels.aot import Build, BuildRequest, diagnosis, find_kernel, last_line, specialize_request
from ....shapes.errors import RooflensError
from ....shapes.files.record import WrongTypeError, from_json
from ....shapes.gpu_architectures import architecture
from ....shapes.protocol import Protocol
from ....shapes.verdict import Verdict
from .binary import amd_vector_registers, inspect_cubin, number, warps_of


class AotCompiler:
    """Compiles requests one after the other in a child process, which is replaced when it dies.

    cache  folder for Triton's cache; files  of the user, whose providers' kernels are to be found
    """

    def __init__(self, cache: Path, timeout_s: float = 300.0, files: Iterable[Path] = ()) -> None:
        variables = {"TRITON_CACHE_DIR": str(cache), "TRITON_DEFAULT_FP_FUSION": "1"}
        self._call = ChildCall(partial(_prepare, variables, [file.resolve() for file in files]), Protocol())
        self._limit = Limit("a compiler", timeout_s, most_s=timeout_s)
        self._log = cache.with_name(f"{cache.name}.log")
        self._child: SupervisedWorker | None = None

    def __enter__(self) -> "AotCompiler":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """End the child, whatever it does; from another thread, the build in work becomes a crash."""
        child, self._child = self._child, None
        if child:
            child.kill()

    def build(self, arch: str, request: BuildRequest) -> Build:
        """Compile one request for one of KNOWN_ARCHES."""
        child = self._child = self._child or self._started()
        before = self._log.stat().st_size
        try:
            child.send(Plain([arch, request]))
            build: Build = from_json(Build, getattr(child.receive(self._limit), "value", None))
        except TypeError as error:
            return Build(Verdict.COMPILE_ERROR, f"not to be compiled ahead of time: {error}")
        except WorkerTimeoutError:
            self.stop()
            return Build(Verdict.TIMEOUT, f"not compiled after {self._limit.seconds:g} s")
        except (WorkerEndedError, WrongTypeError) as error:
            self.stop()
            text = self._written(before)
            return Build(Verdict.CRASHED, f"{error}: {diagnosis(text) or last_line(text)}")
        # MLIR and LLVM explain themselves on stderr only, and may go on after an error
        explained = diagnosis(self._written(before))
        reason = ": ".join(filter(None, (build.reason, explained)))
        return replace(build, reason=reason) if explained else build

    def _started(self) -> SupervisedWorker:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        try:
            return SupervisedWorker(self._call, self._log, lambda: False, enter=_enter)
        except WorkerSetupError as error:
            text = self._written(0)
            raise RooflensError(f"the compiler process did not start: {error.why}: {last_line(text)}") from None

    def _written(self, start: int) -> str:
        """Return what the child wrote from byte `start` on."""
        return self._log.read_bytes()[start:].decode(errors="replace")


def _prepare(variables: Mapping[str, str], files: Sequence[Path], _: object) -> None:
    """Import what takes long before the time limit of the first compile begins."""
    os.environ.pop("TRITON_INTERPRET", None)
    os.environ.update(variables)
    import triton  # noqa: F401

    if files:
        registry.load((), files)


def _enter(connection: Connection, call: ChildCall, log: Path) -> None:
    redirect_output(log)
    wire.send(connection, Plain(call.act(str)))
    with suppress(EOFError):
        while True:
            arch, request = wire.receive(connection).value
            constants = {
                name: tuple(one) if isinstance(one, list) else one for name, one in request["constants"].items()
            }
            wire.send(connection, Plain(compile_here(arch, BuildRequest(**request | {"constants": constants}))))


def compile_here(arch: str, request: BuildRequest) -> Build:
    """Compile in this process, which may die of it."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel = find_kernel(request.kernel)
    amd = architecture(arch).is_amd
    target = GPUTarget("hip", arch, architecture(arch).wave_size) if amd else GPUTarget("cuda", int(arch[2:]), 32)
    signature, constants, attributes = specialize_request(arch, request)
    try:
        source = ASTSource(kernel, signature, constexprs=constants, attrs=attributes)
        compiled = triton.compile(source, target=target, options=dict(request.options))
    except Exception as error:
        reason = f"{type(error).__name__}: {diagnosis(str(error)) or last_line(str(error))}"
        return Build(Verdict.COMPILE_ERROR, reason, triton=triton.__version__)
    if amd:
        text, sass = compiled.asm["amdgcn"], ""
        registers = amd_vector_registers(text)
        spills = number(r"\.private_segment_fixed_size:\s+(\d+)", text)
    else:
        text = compiled.asm["ptx"]
        usage, sass = inspect_cubin(compiled.asm["cubin"])
        registers = number(r"REG:(\d+)", usage)
        spills = number(r"STACK:(\d+)", usage) + number(r"LOCAL:(\d+)", usage)
    return Build(
        Verdict.PASSED,
        registers=registers,
        spills=spills,
        shared_bytes=int(compiled.metadata.shared),
        assembly=text,
        machine_code=sass,
        warps=warps_of(arch, text) or int(compiled.metadata.num_warps),
        name=compiled.metadata.name,
        triton=triton.__version__,
    )

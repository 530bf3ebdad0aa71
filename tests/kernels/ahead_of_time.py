"""Builds of kernels for GPUs that are not there: each is compiled once, for all tests and sessions that look at it."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import pytest
from rooflens.kernels import aot
from rooflens.kernels.isa import aot_child, aot_compiler, binary
from rooflens.kernels.isa.compile_all import Cache

HERE = Path(__file__).parent


def sampled(requests, whole, arches=aot.ARCHES):
    """Parameters (arch, name) for every name of `requests(arch)`; those that are not of the sample are slow.

    The sample is everything on the architecture `whole`, and one kernel, not always the same, on each other one.
    """
    chosen = []
    for number, arch in enumerate(arches):
        names = list(requests(arch))
        for index, name in enumerate(names):
            # Shifted by 2: baselines, which take LLVM seconds for RDNA, fall to other architectures.
            quick = arch == whole or index == (number + 2) % len(names)
            described = " ".join(map(str, name)) if isinstance(name, tuple) else name
            chosen.append(pytest.param(arch, name, id=f"{arch}-{described}", marks=() if quick else pytest.mark.slow))
    return chosen


def mostly_slow(whole, arches=aot.ARCHES):
    """Parameters `arch`, all of them slow but one: for tests that look at several kernels of an architecture."""
    return [pytest.param(arch, marks=() if arch == whole else pytest.mark.slow) for arch in arches]


class Builder:
    """Compiles in one child process what is not in the cache.

    A build is found again by all that it depends on: the kernel's source with all it calls, what the compiler is told,
    Triton, and the code here that reads the result.
    """

    def __init__(self, cache: Path, scratch: Path) -> None:
        reader = hashlib.sha256(
            b"".join(Path(module.__file__).read_bytes() for module in (aot, aot_child, aot_compiler, binary))
        )
        self._cache = Cache(cache / reader.hexdigest()[:16])
        self._compiler = aot_compiler.Compiler(scratch)

    def build(self, arch, request):
        with pytest.MonkeyPatch.context() as patch:  # here and in the child: kernels of the tests themselves
            patch.syspath_prepend(HERE)
            patch.setenv("PYTHONPATH", str(HERE))
            key = self._cache.key(arch, request)
            build = self._cache.load(key)
            if build is None:
                build = self._compiler.build(arch, request)
                self._cache.keep(key, build)
        return build

    def builds(self, arch, requests):
        """Return {name: Build} of {name: Request}; each is compiled when it is looked at."""
        return _Builds(self, arch, requests)

    def stop(self):
        self._compiler.stop()


class _Builds(Mapping):
    def __init__(self, builder, arch, requests):
        self._builder, self._arch, self._requests = builder, arch, requests

    def __getitem__(self, name):
        return self._builder.build(self._arch, self._requests[name])

    def __iter__(self):
        return iter(self._requests)

    def __len__(self):
        return len(self._requests)

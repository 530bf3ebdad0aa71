"""Builds of kernels for GPUs that are not there: each is compiled once, for all tests and sessions that look at it."""

import hashlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import pytest
from rooflens.kernels import aot
from rooflens.shapes.verdict import Verdict

HERE = Path(__file__).parent

WIDE = r"LDG\.E\S*\.128|LDGSTS\S*\.128|(?:buffer|global)_load_(?:dwordx4|b128|lds_dwordx4)"
"""A load of 16 bytes, which goes to registers or to shared memory."""

MATRIX_16 = {
    **dict.fromkeys(("gfx90a", "gfx942", "gfx950"), r"v_mfma_f32_\w*(?:bf16|f16)"),
    **dict.fromkeys(("gfx1100", "gfx1151", "gfx1201"), r"v_wmma_f32_16x16x16_b?f16"),
    "sm80": r"HMMA\.16816\.F32",
    "sm90": r"HGMMA\.\S*F32",
    "sm100": r"UTCHMMA|HMMA\.",
}
"""Matrix instructions on 16 bits that add up in fp32."""


SHARED_BYTES = {"gfx950": 163840, "sm80": 166912, "sm90": 232448, "sm100": 232448}
"""Most shared memory of one program; 64 KiB elsewhere."""


def check_build(build, arch, may_spill=False, most_shared=1 << 20):
    assert build.verdict is Verdict.PASSED, build.reason
    assert may_spill or build.spills == 0, (build.registers, build.spills)
    assert build.shared_bytes <= min(most_shared, SHARED_BYTES.get(arch, 65536))


def every(requests, arches=aot.ARCHES):
    """Parameters (arch, name) for every name of `requests(arch)`."""
    return [
        pytest.param(arch, name, id=f"{arch}-{' '.join(map(str, name)) if isinstance(name, tuple) else name}")
        for arch in arches
        for name in requests(arch)
    ]


def mostly_slow(whole, arches=aot.ARCHES):
    """Parameters `arch`, all slow but those of `whole`: for tests that look at several kernels of an architecture."""
    return [pytest.param(arch, marks=() if arch in whole.split() else pytest.mark.slow) for arch in arches]


def text(build):
    """The machine code, or the assembly where there is no other."""
    return build.machine_code or build.assembly


def main_loop(build):
    """Text between the label and the backward branch that are farthest apart."""
    lines, labels, body = text(build).splitlines(), {}, (0, 0)
    for i, line in enumerate(lines):
        if label := re.match(r"\s*(\.L\w+):", line):
            labels[label.group(1)] = i
        branch = re.search(r"(?:BRA\S* .*`\(|s_cbranch_\w+ )(\.L\w+)", line)
        if branch and branch.group(1) in labels:
            body = max(body, (labels[branch.group(1)], i), key=lambda span: span[1] - span[0])
    return "\n".join(lines[body[0] : body[1]])


def announces_after_its_stores(build, arch):
    """Whether parts of K have left every wave before the program announces them.

    One lane announces the stores of all waves: each of them waits for its own before the barrier. On NVIDIA barrier and
    fence do that together, by causality order. AMD's fences cover one wave.
    """
    before = re.split(r"ATOMG|global_atomic_add", text(build))[0]
    after_store = re.split(r"\bSTG\b|(?:buffer|global)_store_", before)[-1]
    if not arch.startswith("gfx"):
        return re.search(r"BAR\.SYNC[\s\S]*MEMBAR\.\w+\.GPU", after_store) is not None
    to_barrier = after_store.partition("s_barrier")[0]
    return re.search(r"s_waitcnt vmcnt\(0\)|s_waitcnt_vscnt null, 0x0|s_wait_storecnt 0x0", to_barrier) is not None


class Builder:
    """Compiles in one child process what is not in the cache.

    A build is found again by all that it depends on: the kernel's source with all it calls, what the compiler is told,
    Triton, and the code here that reads the result.
    """

    def __init__(self, kept: Path, scratch: Path) -> None:
        pytest.importorskip("rooflens.plugins.isa", reason="the plugin that compiles ahead of time is not installed")
        from rooflens.plugins.isa.compiled import aot_compiler, binary
        from rooflens.plugins.isa.compiled.compile_all import BuildCache

        reader = hashlib.sha256(b"".join(Path(module.__file__).read_bytes() for module in (aot, aot_compiler, binary)))
        self._cache = BuildCache(kept / reader.hexdigest()[:16])
        self._compiler = aot_compiler.AotCompiler(scratch)

    def build(self, arch, request):
        with pytest.MonkeyPatch.context() as patch:  # here and in the child: kernels of the tests themselves
            patch.syspath_prepend(HERE)
            key = self._cache.key(arch, request)
            build = self._cache.load(key)
            if build is None:
                build = self._compiler.build(arch, request)
                self._cache.keep(key, build)
        return build

    def builds(self, arch, requests):
        """Return {name: Build} of {name: BuildRequest}; each is compiled when it is looked at."""
        return Made(requests, lambda name: self.build(arch, requests[name]))

    def stop(self):
        self._compiler.stop()


class Made(Mapping):
    """A mapping whose values are made when they are looked at."""

    def __init__(self, keys, make):
        self._keys, self._make = keys, cache(make)

    def __getitem__(self, key):
        return self._make(key)

    def __iter__(self):
        return iter(self._keys)

    def __len__(self):
        return len(self._keys)

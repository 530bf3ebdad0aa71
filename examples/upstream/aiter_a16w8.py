"""aiter's batched A16W8 GEMM in Triton, on NVIDIA: does a kernel written for MI355X hold up on another GPU?

Written for ROCm/aiter at commit 98fad3a8 (branch of pull request 2297). With a checkout, which needs no build:

    PYTHONPATH=~/aiter rooflens run a16w8-deepseek-quick --providers examples/upstream/aiter_a16w8.py

`import aiter` builds HIP extensions. The Triton files of this kernel need none of them, so they are imported with empty
packages in place of the three whose `__init__` starts the build. aiter reads the tiles of an architecture from a JSON
file and has none for NVIDIA: this provider passes those of its gfx950.
"""

import importlib.util
import sys
from functools import cache
from importlib.machinery import ModuleSpec
from types import ModuleType

from rooflens.kernels import needs
from rooflens.kernels.provider import Launch, Support
from rooflens.kernels.upstream.aiter_a16w8 import AiterA16W8
from rooflens.kernels.upstream.observe import triton_kernels

TILES = {
    "BLOCK_SIZE_M": 64,
    "BLOCK_SIZE_N": 256,
    "BLOCK_SIZE_K": 128,
    "GROUP_SIZE_M": 8,
    "num_warps": 8,
    "num_stages": 2,
    "waves_per_eu": 2,
    "matrix_instr_nonkdim": 16,
}
"""configs/gemm/gfx950-BATCHED_GEMM-A16W8_BLOCKSCALE.json; the last two mean nothing on NVIDIA."""


@cache
def import_without_building():
    """Import the wrapper, with its packages found but not run."""
    (top,) = importlib.util.find_spec("aiter").submodule_search_locations
    for name in ("aiter", "aiter.ops", "aiter.ops.triton"):
        package = ModuleType(name)
        package.__spec__ = ModuleSpec(name, None, is_package=True)
        package.__path__ = [top + name.removeprefix("aiter").replace(".", "/")]
        sys.modules[name] = package
    from aiter.ops.triton.gemm.batched import batched_gemm_a16w8

    return batched_gemm_a16w8.batched_gemm_a16w8


class AiterTriton(AiterA16W8):
    name = "aiter_triton_a16w8"

    def supports(self, problem, scheme, device):
        missing = needs.AITER_A16W8.missing() or needs.fp8_missing(device)
        return Support.no(missing) if missing else Support.yes()

    def prepare(self, inputs, config=None):
        gemm, out, prequant = import_without_building(), inputs.empty_output(), inputs.scheme.prequant

        def call():
            return gemm(inputs.x, inputs.q, inputs.scale, inputs.bias, inputs.dtype, out, dict(TILES), prequant)

        launch = Launch.returning(call, out, TILES)
        launch.kernels = triton_kernels(launch.run)
        return launch


PROVIDERS = [AiterTriton()]

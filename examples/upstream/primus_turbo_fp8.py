"""Primus-Turbo's blockwise FP8 GEMM in Triton, on any GPU with FP8 units: did pull request 339 change it?

Written for AMD-AGI/Primus-Turbo at commit db7882da (pull request 339) and its parent 48fd09d4. In a clone of it, which
needs no build:

    rooflens compare --git db7882da~1..db7882da --providers .../rooflens/examples/upstream/primus_turbo_fp8.py \
        fp8-train --filter 'scheme == "fp8-blockwise-prequantized"'

The shipped provider `primus_turbo_fp8` also quantizes, for which its package must be built (ROCm only). The GEMM alone
is pure Triton: operands are given in FP8, and each version tunes its kernel anew for every problem at the first call.
"""

from rooflens.kernels import needs
from rooflens.kernels.provider import Support
from rooflens.kernels.upstream.primus_turbo import PrimusTurboFp8


class PrimusTurboGemm(PrimusTurboFp8):
    name = "primus_turbo_gemm"

    def supports(self, problem, scheme, device):
        if not getattr(scheme, "prequantized", False):
            return Support.no("its quantizers need a ROCm build: choose a scheme with prequantized operands")
        missing = needs.PRIMUS_TURBO.missing() or needs.fp8_missing(device)
        return Support.no(missing) if missing else Support.yes()


PROVIDERS = [PrimusTurboGemm()]

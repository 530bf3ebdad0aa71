"""GemLite's GEMMs on 16-bit activations and FP8 weights in groups of 128: what does another release change?

Written for GemLite 0.5.1.post1 and 0.6.0.post2 (PyPI; pure Triton). GemLite scales a group of 128 elements of a row,
so a row gets the scales of the blocks that it is in. A git repository whose commits differ in the release that they
require, here in `requirements.txt`, makes two releases two versions:

    rooflens compare --git HEAD~1..HEAD --providers .../rooflens/examples/upstream/gemlite_a16w8.py \
        --setup "pip install -r requirements.txt" .../rooflens/examples/upstream/a16w8_dense.toml

It tunes each kernel at the first call, by its own limited search (`gemlite.set_autotune("fast")`, its default).
"""

import gemlite
import torch
from rooflens.kernels.provider import Launch, Provider, Role, Support

TYPES = {torch.bfloat16: gemlite.DType.BF16, torch.float16: gemlite.DType.FP16}
GROUP = 128


class GemLite(Provider):
    name = "gemlite"
    family = "a16w8"
    role = Role.UPSTREAM

    def supports(self, problem, scheme, device):
        if not device.is_gpu:
            return Support.no("its kernels are Triton's: needs a GPU")
        if problem.B != 1 or problem.K % GROUP or scheme.prequant:
            return Support.no(f"computes one matrix on activations of 16 bits, K % {GROUP} = 0")
        return Support.yes()

    def prepare(self, inputs, config=None):
        n, k = inputs.problem.N, inputs.problem.K
        kind = TYPES[inputs.dtype]
        linear = gemlite.GemLiteLinear(8, GROUP, k, n, kind, kind)
        scales = inputs.scale[0].repeat_interleave(GROUP, dim=0)[:n]
        linear.pack(inputs.q[0], scales, zeros=None, bias=None if inputs.bias is None else inputs.bias[0])
        x = inputs.x[0]
        return Launch.returning(
            lambda: linear(x)[None], inputs.empty_output(), dispatched=f"gemlite {gemlite.__version__}"
        )


PROVIDERS = [GemLite()]

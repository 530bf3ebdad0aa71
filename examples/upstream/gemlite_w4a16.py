"""GemLite's GEMMs on 16-bit activations and INT4, MXFP4 or NVFP4 weights: a peer for the suites `w4a16` and its kin.

Written for GemLite 0.6.0.post2 (PyPI; pure Triton):

    rooflens run w4a16-quick --providers examples/upstream/gemlite_w4a16.py

It tunes each kernel at the first call, by its own limited search (`gemlite.set_autotune("fast")`, its default).
"""

import gemlite
import torch
from gemlite.helper import A16W4_HQQ_INT, A16W4_MXFP, A16W4_NVFP
from rooflens.kernels.fourbit.groups import unpack
from rooflens.kernels.provider import Launch, Provider, Role, Support
from rooflens.shapes.schemes.w4a16 import W4A16


class GemLite(Provider):
    name = "gemlite_4bit"
    family = "fourbit"
    role = Role.UPSTREAM

    def supports(self, problem, scheme, device):
        if not device.is_gpu:
            return Support.no("its kernels are Triton's: needs a GPU")
        if not isinstance(scheme, W4A16) or problem.B != 1:
            return Support.no(
                "this provider passes one matrix of INT4, MXFP4 or NVFP4: choose such a scheme and problem"
            )
        return Support.yes()

    def prepare(self, inputs, config=None):
        n, k = inputs.problem.N, inputs.problem.K
        codes = unpack(inputs.packed, n * k).view(n, k)
        scale, kind = inputs.groups.scale.view(n, -1), inputs.scheme.weight
        where = {"device": str(inputs.x.device), "dtype": inputs.x.dtype}
        if kind == "mxfp4":
            linear = A16W4_MXFP(**where).from_weights(codes, scale, bias=inputs.bias)
        elif kind == "nvfp4":
            linear = A16W4_NVFP(**where).from_weights(codes, inputs.bias, scale, meta_scale=1 / inputs.groups.total)
        else:
            zero = torch.full_like(scale, 8)
            if inputs.groups.zero is not None:
                zero = unpack(inputs.groups.zero, scale.numel()).view_as(scale).to(scale.dtype)
            linear = A16W4_HQQ_INT(**where).from_weights(codes, scale, zero, bias=inputs.bias)
        return Launch.returning(
            lambda: linear(inputs.x), inputs.empty_output(), dispatched=f"gemlite {gemlite.__version__}"
        )


PROVIDERS = [GemLite()]

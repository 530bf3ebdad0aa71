"""An FP8 blockwise GEMM of your own: rooflens run fp8-train-quick --providers my_fp8.py

One scaled product per 128 contracted elements, in fp32: acc += (A block . B block) * scale of A * scale of B. It runs
anywhere, slowly; put your kernel where `run` is.
"""

import torch
from rooflens.kernels.provider import Launch, Provider, Support
from rooflens.shapes.problem import Pass

BLOCK = 128


class MyFp8(Provider):
    name = "my_fp8"
    family = "fp8train"  # problems of other families are declined without asking

    def supports(self, problem, scheme, device):
        if problem.pass_ is not Pass.FWD:
            return Support.no("computes the forward pass only")
        if not getattr(scheme, "prequantized", False):
            return Support.no("takes FP8 operands: choose a -prequantized scheme")
        return Support.yes()

    def prepare(self, inputs, config=None):
        x = inputs.given["x_row"]  # data FP8 [M,K], scale fp32 [M, ceil(K/128)]
        w = inputs.given["w"]  # data FP8 [N,K], scale fp32 [ceil(N/128), ceil(K/128)]
        w_scale = w.scale.repeat_interleave(BLOCK, 0)[: w.data.shape[0]]  # weights stay as they are: untimed
        (y,) = inputs.empty_outputs()  # bf16 [M,N]: one tensor per product of the pass
        acc = torch.empty(y.shape, dtype=torch.float32, device=y.device)

        def run():
            acc.zero_()
            for i in range(x.scale.shape[1]):
                at = slice(i * BLOCK, (i + 1) * BLOCK)
                part = x.data[:, at].float() @ w.data[:, at].float().t()
                acc.addcmul_(part, x.scale[:, i, None] * w_scale[None, :, i])
            y.copy_(acc)

        return Launch(run, y)

    def math_dtype(self, problem, scheme, device):
        return "fp32"  # what the matrix units multiply in: "fp8" for a real one; it chooses the compute roof


PROVIDERS = [MyFp8()]

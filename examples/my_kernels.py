"""A kernel of your own: rooflens run llm4bit-quick --providers my_kernels.py"""

import torch
from rooflens.kernels.provider import Launch, Provider


class MyGemm(Provider):
    name = "my_gemm"

    def prepare(self, inputs, config=None):
        weight = inputs.dequantized()  # untimed: pack, allocate, compile
        out = inputs.empty_output()
        return Launch(lambda: torch.mm(inputs.x, weight.t(), out=out), out)


PROVIDERS = [MyGemm()]

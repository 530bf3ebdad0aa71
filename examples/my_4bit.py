"""A 4-bit GEMM that decodes its weights itself: rooflens run llm4bit-quick --providers my_4bit.py"""

import torch
from rooflens.kernels.fourbit.inputs import FourBitInputs
from rooflens.kernels.provider import Config, Launch, Provider, Support
from rooflens.shapes.device import Device
from rooflens.shapes.problem import Problem
from rooflens.shapes.schemes.fourbit import FourBit


class My4Bit(Provider[FourBit, FourBitInputs]):  # the types are optional; with them, mypy and pyright check the rest
    name = "my_4bit"
    family = "fourbit"

    def supports(self, problem: Problem, scheme: FourBit, device: Device) -> Support:
        if scheme.bias or problem.K % scheme.group:
            return Support.no("no bias; K must be a multiple of the block size")
        return Support.yes()

    def prepare(self, inputs: FourBitInputs, config: Config | None = None) -> Launch:
        n, k, group = inputs.problem.N, inputs.problem.K, inputs.scheme.group
        packed = inputs.packed  # uint8 [N*K/2]: row after row of W[N,K], the earlier element in the high nibble
        absmax = inputs.absmax  # fp32 [N*K/group]: one per `group` elements along K
        code = inputs.code  # fp32 [16]: the value of each nibble
        out = inputs.empty_output()  # Y[M,N] in the scheme's dtype

        def run() -> None:
            nibbles = torch.stack((packed >> 4, packed & 15), dim=1).view(-1, group)
            weight = (code[nibbles.int()] * absmax[:, None]).to(out.dtype).view(n, k)
            torch.mm(inputs.x, weight.t(), out=out)

        return Launch(run, out)


PROVIDERS = [My4Bit()]

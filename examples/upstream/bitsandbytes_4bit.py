"""`bitsandbytes.matmul_4bit`, as its users call it: what does another release change?

Written for bitsandbytes 0.49.2 and 0.50.2 (PyPI), which choose different kernels for the same call. A git repository
whose commits differ in the release that they require, here in `requirements.txt`, makes two releases two versions:

    rooflens compare --git HEAD~1..HEAD --providers .../rooflens/examples/upstream/bitsandbytes_4bit.py \
        --setup "pip install -r requirements.txt" llm4bit
"""

import bitsandbytes
import torch
from rooflens.kernels.provider import Launch, Provider, Role, Support


class Matmul4Bit(Provider):
    name = "matmul_4bit"
    family = "fourbit"
    role = Role.UPSTREAM

    def supports(self, problem, scheme, device):
        if scheme.nested or problem.B != 1:
            return Support.no("this provider passes plain absmax and one matrix: choose such a scheme and problem")
        return Support.yes()

    def prepare(self, inputs, config=None):
        scheme = inputs.scheme
        shape = torch.Size((inputs.problem.N, inputs.problem.K))
        state = bitsandbytes.functional.QuantState(
            inputs.absmax, shape, inputs.code, scheme.group, scheme.weight, inputs.x.dtype
        )
        weight = inputs.packed.view(-1, 1).t()  # as its Linear4bit passes it

        def call():
            return bitsandbytes.matmul_4bit(inputs.x, weight, quant_state=state, bias=inputs.bias)

        return Launch.returning(call, inputs.empty_output(), dispatched=f"bitsandbytes {bitsandbytes.__version__}")


PROVIDERS = [Matmul4Bit()]

"""Products that hold operands until their launch is freed, and end in one way each."""

import torch
from rooflens.kernels.provider import Launch, Provider


class Kernel(Provider):
    def __init__(self, name):
        self.name = name

    def prepare(self, inputs, config=None):
        weight, out = inputs.dequantized().t(), inputs.empty_output()

        def run():
            torch.mm(inputs.x, weight, out=out)
            self.fail(out)

        return Launch(run, out)

    def fail(self, out): ...


class Wrong(Kernel):
    def fail(self, out):
        out.zero_()


class Full(Kernel):
    def fail(self, out):
        raise torch.OutOfMemoryError("CUDA out of memory")


class Declined(Kernel):
    def prepare(self, inputs, config=None):
        super().prepare(inputs)
        raise RuntimeError("cuMemAlloc failed: CUDA_ERROR_OUT_OF_MEMORY")


class Searched(Kernel):
    def candidates(self, problem, scheme, device):
        return [{"BLOCK": size} for size in (16, 32)]


class Cyclic(Kernel):
    def prepare(self, inputs, config=None):
        launch = super().prepare(inputs)
        return Launch.returning(lambda: (launch(), launch.output)[1], launch.output)


PROVIDERS = [
    *(Kernel("fine"), Wrong("wrong"), Full("full"), Declined("declined"), Searched("searched"), Cyclic("cyclic")),
]

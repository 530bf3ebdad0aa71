"""CPU providers whose default depends on N, so that a scan has something to hold."""

from faulty_providers import right_launch
from rooflens.kernels.provider import Launch, Provider


class Tiled(Provider):
    """Offers tiles of 16 and 32 columns; the default is 16 up to N = 32."""

    name = "tiled"

    def candidates(self, problem, scheme, device):
        tiles = [{"BLOCK_N": 16}, {"BLOCK_N": 32}]
        return tiles if problem.N <= 32 else tiles[::-1]

    def prepare(self, inputs, config=None):
        chosen = dict(config or self.candidates(inputs.problem, inputs.scheme, inputs.device)[0])
        return Launch(*right_launch(inputs), config=chosen)


class Partly(Tiled):
    """Its only tile is the largest power of two up to N: 32 for N = 48, which is not offered for N = 64."""

    name = "partly"

    def candidates(self, problem, scheme, device):
        return [{"BLOCK_N": 1 << (problem.N.bit_length() - 1)}]


class Refusing(Tiled):
    """Fails when it is asked for its configurations."""

    name = "refusing"

    def candidates(self, problem, scheme, device):
        raise ValueError("no idea")


PROVIDERS = [Tiled(), Partly(), Refusing()]

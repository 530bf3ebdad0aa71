"""The operands of one problem, shared by all its providers, their copies for rotation, and what guards them."""

from collections.abc import Sequence

import torch

from ..kernels.inputs import FourBitInputs
from ..kernels.reference import reference


class Operands:
    """Inputs of one problem with as many bit-identical copies as were asked for, and the product they must give.

    Weights never change; activations are drawn anew in every round. `truth` is the fp64 product of the present ones.
    """

    def __init__(self, inputs: FourBitInputs) -> None:
        self.inputs = inputs
        self.truth: torch.Tensor | None = None
        self._copies = [inputs]
        self._weights = _checksum([inputs])
        self._seed = 0

    def copies(self, count: int) -> list[FourBitInputs]:
        """Return `count` of them, the original first, in distinct memory."""
        while len(self._copies) < count:
            self._copies.append(self.inputs.copy())
        return self._copies[:count]

    def draw(self, seed: int) -> torch.Tensor:
        """Draw new activations, the same for all copies; return and keep the fp64 reference."""
        self._seed = seed
        self.restore()
        self.truth = reference(self.inputs)
        return self.truth

    def restore(self) -> None:
        """Write the present activations again: a failed kernel may have written into them."""
        self.inputs.refresh_activations(self._seed)
        for copy in self._copies[1:]:
            copy.x.copy_(self.inputs.x)

    def negate(self) -> None:
        """Turn X into -X, and the product into that of -X, which is 2 bias - Y(X), in place."""
        assert self.truth is not None
        for copy in self._copies:
            copy.x.neg_()
        self.truth.neg_()
        if self.inputs.bias is not None:
            self.truth.add_(self.inputs.bias.double(), alpha=2)

    def intact(self) -> bool:
        """Tell whether the shared weights are what they were: a provider must leave them alone."""
        return _checksum(self._copies) == self._weights * len(self._copies)


def _checksum(copies: Sequence[FourBitInputs]) -> list[int]:
    """Sums over the bits of all weights and scales, modulo 2^64, with one wait for the device."""
    sums = []
    for inputs in copies:
        nested = (inputs.nested.q, inputs.nested.scale) if inputs.nested else ()
        for tensor in (inputs.packed, inputs.absmax, *nested):
            octets = tensor.reshape(-1).view(torch.uint8)
            whole = octets.numel() // 8 * 8
            # As words of 8 bytes: torch adds single bytes a hundred times slower.
            sums += [octets[:whole].view(torch.int64).sum(), octets[whole:].sum(dtype=torch.int64)]
    found: list[int] = torch.stack(sums).tolist()
    return found

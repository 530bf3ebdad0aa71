"""The operands of one problem, shared by all its providers, their copies for rotation, and what guards them."""

import hashlib

import torch

from ..kernels.inputs import Inputs
from .checksum import signatures


class Operands:
    """Inputs of one problem with as many bit-identical copies as were asked for, and the outputs they must give.

    Weights never change; activations are drawn anew in every round. `truth` holds the outputs for the present ones, in
    fp64, and `checksum` stands for the bits of weights and activations, each in its place.
    """

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.truth: tuple[torch.Tensor, ...] | None = None
        self.checksum = ""
        self._copies = [inputs]
        self._weights = signatures(inputs.weights)
        self._seed = 0

    def copies(self, count: int) -> list[Inputs]:
        """Return `count` of them, the original first, in distinct memory."""
        while len(self._copies) < count:
            self._copies.append(self.inputs.copy())
        return self._copies[:count]

    def draw(self, seed: int) -> None:
        """Draw new activations, the same for all copies; keep their fp64 reference.

        The former reference is let go first: Y[32768, 106496] alone takes 26 GiB in fp64.
        """
        self._seed = seed
        self.truth = None
        self.restore()
        bits = (*self._weights, *signatures(self.inputs.activations))
        self.checksum = hashlib.sha256(repr(bits).encode()).hexdigest()[:16]
        self.truth = self.inputs.reference()

    def restore(self) -> None:
        """Write the present activations again: a failed kernel may have written into them."""
        self.inputs.refresh_activations(self._seed)
        for copy in self._copies[1:]:
            for mine, original in zip(copy.activations, self.inputs.activations, strict=True):
                mine.copy_(original)

    def negate(self) -> None:
        """Turn X into -X, and the reference into that of -X, in place: exactly, and without a second product."""
        assert self.truth is not None
        for copy in self._copies:
            copy.negate()
        self.inputs.negate_reference(self.truth)

    def intact(self) -> bool:
        """Tell whether the shared weights are what they were: a provider must leave them alone."""
        weights = [tensor for copy in self._copies for tensor in copy.weights]
        return signatures(weights) == self._weights * len(self._copies)

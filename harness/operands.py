"""The operands of one problem, shared by all its providers, their copies for rotation, and what guards them."""

import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ..kernels.inputs import Inputs, draw_signs, flip_
from ..kernels.provider import Launch
from .checksum import signatures
from .faults import OperandsChangedError, ProviderError

FIRST = 500_000_000
"""Added to the seed of the activations that come before those of the first round."""

MOST_EARLIER_BYTES = 2 << 30
"""Of a reference that is kept for a round longer."""

SIGNS = 32
"""Patterns of signs that are drawn for the activations of a problem; what they combine to does not end."""


class Operands:
    """Inputs of one problem with as many bit-identical copies as were asked for, and the outputs they must give.

    Weights never change; activations are drawn anew in every round. `truth` holds the outputs for the present ones, in
    fp64, which took `reference_s`; `checksum` stands for the bits of weights and activations, each in its place.
    """

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        outputs = inputs.empty_outputs()
        self._output_types = [output.dtype for output in outputs]
        self.output_bytes = sum(output.nbytes for output in outputs)
        self._keeps_earlier = 8 * sum(output.numel() for output in outputs) <= MOST_EARLIER_BYTES
        self.truth: tuple[torch.Tensor, ...] | None = None
        self.checksum = ""
        self.reference_s = 0.0
        self._copies = [inputs]
        self._weights = signatures(inputs.weights)
        self._constant = signatures(inputs.constant)
        self._places = [_places(inputs)]
        self._seed = 0
        self._known: list[torch.Tensor] = []
        self._earlier: tuple[list[torch.Tensor], tuple[torch.Tensor, ...]] | None = None
        self._signs: list[list[torch.Tensor]] = []
        self._flipped = 0

    def copies(self, count: int) -> list[Inputs]:
        """Return `count` of them, the original first, in distinct memory."""
        while len(self._copies) < count:
            self._copies.append(self.inputs.copy())
            self._places.append(_places(self._copies[-1]))
        return self._copies[:count]

    def draw(self, seed: int) -> None:
        """Draw new activations, the same for all copies; keep their fp64 reference, and the one before (`earlier`).

        A large reference is let go before the next is computed: Y[32768, 106496] alone takes 26 GiB in fp64.
        """
        if self._keeps_earlier:
            if self.truth is None:
                self._draw(seed + FIRST)
            assert self.truth is not None
            self._earlier = self._known, self.truth
        self._draw(seed)

    def _draw(self, seed: int) -> None:
        self._seed = seed
        self.truth, self._known = None, []
        self.restore()
        self._known = [tensor.clone() for tensor in self.inputs.activations]
        bits = (*self._weights, *signatures(self.inputs.activations))
        self.checksum = hashlib.sha256(repr(bits).encode()).hexdigest()[:16]
        began = time.perf_counter()
        self.truth = self.inputs.reference()
        if self.inputs.device.is_gpu:
            torch.cuda.synchronize()
        self.reference_s = time.perf_counter() - began

    def restore(self) -> None:
        """Write the present activations again: a failed kernel may have written into them."""
        self._flipped = 0
        self.inputs.refresh_activations(self._seed)
        for copy in self._copies[1:]:
            for mine, original in zip(copy.activations, self.inputs.activations, strict=True):
                mine.copy_(original)

    def outputs_of(self, launch: Launch) -> tuple[torch.Tensor, ...]:
        """What a launch has written. Raises ProviderError for what computes when it is read, and for another type."""
        for output, dtype in zip(launch.outputs, self._output_types, strict=True):
            if type(output) is not torch.Tensor:
                raise ProviderError(
                    f"its output is a {type(output).__name__}, not a torch.Tensor: write into a plain one"
                )
            if output.dtype != dtype:
                raise ProviderError(
                    f"its output is {output.dtype}, and {dtype} is asked for: see inputs.empty_outputs()"
                )
        return launch.outputs

    @contextmanager
    def earlier(self) -> Iterator[None]:
        """Go back to the activations before the present ones, where their reference is still there.

        What a launch sees while it is timed must not follow from what it was checked on before.
        """
        if self._earlier is None:
            self.recall()
            yield
            return
        present = self._known, self.truth
        self._known, self.truth = self._earlier
        self.recall()
        try:
            yield
        finally:
            self._known, self.truth = present
            self.recall()

    def recall(self, negated: bool = False) -> None:
        """Write the activations of `truth` into all copies again, or their negation (`negated_truth`)."""
        self._flipped = int(negated) << SIGNS
        for copy in self._copies:
            for mine, known in zip(copy.activations, self._known, strict=True):
                mine.copy_(known)
            if negated:
                copy.negate()

    @contextmanager
    def negated_truth(self) -> Iterator[None]:
        """Turn the reference into that of the negated activations for a while, in place."""
        assert self.truth is not None
        self.inputs.negate_reference(self.truth)
        try:
            yield
        finally:
            self.inputs.negate_reference(self.truth)

    def flip(self, choice: int) -> None:
        """Change signs of columns of the activations, in all copies: what the product is then, nobody knows.

        Each call changes them once more, by one of `SIGNS` patterns that were drawn before: the untimed work before a
        sample is one operation for each tensor.
        """
        if not self._signs:
            self._signs = [
                [self._draw_signs(tensor, pattern) for tensor in self.inputs.signed] for pattern in range(SIGNS)
            ]
        self._flipped ^= 1 << choice % SIGNS
        for copy in self._copies:
            self._flip(copy, choice % SIGNS)

    def _draw_signs(self, tensor: torch.Tensor, pattern: int) -> torch.Tensor:
        """Draw the same signs for tensors of as many columns: they may be the same operand in two types."""
        generator = torch.Generator(self.inputs.device.torch_name)
        return draw_signs(tensor, generator.manual_seed(self._seed * SIGNS + pattern))

    def _flip(self, inputs: Inputs, pattern: int) -> None:
        for tensor, sign in zip(inputs.signed, self._signs[pattern], strict=True):
            flip_(tensor, sign)

    @property
    def flipped(self) -> int:
        """What `truth_of` takes: a bit for each pattern between these activations and those of `truth`, and a sign."""
        return self._flipped

    @contextmanager
    def truth_of(self, flipped: int) -> Iterator[tuple[torch.Tensor, ...]]:
        """Compute the outputs for activations that were flipped, as expensive as those of a round; then recall."""
        self.recall(bool(flipped >> SIGNS))
        for pattern in range(SIGNS):
            if flipped >> pattern & 1:
                self._flip(self.inputs, pattern)
        try:
            yield self.inputs.reference()
        finally:
            self.recall()

    @property
    def signed(self) -> int:
        """Tensors that `flip` changes in one copy."""
        return len(self.inputs.signed)

    def negate(self) -> None:
        """Turn X into -X, and the reference into that of -X, in place: exactly, and without a second product."""
        assert self.truth is not None
        for copy in self._copies:
            copy.negate()
        self.inputs.negate_reference(self.truth)

    def change(self) -> str:
        """Say what of the operands that all providers share is not what it was; "" where a provider left them alone.

        Of activations only the values may change.
        """
        if [_places(copy) for copy in self._copies] != self._places:
            return "changed memory, shape or type of a shared tensor; work on a view or a copy"
        constant = [tensor for copy in self._copies for tensor in copy.constant]
        if signatures(constant) != self._constant * len(self._copies):
            return "changed the shared weights; work on a copy"
        return ""

    def require_unchanged(self) -> None:
        """Raise OperandsChangedError where `change` has something to say."""
        if change := self.change():
            raise OperandsChangedError(change)


def _places(inputs: Inputs) -> list[tuple[object, ...]]:
    """What of each tensor a provider must leave as it is, beside its values."""
    return [
        (type(tensor), tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad)
        for tensor in (*inputs.activations, *inputs.constant)
    ]

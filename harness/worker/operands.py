"""The operands of one problem, shared by all its providers, their copies for rotation, and what guards them."""

import hashlib
import math
import random
import time
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ...kernels.inputs import Inputs, draw_signs, flip_, make_inputs
from ...kernels.provider import Launch
from ..isolation.faults import LeftBehindError, ProviderError
from .signatures import signatures

FIRST = 500_000_000
"""Added to the seed of the activations that come before those of the first round."""

MOST_EARLIER_BYTES = 2 << 30
"""Of a reference that is kept for a round longer."""

PART = 64
"""Columns that a second reference has at least."""

_STEPS, _POKED = 16, 4
"""Sets of elements whose signs change by turns while launches are timed, and elements of a set."""

SIGNS = 32
"""Patterns of signs that are drawn for the activations of a problem; what they combine to does not end."""


class Operands:
    """Inputs of one problem with as many bit-identical copies as requested, and the outputs they must produce.

    Weights never change; activations are drawn anew in every round. `truth` holds the outputs for the present ones, in
    fp64, which took `reference_s` at best; `checksum` stands for the bits of weights and activations, in their places.
    `weight` returns the one of `other`, always the same: who keeps something by address may find it there again.
    """

    def __init__(self, inputs: Inputs, weight: Callable[[], Any] | None = None) -> None:
        self.inputs = inputs
        self._weight = weight
        self._other: Inputs | None = None
        outputs = inputs.empty_outputs()
        self._outputs = [_kind(output) for output in outputs]
        self.output_bytes = sum(output.nbytes for output in outputs)
        self._keeps_earlier = 8 * sum(output.numel() for output in outputs) <= MOST_EARLIER_BYTES
        self.truth: tuple[torch.Tensor, ...] | None = None
        self.checksum = ""
        self.reference_s = math.inf
        self._copies = [inputs]
        self._weights = signatures(inputs.weights)
        self._constant = signatures(inputs.constant)
        self._places = [_places(inputs)]
        self._seed = 0
        self._known: list[torch.Tensor] = []
        self._bases: Sequence[Sequence[torch.Tensor]] = ((), ())
        self._earlier: tuple[list[torch.Tensor], tuple[torch.Tensor, ...]] | None = None
        self._signs: list[list[torch.Tensor]] = []
        self._same: list[torch.Tensor] = []
        self._walk: list[torch.Tensor] = []
        self._walked = 0
        self._flipped = array("Q", [0])  # in a list, one number may be an object more than another: a launch can count
        self.version = 0
        """Number of the state of the activations: those who keep track of it see when somebody else changed them."""

    def copies(self, count: int) -> list[Inputs]:
        """Return `count` of them, the original first, in distinct memory."""
        while len(self._copies) < count:
            self._copies.append(self.inputs.copy())
            self._places.append(_places(self._copies[-1]))
            self._flipped.append(self._flipped[0])
        return self._copies[:count]

    def other(self, copies: int = 2) -> Inputs | None:
        """Return operands as they are now, but with another weight; None where there is none, or no second copy."""
        inputs = self.inputs
        if copies < 2 or not self._weight or not inputs.weights:
            return None
        if self._other is None:
            self._other = make_inputs(inputs.problem, inputs.scheme, inputs.device, inputs.seed, self._weight())
        for copied, original in zip(self._other.activations, inputs.activations, strict=True):
            copied.copy_(original)
        return self._other

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
        self.truth, self._known, self._bases = None, [], ((), ())
        self.restore()
        self._known = [tensor.clone() for tensor in self.inputs.activations]
        known = {tensor.data_ptr(): one for tensor, one in zip(self.inputs.activations, self._known, strict=True)}
        self.inputs.negate()
        signed = self.inputs.signed
        self._bases = ([known[one.data_ptr()] for one in signed], [one.clone() for one in signed])
        self.inputs.negate()
        bits = (*self._weights, *signatures(self.inputs.activations))
        self.checksum = hashlib.sha256(repr(bits).encode()).hexdigest()[:16]
        began = time.perf_counter()
        self.truth = self.inputs.reference()
        if self.inputs.device.is_gpu:
            torch.cuda.synchronize()
        self.reference_s = min(self.reference_s, time.perf_counter() - began)  # on busy cores it takes longer

    def restore(self) -> None:
        """Write the present activations again: a failed kernel may have written into them."""
        self.version += 1
        self._flipped = array("Q", [0]) * len(self._copies)
        self.inputs.refresh_activations(self._seed)
        for copy in self._copies[1:]:
            for copied, original in zip(copy.activations, self.inputs.activations, strict=True):
                copied.copy_(original)

    def outputs_of(self, launch: Launch) -> tuple[torch.Tensor, ...]:
        """What a launch has written. Raises ProviderError for what computes when it is read, and for another kind."""
        outputs = launch.outputs
        for output, kind in zip(outputs, self._outputs, strict=True):
            if type(output) is not torch.Tensor:
                raise ProviderError(
                    f"its output is a {type(output).__name__}, not a torch.Tensor: return one, or write into one"
                )
            if (found := _kind(output)) != kind:
                different = next(pair for pair in zip(found, kind, strict=True) if pair[0] != pair[1])
                raise ProviderError(
                    f"its output is {different[0]}, and {different[1]} is expected: see inputs.empty_outputs()"
                )
        return outputs

    def output_room(self, part: slice) -> list[torch.Tensor]:
        """Allocate as much as a launch writes into some columns."""
        return [
            torch.empty((*shape[:-1], len(range(shape[-1])[part])), dtype=dtype, device=device, layout=layout)
            for dtype, device, layout, shape in self._outputs
        ]

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
        """Write the activations of `truth` into all copies again, or their negation."""
        self.version += 1
        for number in range(len(self._copies)):
            self._flipped[number] = int(negated) << SIGNS
            for copied, known in zip(self._copies[number].activations, self._known, strict=True):
                copied.copy_(known)
            if negated:
                self._copies[number].negate()

    @contextmanager
    def negated_truth(self) -> Iterator[None]:
        """Turn the reference into that of the negated activations for a while, in place."""
        assert self.truth is not None
        self.inputs.negate_reference(self.truth)
        try:
            yield
        finally:
            self.inputs.negate_reference(self.truth)

    def flip(self, choice: int, copy: int | None = None, *, is_known: bool = False, negated: bool = False) -> None:
        """Write the activations of `truth`, or `negated` ones, with other signs of columns into one copy, or into all.

        Each time the signs change by one of `SIGNS` patterns that were drawn before, and differ from copy to copy: what
        the products are then, nobody knows. If it `is_known`, they stay. Either way the same untimed operations work on
        memory of the same size, two for each tensor, so that a launch sees no difference but the values.
        """
        if not self._signs:
            self._signs = [
                [self._draw_signs(tensor, pattern) for tensor in self.inputs.signed] for pattern in range(SIGNS)
            ]
            self._same = [signs * signs for signs in self._signs[0]]  # factors of 1, or bits of which none is set
            self._walk = [signs.clone() for signs in self._same]
        self.version += 1
        for step, number in enumerate(range(len(self._copies)) if copy is None else (copy,)):
            pattern = (choice + step) % SIGNS
            self._walked ^= 1 << pattern
            self._flipped[number] = (self._walked, 0)[is_known] | negated << SIGNS
            tensors = (self._copies[number].signed, self._bases[negated], self._signs[pattern], self._walk, self._same)
            for tensor, base, signs, walk, same in zip(*tensors, strict=True):
                flip_(walk, signs)
                flip_(tensor, (walk, same)[is_known], base)

    def _draw_signs(self, tensor: torch.Tensor, pattern: int) -> torch.Tensor:
        """Draw the same signs for tensors of as many columns: they may be the same operand in two types."""
        generator = torch.Generator(self.inputs.device.torch_name)
        return draw_signs(tensor, generator.manual_seed(self._seed * SIGNS + pattern))

    def _flip(self, inputs: Inputs, flipped: int) -> None:
        """Change what `flipped` says, whose own inverse this is."""
        for pattern in range(SIGNS):
            if flipped >> pattern & 1:
                for tensor, sign in zip(inputs.signed, self._signs[pattern], strict=True):
                    flip_(tensor, sign)
        if flipped >> SIGNS:
            inputs.negate()

    def flipped(self, copy: int) -> int:
        """What `truth_of` takes: a bit for each pattern between its activations and those of `truth`, and a sign."""
        return self._flipped[copy]

    @contextmanager
    def poking(self, copy: Callable[[], int], is_read: bool) -> Iterator[Callable[[], object]]:
        """Yield what changes the signs of a few elements of the activations of `copy()`, on a CPU; undo it at the end.

        It takes some nanoseconds, so that it can be part of what is timed. Unless it `is_read`, elements of clones
        change instead, in the same way: what a launch reads stays as it is.
        """
        tensors = [one.signed for one in self._copies]
        bits = [_SignBits(one if is_read else [tensor.clone() for tensor in one]) for one in tensors]
        try:
            yield lambda: bits[copy()].flip()
        finally:
            for one in bits:
                one.undo()

    def present_truth(self, copy: int, part: slice) -> tuple[torch.Tensor, ...]:
        """Compute columns of the outputs for the activations as they are."""
        inputs = self._copies[copy]
        return (inputs if part == slice(None) else inputs.columns(part)).reference()

    def draw_columns(self, within_s: float, generator: random.Random) -> tuple[slice, float]:
        """Draw columns of the output whose reference takes about `within_s`, and return them with its seconds.

        They are all, where that is short enough or a part of them cannot be computed; else `PART` at least.
        """
        unit, columns = self.inputs.column_unit, self._outputs[0][-1][-1]
        width = max(PART, int(within_s / self.reference_s * columns))
        if not unit or width >= columns:
            return slice(None), self.reference_s
        width = -(-width // unit) * unit
        first = generator.randrange(0, columns, unit)
        part = slice(first, min(first + width, columns))
        return part, self.reference_s * (part.stop - part.start) / columns

    @contextmanager
    def truth_of(self, flipped: int, part: slice = slice(None)) -> Iterator[tuple[torch.Tensor, ...]]:
        """Compute columns of the outputs for activations that were flipped, all as dear as those of a round; recall."""
        self.recall()
        self._flip(self.inputs, flipped)
        try:
            yield self.present_truth(0, part)
        finally:
            self.recall()

    def rewritten(self) -> bool:
        """Tell whether a copy's activations are other than `flip` and `recall` have left them; then recall."""
        for copy, flipped in zip(self._copies, self._flipped, strict=True):
            self._flip(copy, flipped)
        found = [signatures(copy.activations) for copy in self._copies]
        self.recall()
        expected = signatures(self.inputs.activations)
        return any(one != expected for one in found)

    @property
    def operations(self) -> int:
        """Device operations of one `flip` of one copy."""
        return 2 * len(self.inputs.signed)

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
        """Raise LeftBehindError where `change` has something to say."""
        if change := self.change():
            raise LeftBehindError(change)


class _SignBits:
    """Signs of some large elements of tensors in a CPU's memory; those of one shape are an operand in two types."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        generator, places = random.SystemRandom(), {}
        self._steps: list[list[tuple[memoryview, int]]] = [[] for _ in range(_STEPS)]
        for tensor in tensors:
            flat = tensor.detach().view(-1)
            if tensor.shape not in places:
                drawn = torch.tensor(generator.choices(range(flat.numel()), k=4 * _POKED * _STEPS))
                largest = flat[drawn].float().abs().argsort(descending=True)[: _POKED * _STEPS]
                places[tensor.shape] = generator.sample(drawn[largest].tolist(), len(largest))
            octets, size = memoryview(flat.view(torch.uint8).numpy()), flat.itemsize
            for number, place in enumerate(places[tensor.shape]):
                self._steps[number % _STEPS].append((octets, place * size + size - 1))
        self._done = 0

    def flip(self) -> None:
        """Change some of them."""
        for octets, place in self._steps[self._done % _STEPS]:
            octets[place] ^= 0x80
        self._done += 1

    def undo(self) -> None:
        """Restore what `flip` has changed."""
        while self._done:
            self._done -= 1
            for octets, place in self._steps[self._done % _STEPS]:
                octets[place] ^= 0x80


def _kind(output: torch.Tensor) -> tuple[torch.dtype, torch.device, torch.layout, tuple[int, ...]]:
    """What of an output is fixed: a tensor of a lazy device, say, would compute when it is read."""
    return output.dtype, output.device, output.layout, tuple(output.shape)


def _places(inputs: Inputs) -> list[tuple[object, ...]]:
    """What of each tensor a provider must leave as it is, beside its values."""
    return [
        (type(tensor), tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.requires_grad)
        for tensor in (*inputs.activations, *inputs.constant)
    ]

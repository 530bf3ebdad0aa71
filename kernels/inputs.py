"""Operands of one problem, quantized once and handed bit-identical to every provider.

`Inputs` is what the harness knows of them; each family has a subclass, and a module `kernels.<family>.inputs` with

    make_weight(problem, scheme, device, seed)                what all M of one shape share
    make_inputs(problem, scheme, device, seed, weight)        the operands
    placeholders(problem, scheme, device)                     operands on the "meta" device: types and shapes only
"""

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import torch

from ..shapes.device import Device
from ..shapes.problem import Problem
from ..shapes.scheme import DType, Scheme
from .fp8 import flip_bits_, negate_

TORCH_DTYPES = {DType.BF16: torch.bfloat16, DType.FP16: torch.float16, DType.FP32: torch.float32}
"""torch dtype of each activation type."""

Tensors = tuple[torch.Tensor, ...]


P = ParamSpec("P")
T = TypeVar("T")

_asked = 0


def decoded_calls() -> int:
    """Return how often a decoded operand was requested in this process: `decoding` counts."""
    return _asked


def decoding(method: Callable[Concatenate[T, P], torch.Tensor]) -> Callable[Concatenate[T, P], torch.Tensor]:
    """Count the calls of a method of inputs that returns an operand decoded.

    A provider that calls it in `prepare` has a launch that pays for no decoding, whatever its role says.
    """

    @wraps(method)
    def counted(self: T, /, *args: P.args, **kwargs: P.kwargs) -> torch.Tensor:
        global _asked
        _asked += 1
        return method(self, *args, **kwargs)

    return counted


class Inputs(ABC):
    """Operands of one problem on one device. Subclasses are frozen dataclasses with these fields and their own."""

    __slots__ = ()

    problem: Problem
    scheme: Any
    device: Device
    seed: int

    @property
    @abstractmethod
    def activations(self) -> Tensors:
        """Tensors that `refresh_activations` and `negate` overwrite in place; a launch reads them at every call."""

    @property
    def signed(self) -> Tensors:
        """Those of the activations whose elements have signs of their own: not scales."""
        return tuple(tensor for tensor in self.activations if tensor.is_floating_point())

    @property
    @abstractmethod
    def weights(self) -> Tensors:
        """Tensors that nobody may change: weights with their scales."""

    @property
    def constant(self) -> Tensors:
        """All tensors but the activations, wherever in the fields they are: a bias and tables are shared as well."""
        changing = {tensor.data_ptr() for tensor in self.activations}
        return tuple(tensor for tensor in _tensors_in(self) if tensor.data_ptr() not in changing)

    @abstractmethod
    def empty_outputs(self) -> Tensors:
        """Allocate what a launch writes, poisoned (`poison`), so that an element that is never written cannot pass."""

    def empty_output(self) -> torch.Tensor:
        """Allocate the only output of an operation that has one."""
        (output,) = self.empty_outputs()
        return output

    def copy(self) -> Self:
        """Return the same values in memory of their own, for rotation among copies."""
        copied: Self = _copied(self)
        return copied

    @abstractmethod
    def refresh_activations(self, seed: int) -> None:
        """Overwrite the activations in place with new random values."""

    def negate(self) -> None:
        """Overwrite the activations in place with themselves, exactly, but for signs; twice is not at all.

        X becomes -X. Where that leaves an output as it is (dX of a training step), parts of X and dY change instead, so
        that no output of a product stays.
        """
        for tensor in self.signed:
            negate_(tensor)

    @abstractmethod
    def reference(self) -> Tensors:
        """Return each output in fp64 (as `empty_outputs` orders and shapes them), from the SAME quantized bits."""

    @property
    def column_unit(self) -> int:
        """Multiple of columns at which `columns` cuts an output; 0 where it cannot."""
        return 0

    def columns(self, part: slice) -> Self:
        """Return the operands of some columns of the only output, in the same memory, for `reference`."""
        raise NotImplementedError

    def negate_reference(self, truth: Tensors) -> None:
        """Turn the reference of the activations into that of the negated ones, in place: Y(-X) = -Y(X)."""
        for output in truth:
            output.neg_()


@dataclass(frozen=True, slots=True)
class QuantizerInputs(Inputs):
    """X[M,K], to be quantized; subclasses say how it is drawn, and what comes out."""

    problem: Problem
    scheme: Any
    device: Device
    seed: int
    x: torch.Tensor

    @property
    def activations(self) -> Tensors:
        """X."""
        return (self.x,)

    @property
    def weights(self) -> Tensors:
        """None: all that is read is drawn anew."""
        return ()


def _copied(value: Any, copied: Callable[[torch.Tensor], torch.Tensor] = torch.clone) -> Any:
    """Return a value of dataclasses, dictionaries, lists and tuples with what `copied` returns of its tensors."""
    if isinstance(value, torch.Tensor):
        return copied(value)
    if not any(True for _ in _tensors_in(value)):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _copied(getattr(value, field.name), copied) for field in fields(value)})
    if isinstance(value, Mapping):
        return {name: _copied(element, copied) for name, element in value.items()}
    return type(value)(_copied(element, copied) for element in value)


def _tensors_in(value: object) -> Iterator[torch.Tensor]:
    """Tensors of a value of dataclasses, mappings, lists and tuples, in the order of their fields."""
    if isinstance(value, torch.Tensor):
        yield value
    elif is_dataclass(value):
        for field in fields(value):
            yield from _tensors_in(getattr(value, field.name))
    elif isinstance(value, Mapping):
        yield from _tensors_in(tuple(value.values()))
    elif isinstance(value, list | tuple):
        for element in value:
            yield from _tensors_in(element)


def make_weight(problem: Problem, scheme: Scheme, device: Device, seed: int) -> Any:
    """Draw what all M of one shape share on the device, and quantize it."""
    return _family(scheme).make_weight(problem, scheme, device, seed)


def other_weight(weight: Any) -> Any:
    """Return a weight of the same shape: its largest tensor is in reverse order, so that products differ."""
    data = max(_tensors_in(weight), key=lambda tensor: tensor.nbytes)

    def backwards(tensor: torch.Tensor) -> torch.Tensor:
        copied = tensor.clone()
        source, target = (one.view(torch.uint8) if one.itemsize == 1 else one for one in (tensor, copied))
        target.copy_(source.flip(tuple(range(source.dim()))))
        return copied

    return _copied(weight, lambda tensor: backwards(tensor) if tensor is data else tensor)


def make_inputs(problem: Problem, scheme: Scheme, device: Device, seed: int, weight: Any = None) -> Any:
    """Make the operands of one problem, `Inputs` of its scheme's family.

    `weight` reuses what `make_weight` returned for the same shape and seed.
    """
    weight = make_weight(problem, scheme, device, seed) if weight is None else weight
    return _family(scheme).make_inputs(problem, scheme, device, seed, weight)


def placeholders(problem: Problem, scheme: Scheme, device: Device) -> Any:
    """Return operands with the types and shapes of `make_inputs`, but no memory: enough to compile for `device`."""
    return _family(scheme).placeholders(problem, scheme, device)


def _family(scheme: Scheme) -> Any:
    return importlib.import_module(f".{scheme.family}.inputs", __package__)


def chunks(count: int, elements_each: int, elements_at_once: int) -> Iterator[slice]:
    """Divide `count` tensors, or rows, into slices of at least one, and of `elements_at_once` elements at most."""
    step = max(1, elements_at_once // elements_each)
    return (slice(first, min(first + step, count)) for first in range(0, count, step))


def normal(shape: Sequence[int], generator: torch.Generator, device: torch.device | str) -> torch.Tensor:
    """Draw fp32 whatever torch's default type is: a provider may have changed it."""
    return torch.randn(tuple(shape), generator=generator, dtype=torch.float32, device=device)


def draw_signs(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Draw a sign for every column of `tensor` [..., K], as `flip_` takes them."""
    negative = torch.randint(0, 2, tensor.shape[-1:], generator=generator, device=tensor.device, dtype=torch.uint8)
    return negative << 7 if tensor.itemsize == 1 else (1 - 2 * negative.to(torch.int8)).to(tensor.dtype)


def flip_(tensor: torch.Tensor, signs: torch.Tensor, source: torch.Tensor | None = None) -> None:
    """Overwrite with `source`, by default itself, and other signs, exactly, as `draw_signs` drew them for this type."""
    source = tensor if source is None else source
    if tensor.itemsize == 1:
        flip_bits_(tensor, signs, source)
    else:
        torch.mul(source, signs, out=tensor)


def poison(tensor: torch.Tensor) -> torch.Tensor:
    """Fill in place with what no right output is: NaN; the greatest value of an integer type (0xFF: NaN in e8m0)."""
    if tensor.is_floating_point():
        return tensor.fill_(torch.nan)
    return tensor.fill_(torch.iinfo(tensor.dtype).max)


def empty_output(shape: Sequence[int], dtype: torch.dtype, device: torch.device | str) -> torch.Tensor:
    """Allocate a poisoned tensor."""
    return poison(torch.empty(tuple(shape), dtype=dtype, device=device))

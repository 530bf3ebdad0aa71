"""Do functions of the user compute what their baseline computes? Outputs are compared, never while a call is timed.

Outputs are the tensors that a call returns, or else those that it reaches and has written. `reached` finds arguments of
a partial, defaults, what a closure holds, and globals and objects that are named; all are put back after every call
here. Calls are compared on these tensors as they are, and with others in their place (`_change`):

- the operands that a function shares with the baseline: its output must follow them;
- what it has returned before: nothing of that may be left over.

A function that does not follow computes something else, or has kept a result. But tensors of its own may be the same
operands in another form, made before they were changed: then nobody knows.
"""

import gc
import random
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import islice
from types import CodeType, FunctionType, ModuleType
from typing import Any

import torch

from ...kernels.inputs import TORCH_DTYPES
from ...kernels.reference import measure
from ...shapes.errors import CorrectnessError
from ...shapes.scheme import EXACT_SNR_DB, SNR_FLOOR_DB
from ..timing.accelerator import Action

FLOOR_DB = {TORCH_DTYPES[dtype]: floor_db for dtype, floor_db in SNR_FLOOR_DB.items()}
"""Least signal-to-noise ratio by type; the coarsest float type decides, of the outputs and of what is reached."""

SINGLE = {"highest": torch.float32, "high": torch.float16, "medium": torch.bfloat16}
"""Type as precise as the products of fp32 that torch is allowed, TF32 or bf16 too."""

FP8_FLOOR_DB = 25.0
"""Rounding both operands of a product to e4m3 leaves 28 dB."""

MOST_OBJECTS = 10_000
"""Objects that are looked at for tensors."""

MOST_BYTES = 2 << 30
"""Of reached tensors, which are copied up to three times. Where there are more, none is put back or changed."""

AGREES, UNCHECKED = "agrees", "unchecked"

AGREES_OWN = f"{AGREES}, own operands"
"""Of a function with tensors of its own, made from operands of the baseline or not: making them was not timed."""

NOTHING = "returns no tensor, and writes none that it refers to"

Tensors = dict[int, torch.Tensor]
"""By the address of their memory."""

Outputs = dict[str, torch.Tensor]
"""By where they are in what was returned or written."""


class _Function:
    """A call, the tensors that it reaches, and the memory of these that it has ever written."""

    def __init__(self, run: Action) -> None:
        self.run, self.reached = run, reached(run)
        self.written: set[int] = set()


class Agreement:
    """Compares `calls` with `baseline`, which is called first, and may raise; `synchronize` waits for the device."""

    def __init__(self, baseline: Action, calls: Mapping[str, Action], synchronize: Action) -> None:
        self._synchronize = synchronize
        self._baseline = base = _Function(baseline)
        self._functions = {name: _Function(call) for name, call in calls.items()}
        self._tensors = {key: one for call in (base, *self._functions.values()) for key, one in call.reached.items()}
        if sum(tensor.untyped_storage().nbytes() for tensor in self._tensors.values()) > MOST_BYTES:
            self._tensors = {}
        self._first = {key: _memory(tensor).clone() for key, tensor in self._tensors.items()}
        self._expected: dict[str, list[tuple[Tensors, Outputs]]] = {}
        self._wanted: set[int] = set()
        self._truth, returned = self._found(base, self._tensors)
        self._wanted = set() if returned else base.written
        self._doubt = "" if self._truth else f"the baseline {NOTHING}"
        if self._truth and not any(one.double().nan_to_num(0, 0, 0).any() for one in self._truth.values()):
            self._doubt = "all that the baseline computes is 0 or not finite, which others may be for any reason"
        hidden = {key: returned[key] for key in returned.keys() - base.reached.keys()}
        if self._difference(base, self._outputs(base, hidden)[0], self._truth):
            self._doubt = "the baseline's own output differs between calls"

    def begin(self, name: str) -> str:
        """Compare the first calls of a function; return `AGREES`, `AGREES_OWN`, or why they cannot be compared.

        Raises CorrectnessError for a difference, and what the function raises.
        """
        call, base, truth = self._functions[name], self._baseline, self._truth
        shared = {key: self._tensors[key] for key in self._tensors if key in base.reached.keys() & call.reached.keys()}
        shared |= {key: self._tensors[key] for key in base.written}
        found, returned = self._found(call, shared)
        if self._doubt or not found:
            return f"{UNCHECKED}: {self._doubt or NOTHING}"
        if len(found) + len(truth) > 2 and bool(returned) == bool(self._wanted):
            return f"{UNCHECKED}: writes what the baseline returns, or returns what that writes"
        if reason := self._difference(call, found, truth):
            raise CorrectnessError(f"{name} is wrong: {reason}")
        alone = {key: returned[key] for key in returned.keys() - base.reached.keys() - call.written}
        own = call.reached.keys() - base.reached.keys() - alone.keys()
        kept = {key: alone[key] for key in alone.keys() & call.reached.keys()}
        if reason := self._difference(call, self._outputs(call, alone)[0], truth):  # it may know its operands again
            raise CorrectnessError(f"{name} is wrong once an earlier output has changed: {reason}")
        changed = shared | kept
        try:  # the baseline second: its last output may lie around
            later, expected = self._outputs(call, changed | alone)[0], self._outputs(base, changed)[0]
        except Exception:  # a matrix may be positive definite no more, say
            changed, later, expected = kept, self._outputs(call, kept)[0], truth
        follows = self._difference(base, expected, truth)
        if reason := self._difference(call, later, expected):
            if own or (shared.keys() - base.written and not follows):
                return f"{UNCHECKED}: does not follow operands of the baseline ({reason})"
            raise CorrectnessError(f"{name} is wrong once its operands or earlier outputs have changed: {reason}")
        if own and not follows:
            return f"{UNCHECKED}: may hold the result; let it compute from operands of the baseline"
        self._expected[name] = [({}, truth), (changed, expected)]
        return AGREES_OWN if own - call.written else AGREES

    def check(self, name: str) -> None:
        """Compare a function that agreed once more. Raises as `begin` does."""
        if name in self._expected:
            changed, expected = random.SystemRandom().choice(self._expected[name])  # it may seed the other one
            call = self._functions[name]
            if reason := self._difference(call, self._outputs(call, changed)[0], expected):
                raise CorrectnessError(f"{name} is wrong in a later call: {reason}")

    def _found(self, call: _Function, operands: Tensors) -> tuple[Outputs, Tensors]:
        """Call first. An output that was written before, and was right, changes once `operands` do."""
        found = self._outputs(call)
        if found[0]:
            return found
        self._outputs(call, operands)
        return self._outputs(call)

    def _outputs(self, call: _Function, changed: Tensors | None = None) -> tuple[Outputs, Tensors]:
        """Call once on the operands as they were first, but for those that are `changed`; then put everything back.

        Returns copies of the outputs, and what the call returned itself: nobody keeps that while something is timed.
        """
        changed = changed or {}
        memory = {key: _memory(one) for key, one in (self._tensors | changed).items()}
        present = {key: octets.clone() for key, octets in memory.items()}
        try:
            for key, first in self._first.items():
                memory[key].copy_(first)
            for number, tensor in enumerate(changed.values(), start=2):
                _change(tensor, number)
            before = {key: memory[key].clone() for key in self._tensors}
            found = dict(_leaves(call.run(), "output"))
            self._synchronize()
            call.written |= {key for key, octets in before.items() if not torch.equal(octets, memory[key])}
            returned = {one.untyped_storage().data_ptr(): one for one in found.values()}
            if not found:
                chosen = call.written & self._wanted or call.written or self._wanted
                wrote = [one for key, one in self._tensors.items() if key in chosen]
                found = {f"output[{number}]": one for number, one in enumerate(wrote)}
            return {name: one.detach().clone() for name, one in found.items()}, returned
        finally:
            for key, octets in present.items():
                with suppress(RuntimeError):  # outputs of a graph are void once it has run again
                    memory[key].copy_(octets)

    def _difference(self, call: _Function, found: Outputs, expected: Outputs) -> str:
        """Say how outputs differ from those of the baseline, by more than rounding; "" where they do not."""
        if found.keys() != expected.keys() and (len(found), len(expected)) != (1, 1):
            return f"it has {', '.join(found)}; the baseline has {', '.join(expected)}"
        reached = (*call.reached.values(), *self._baseline.reached.values())
        operands = [one.dtype for one in reached if one.is_floating_point()]
        for name, output in found.items():
            truth = expected.get(name, next(iter(expected.values())))
            kind, wanted = (f"{_name(one.dtype)}{list(one.shape)}" for one in (output, truth))
            if kind != wanted:
                return f"{name} is {kind}; the baseline has {wanted}"
            exact = truth.double()
            alike = ~exact.isfinite() & ((exact == output.double()) | (exact.isnan() & output.double().isnan()))
            if alike.any():
                output, exact = output.masked_fill(alike, 0), exact.masked_fill(alike, 0)
            coarsest = min((truth.dtype, *operands), key=_floor_db) if truth.is_floating_point() else truth.dtype
            accuracy = measure(torch.atleast_1d(output), torch.atleast_1d(exact))
            if reason := accuracy.failure_below(_floor_db(coarsest), _name(coarsest)):
                return f"{name}: {reason}"
        return ""


def reached(call: Any) -> Tensors:
    """Return the tensors that a function refers to, by what it calls and holds; not all that its module has."""
    found: Tensors = {}
    seen: set[int] = set()
    todo: list[object] = [call, type(call).__call__]
    for one in islice(todo, MOST_OBJECTS):  # it grows
        if id(one) in seen or isinstance(one, ModuleType | type):
            continue
        seen.add(id(one))
        if isinstance(one, torch.Tensor):
            if _is_plain(one):
                found.setdefault(one.untyped_storage().data_ptr(), one)
        elif isinstance(one, FunctionType):
            names = (name for name in _names(one.__code__) if name in one.__globals__)
            todo += [*gc.get_referents(*one.__closure__ or ()), one.__defaults__, one.__kwdefaults__, vars(one)]
            todo += [one.__globals__[name] for name in names]
        else:
            todo += gc.get_referents(one)
    return found


def _names(code: CodeType) -> Iterator[str]:
    """Names of the globals that code refers to, those within it too."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _leaves(value: object, name: str) -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors of what a call returned, in tuples, lists and dictionaries of any depth, with their places."""
    if isinstance(value, torch.Tensor) and _is_plain(value):
        yield name, torch.view_as_real(value.resolve_conj()) if value.is_complex() else value
    elif isinstance(value, Mapping | list | tuple):
        for key, element in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _leaves(element, f"{name}[{key!r}]")


def _is_plain(tensor: torch.Tensor) -> bool:
    """Tell whether a tensor has its elements in memory; of a subclass, they may be computed when they are read."""
    has_memory = tensor.layout is torch.strided and tensor.device.type != "meta" and tensor.numel()
    return type(tensor) in (torch.Tensor, torch.nn.Parameter) and bool(has_memory)


def _memory(tensor: torch.Tensor, dtype: torch.dtype = torch.uint8) -> torch.Tensor:
    """All memory of a tensor, of which it may be a view."""
    return torch.empty(0, dtype=dtype, device=tensor.device).set_(tensor.untyped_storage())


def _change(tensor: torch.Tensor, number: int) -> None:
    """Divide every third element, which keeps signs, zeros and ranges; let bytes, packed weights say, change places.

    By a number of its own, so that what is left over in an output does not follow its operand. Other integers stay:
    they may be indices in an order.
    """
    memory = _memory(tensor, tensor.dtype)
    if tensor.is_floating_point():
        memory[::3] = (memory[::3].double() / number).to(tensor.dtype)
    elif tensor.dtype in (torch.uint8, torch.int8):
        memory.copy_(memory.roll(memory.numel() // number))


def _floor_db(dtype: torch.dtype) -> float:
    if not dtype.is_floating_point:
        return EXACT_SNR_DB
    if dtype.itemsize == 1:
        return FP8_FLOOR_DB
    return FLOOR_DB[SINGLE[torch.get_float32_matmul_precision()] if dtype.itemsize > 2 else dtype]


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")

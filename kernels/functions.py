"""A plain function as a provider: `PROVIDERS = [rooflens.function(kernel, family="fourbit")]`.

Its parameters are named like the operands of the family, which it gets in every call; `out` is where the output goes.
A function without `out` returns the output. What has to be prepared, or chosen, takes a class (`provider`).
"""

import importlib
import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ..shapes.device import Device
from ..shapes.errors import UsageError, unknown_name
from ..shapes.problem import Problem
from ..shapes.scheme import Scheme
from ..shapes.schemes import FAMILY_NAMES
from .inputs import Inputs, placeholders
from .provider import AnyProvider, Config, Launch, Provider, Role, Support

OUT = "out"
"""Parameter that the output is written to."""

_NOT_OPERANDS = ("device", "seed", "activations", "signed", "weights", "constant")
"""Of all inputs: what says how they were drawn, and groups of operands that have names of their own."""


def function(
    kernel: Callable[..., Any], *, family: str, name: str | None = None, role: Role = Role.CANDIDATE
) -> AnyProvider:
    """Return the provider whose launch calls `kernel` with the operands that its parameters name.

    `family` is a family of schemes ("fourbit", "fp8train", "mxfp8", ...). With a parameter `out` the function writes
    the output (a tuple, where there are several); without, it returns them. Other parameters keep their defaults.
    `role` is that of a provider: Role.REFERENCE, if the function decodes nothing. Raises UsageError for a parameter
    that is no operand and has no default, and lists the operands.
    """
    if family not in FAMILY_NAMES:
        raise unknown_name("family", family, list(FAMILY_NAMES))
    called = name or str(getattr(kernel, "__name__", ""))
    if not called:
        raise UsageError(f"{type(kernel).__name__} has no name of its own: give name=...")
    try:
        signature = inspect.signature(kernel).parameters
    except (TypeError, ValueError):
        raise UsageError(f"{called}: its parameters cannot be read; call it from a function of yours") from None
    known = operand_names(family)
    for one, parameter in signature.items():
        if one not in (*known, OUT) and parameter.default is parameter.empty:
            raise UsageError(
                f"{called}({', '.join(signature)}): {one} is no operand of {family}: there are "
                f"{', '.join(known)}, and {OUT} for the output"
            )
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise UsageError(f"{called}({', '.join(signature)}): {one} is positional-only; operands are passed by name")
    parameters = tuple(one for one in signature if one in (*known, OUT))
    # A class of its own, in the module of the function: what is hashed, and checked for its origin, is that file.
    namespace = {
        "name": called,
        "family": family,
        "role": role,
        "kernel": staticmethod(kernel),
        "parameters": parameters,
    }
    made = type(called, (FunctionProvider,), namespace | {"__module__": kernel.__module__, "__doc__": kernel.__doc__})
    found: AnyProvider = made()
    return found


def operand_names(family: str) -> list[str]:
    """Return the names of all operands of a family; a problem may have some of them only."""
    package = f"{__package__}.{family}"
    importlib.import_module(f"{package}.inputs")
    found: dict[str, None] = {}
    for one in _subclasses(Inputs):
        if one.__module__.startswith(f"{package}."):
            fields = [*getattr(one, "__dataclass_fields__", ())]
            properties = [name for name, value in inspect.getmembers(one) if isinstance(value, property)]
            found |= dict.fromkeys(name for name in (*fields, *properties) if name not in _NOT_OPERANDS)
    return list(found)


class FunctionProvider(Provider[Scheme, Inputs]):
    """Calls a function; `function` makes a subclass of it for each."""

    kernel: Callable[..., Any]
    parameters: tuple[str, ...]

    def supports(self, problem: Problem, scheme: Scheme, device: Device) -> Support:
        """Decline a problem that lacks one of the operands."""
        operands = placeholders(problem, scheme, device)
        lacking = [one for one in self.parameters if one != OUT and not hasattr(operands, one)]
        return Support.no(f"this problem has no operand {', '.join(lacking)}") if lacking else Support.yes()

    def prepare(self, inputs: Inputs, config: Config | None = None) -> Launch:
        """Look up the operands; what the function compiles, it compiles in its first call."""
        outputs = inputs.empty_outputs()
        output = outputs if len(outputs) > 1 else outputs[0]
        given = {one: output if one == OUT else getattr(inputs, one) for one in self.parameters}
        call = partial(self.kernel, **given)
        return Launch(call, output) if OUT in given else Launch.returning(call, output)


def _subclasses(one: type[Any]) -> Iterator[type[Any]]:
    for subclass in one.__subclasses__():
        yield subclass
        yield from _subclasses(subclass)

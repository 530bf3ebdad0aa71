"""Which kernels an upstream call really ran: wrappers dispatch, fall back and swallow errors without saying so."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any


@dataclass(slots=True)
class Calls:
    """Calls of the functions of a module: (name, values of the watched parameters), and what they raised."""

    made: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    raised: list[str] = field(default_factory=list)


@contextmanager
def watched(module: ModuleType, functions: Mapping[str, Sequence[str]]) -> Iterator[Calls]:
    """Record the calls of `functions` of `module` while the block runs.

    functions  name -> names of its last positional parameters, whose values are kept. What does not exist is ignored.
    An exception is recorded and propagates to the caller, which may swallow it.
    """
    calls = Calls()
    originals = {name: getattr(module, name) for name in functions if hasattr(module, name)}

    def watch(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **keywords: Any) -> Any:
            names = functions[name]
            last = dict(zip(reversed(names), reversed(arguments), strict=False)) if names else {}
            values = {key: keywords.get(key, last.get(key)) for key in names}
            calls.made.append((name, values))
            try:
                return original(*arguments, **keywords)
            except Exception as error:
                calls.raised.append(f"{name}: {type(error).__name__}: {' '.join(str(error).split())}")
                raise

        return call

    for name, original in originals.items():
        setattr(module, name, watch(name, original))
    try:
        yield calls
    finally:
        for name, original in originals.items():
            setattr(module, name, original)


def triton_kernels(run: Callable[[], object]) -> tuple[str, ...]:
    """Run once; return the names of the Triton kernels that were launched, in order (empty in the interpreter).

    Kernels of other kinds (copies, BLAS, HIP) are not seen.
    """
    import triton

    names: list[str] = []

    def note(metadata: Any) -> None:
        names.append(str(metadata.get()["name"]))

    hooks = triton.knobs.runtime.launch_enter_hook
    if hasattr(hooks, "add"):
        hooks.add(note)
        try:
            run()
        finally:
            hooks.remove(note)
        return tuple(names)
    triton.knobs.runtime.launch_enter_hook = note  # a single hook before Triton 3.5
    try:
        run()
    finally:
        triton.knobs.runtime.launch_enter_hook = hooks
    return tuple(names)

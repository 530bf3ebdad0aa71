"""What can go wrong inside of a worker, as a verdict and a reason, and what of it costs the worker its state."""

import re
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from ...kernels.provider import DeclinedError
from ...shapes.errors import RooflensError
from ...shapes.verdict import Verdict
from ..timing.accelerator import CaptureError


class IncorrectError(Exception):
    """An output below the floor of its scheme; `columns` say by how much."""

    def __init__(self, reason: str, columns: dict[str, Any]) -> None:
        super().__init__(reason)
        self.columns = columns


class LeftBehindError(Exception):
    """A provider changed operands that all share, or left a state or a thread that disturbs what is timed after it."""


class ProviderError(Exception):
    """A provider did what it must not; the message says what, and what to do instead."""


class SearchError(Exception):
    """No candidate of a search passed: the cell ends with what ended the first of them."""

    def __init__(self, verdict: Verdict, reason: str) -> None:
        super().__init__(reason)
        self.verdict = verdict


class StateLostError(Exception):
    """The process, the device context or the shared operands are broken; nothing measured from here on would count.

    Its argument, if any, is the failure of the candidate of a search that broke them.
    """


_SPEAKING = (IncorrectError, LeftBehindError, ProviderError, SearchError, RooflensError)
"""Errors of our own, whose message needs no name of a class in front of it."""

_ALLOCATOR = " Including non-PyTorch memory"
"""How torch goes on once it has said how much is missing and how much there is: pages of advice on its allocator."""

_NO_MEMORY = re.compile(r"(?i)(can't|cannot) allocate memory|out[ _]of[ _]memory")
"""What torch's allocator on a CPU says, and drivers on GPUs, also in an exception of another class."""

_LOST = ("CUDA error", "HIP error", "Triton Error [CUDA]", "Triton Error [HIP]")
"""What torch and Triton say when the device's context may be gone."""


def explain(error: BaseException, doing: str) -> tuple[Verdict, str]:
    """Verdict and one-line reason of an exception."""
    reason = f"{doing}: {describe(error)}"
    if isinstance(error, SearchError):
        return error.verdict, reason
    if isinstance(error, DeclinedError):
        return Verdict.UNSUPPORTED, reason
    if not isinstance(error, _SPEAKING):
        with suppress(ValueError):  # a provider may have closed the stream
            traceback.print_exception(error)  # into the worker's log
    if isinstance(error, MemoryError | torch.OutOfMemoryError) or _NO_MEMORY.search(str(error)):
        return Verdict.OOM, reason
    if type(error).__module__.startswith("triton") or "Triton" in type(error).__name__:
        return Verdict.COMPILE_ERROR, reason
    return Verdict.RUNTIME_ERROR, reason


def describe(error: BaseException) -> str:
    """One line on an exception: its class, what it says and where it was raised, unless it is one of our own.

    What its provider has left behind (`guard`) is in its notes.
    """
    name = "" if isinstance(error, _SPEAKING) else f"{type(error).__name__}: "
    said = str(error).partition(_ALLOCATOR)[0]
    text = "; ".join(" ".join(part.split()) for part in (said, *getattr(error, "__notes__", ())))
    return f"{name}{text}"[:500] + (_place(error) if name else "")


def _place(error: BaseException) -> str:
    """Return " (my_kernels.py:41)": the innermost line that is the user's own, "" without one."""
    found = ""
    for frame, line in traceback.walk_tb(error.__traceback__):
        module, file = str(frame.f_globals.get("__name__", "")), Path(frame.f_code.co_filename)
        package = module.partition(".")[0]
        installed = {"site-packages", "dist-packages"} & set(file.parts)
        if package != "rooflens" and package not in sys.stdlib_module_names and not installed:
            found = f" ({file.name}:{line})"
    return found


def mark_lost(error: BaseException) -> None:
    """Let `is_lost` be true of an error, whatever it is: its provider left what cannot be put back."""
    error.process_is_lost = True  # type: ignore[attr-defined]


def is_lost(error: BaseException) -> bool:
    """Tell whether the process, the device or the shared operands went with an error."""
    costly = (LeftBehindError, CaptureError, StateLostError)
    marked = getattr(error, "process_is_lost", False)
    return marked or isinstance(error, costly) or any(sign in str(error) for sign in _LOST)


def raise_if_lost(error: BaseException) -> None:
    """Raise StateLostError where nothing can be measured any more in this process."""
    if is_lost(error):
        raise StateLostError from error

"""What became of one cell. A timing exists if and only if the verdict is `passed`."""

from enum import StrEnum


class Verdict(StrEnum):
    """Outcome of one (cell, round); every failure is a stored row with its reason.

    A unit that was interrupted has no row: it is still to do.
    """

    PASSED = "passed"
    INCORRECT = "incorrect"
    UNSUPPORTED = "unsupported"
    OOM = "oom"
    COMPILE_ERROR = "compile_error"
    RUNTIME_ERROR = "runtime_error"
    TIMEOUT = "timeout"
    CRASHED = "crashed"

    @property
    def is_final(self) -> bool:
        """A failure ends its cell: further rounds would fail alike."""
        return self is not Verdict.PASSED


RETRIED = tuple(
    verdict for verdict in Verdict if verdict not in (Verdict.PASSED, Verdict.INCORRECT, Verdict.UNSUPPORTED)
)
"""Failures that the state of the machine can have caused, so that --retry may name them: never a wrong output."""

"""What became of one cell. A timing exists if and only if the verdict is `passed`."""

from enum import StrEnum


class Verdict(StrEnum):
    """Outcome of one (cell, round); every failure is a stored row with its reason."""

    PASSED = "passed"
    INCORRECT = "incorrect"
    UNSUPPORTED = "unsupported"
    OOM = "oom"
    COMPILE_ERROR = "compile_error"
    RUNTIME_ERROR = "runtime_error"
    TIMEOUT = "timeout"
    CRASHED = "crashed"
    INTERRUPTED = "interrupted"

    @property
    def has_timing(self) -> bool:
        """Only a passed cell has samples."""
        return self is Verdict.PASSED

    @property
    def is_final(self) -> bool:
        """A final failure ends its cell: further rounds would fail alike. An interrupted round is measured again."""
        return self not in (Verdict.PASSED, Verdict.INTERRUPTED)

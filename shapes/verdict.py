"""What became of one cell, and why. A timing exists if and only if the verdict is `passed`."""

import re
from collections.abc import Iterable
from enum import StrEnum

_SIZES = re.compile(r"(?:(?<=\b[BEMNK]=)|(?<=\btop_k=))(\d+)\b")


class Verdict(StrEnum):
    """Outcome of one (cell, round); every failure is a stored row with its reason.

    A unit that was interrupted has no row: it is still to be measured.
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


def words_and_sizes(reason: str) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Divide the reason that a provider gave into its `M=1`, say, and the texts around these sizes."""
    words, *rest = _SIZES.split(reason)
    return (words, *rest[1::2]), tuple(map(int, rest[::2]))


def reason_groups(reasons: Iterable[tuple[str, str]]) -> list[tuple[str, list[str], int]]:
    """Group (name, reason) pairs that differ in sizes only, in the order of their first appearance.

    A group is its reasons as one text, each size as the range of its values ("M=1..64 is not taken"), its names, each
    once, and the number of its pairs.
    """
    found: dict[tuple[str, ...], list[tuple[str, tuple[int, ...]]]] = {}
    for name, reason in reasons:
        words, sizes = words_and_sizes(reason)
        found.setdefault(words, []).append((name, sizes))
    groups = []
    for words, alike in found.items():
        names = dict.fromkeys(name for name, _ in alike)
        columns = zip(*(sizes for _, sizes in alike), strict=True)
        ranges = [f"{min(sizes)}..{max(sizes)}" if len({*sizes}) > 1 else str(sizes[0]) for sizes in columns]
        merged = words[0] + "".join(map("".join, zip(ranges, words[1:], strict=True)))
        groups.append((merged, list(names), len(alike)))
    return groups

"""What became of one cell, and why. A timing exists if and only if the verdict is `passed`."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

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


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a cell has no time. Reasons that differ in nothing but the `sizes` of a problem have the same `words`.

    A provider writes sizes as `M=1`; `words` are the texts around them.
    """

    words: tuple[str, ...]
    sizes: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the reason that a provider gave."""
        words, *rest = _SIZES.split(text)
        return cls((words, *rest[1::2]), tuple(map(int, rest[::2])))

    @staticmethod
    def merged(reasons: "Iterable[Reason]") -> str:
        """Write reasons of the same words as one, each size as the range of its values: "M=1..64 is not taken"."""
        first, *others = reasons
        columns = zip(first.sizes, *(one.sizes for one in others), strict=True)
        ranges = [f"{min(sizes)}..{max(sizes)}" if len(set(sizes)) > 1 else str(sizes[0]) for sizes in columns]
        return first.words[0] + "".join(map("".join, zip(ranges, first.words[1:], strict=True)))


def reason_groups(reasons: Iterable[tuple[str, str]]) -> list[tuple[str, list[str], int]]:
    """Group (name, reason) pairs that differ in sizes only, in the order of their first appearance.

    A group is its reasons as one text, its names, each once, and the number of its pairs.
    """
    found: dict[tuple[str, ...], list[tuple[str, Reason]]] = {}
    for name, text in reasons:
        reason = Reason.parse(text)
        found.setdefault(reason.words, []).append((name, reason))
    groups = []
    for alike in found.values():
        names, merged = dict.fromkeys(name for name, _ in alike), Reason.merged(reason for _, reason in alike)
        groups.append((merged, list(names), len(alike)))
    return groups

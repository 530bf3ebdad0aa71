"""How the runs, series and changes of a history are named, in the terminal and on its pages."""

from collections.abc import Collection

from ..analysis.history.history import History
from ..analysis.history.run_story import RunMark, key_differences
from . import formatting as fmt

SHORTEST = 7
"""Digits of a commit's hash in a title, as git shortens them."""


def letter(key: int) -> str:
    """Name a key: A, B, ..., Z, AA."""
    return (letter(key // 26 - 1) if key >= 26 else "") + chr(ord("A") + key % 26)


def key_lines(found: History, wanted: Collection[int] | None = None) -> list[str]:
    """Describe the first key (of `wanted`), and how each other differs from the one before it."""
    lines: list[str] = []
    before = None
    for number, key in enumerate(found.keys):
        if wanted is not None and number not in wanted:
            continue
        runs = found.points.loc[found.points["key"] == number, "run"]
        if before is not None:
            what = f"{', '.join(key_differences(found.keys[before], key))} since {letter(before)}"
        else:
            what = ", ".join(f"{name} {value}" for name, value in key.items() if value)
        lines.append(
            f"series {letter(number)}: {what}: {fmt.plural(runs.nunique(), 'run')} from {found.runs[runs.min()].id} on"
        )
        before = number
    return lines


def run_name(run: RunMark) -> str:
    """Name a run with its date and, where that is known, the state of its repository."""
    return f"{run.id} ({', '.join(filter(None, (run.created_at[:10], run.code.label if run.code.commit else '')))})"


def between(before: RunMark, after: RunMark) -> str:
    """Name what lies between two runs: "abc1234..def5678", or the runs where their commits are not known."""
    if before.code.commit and after.code.commit:
        return f"{before.code.commit[:SHORTEST]}..{after.code.commit[:SHORTEST]}"
    return f"{before.id}..{after.id}"

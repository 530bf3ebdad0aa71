"""How the runs, series and changes of a history are named, in the terminal and on its pages."""

from ...reports import formatting as fmt
from .history import History
from .run_story import RunMark, key_differences

SHORTEST = 7
"""Digits of a commit's hash in a title, as git shortens them."""


def letter(key: int) -> str:
    """Name a key: A, B, ..., Z, AA."""
    return (letter(key // 26 - 1) if key >= 26 else "") + chr(ord("A") + key % 26)


def key_lines(found: History) -> list[str]:
    """Describe the first key of its series, and how each other differs from the one before it."""
    lines: list[str] = []
    before = None
    for number in sorted(found.series["key"].unique().tolist()):
        key, runs = found.keys[number], found.points.loc[found.points["key"] == number, "run"]
        if before is None:
            what = ", ".join(f"{name} {value}" for name, value in key.items() if value)
        else:
            what = f"{', '.join(key_differences(found.keys[before], key))} since {letter(before)}"
        lines.append(
            f"series {letter(number)}: {what}: {fmt.plural(runs.nunique(), 'run')} from {found.runs[runs.min()].id} on"
        )
        before = number
    return lines


def run_name(run: RunMark) -> str:
    """Name a run with its date and, where that is known, the state of its repository."""
    return f"{run.id} ({', '.join(filter(None, (run.created_at[:10], run.code.label if run.code.commit else '')))})"


def between(before: RunMark, after: RunMark) -> str:
    """Name what lies between two runs: "abc1234..def5678", or the runs where their commits are not known.

    As in `git describe`, "-dirty" follows a commit that is not exactly what was measured.
    """
    if before.code.commit and after.code.commit:
        return "..".join(f"{run.code.commit[:SHORTEST]}{'-dirty' * run.code.dirty}" for run in (before, after))
    return f"{before.id}..{after.id}"

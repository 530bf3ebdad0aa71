"""Rules that providers bring along: a provider that says which kernel it ran is a policy by itself.

Its own time is the time of its choice, kernels of its own included. Where each word of what it chose stands for an arm
of the run, its decisions can be scored apart from its kernels: `decisions`. A word stands for the arm of its name, or
for the one that the user says ("mma" for mma_4bit).
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from ...shapes.errors import UsageError, unknown_name
from .timings import Ints


def word_of(dispatched: str) -> str:
    """The choice, without its reason: "gemv_mx" of "gemv_mx: by its row of the table"."""
    return dispatched.partition(":")[0].strip()


def rule_names(summary: pd.DataFrame) -> tuple[str, ...]:
    """Providers of a summary that say what they dispatched to."""
    said = summary["dispatched"].fillna("") != ""
    return tuple(map(str, pd.unique(summary.loc[said, "provider"])))


def decisions(words: Sequence[str], arms: Sequence[str], stand_ins: Mapping[str, str]) -> Ints | None:
    """Index of the arm that stands for each word [C]; None when a word has none, or nothing was said.

    Raises UsageError when a stand-in is not an arm.
    """
    for name in stand_ins.values():
        if name not in arms:
            raise unknown_name("arm of --stand-in", name, list(arms))
    index = {name: place for place, name in enumerate(arms)}
    index |= {word: index[arm] for word, arm in stand_ins.items()}
    found = [index.get(word_of(word), -1) for word in words]
    if not found or min(found) < 0:
        return None
    return np.array(found, dtype=np.int64)


def refuse_unused(stand_ins: Mapping[str, str], said: Sequence[str]) -> None:
    """Raise UsageError for a stand-in of a word that no rule of the run says."""
    known = list(dict.fromkeys(word_of(word) for word in said if word))
    for word in stand_ins:
        if word not in known:
            raise UsageError(
                f"--stand-in {word}: no provider here dispatched to it; known: {', '.join(known) or 'none'}"
            )

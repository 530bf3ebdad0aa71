"""Why a case changed whose configuration changed too: its code, the choice, or what there was to choose from.

Both versions run both configurations, in turn. With t(code, configuration) and all times in logarithms,

    total  = t(head, head's) - t(base, base's) = code + choice
    code   = mean over both configurations of t(head, .) - t(base, .)
    choice = mean over both versions of t(., head's) - t(., base's)

Where one version does not offer the other's configuration, there is nothing to swap: the space of choices changed.
"""

from enum import StrEnum

import numpy as np
import pandas as pd

from ..statistics.arrays import Floats, moments, row_medians
from .decide import decide, margins

ARMS = ("base", "head", "base+head-config", "head+base-config")
"""The four arms of a replay: version, and whose configuration it runs when it is not its own."""


class Attribution(StrEnum):
    """What a change comes from."""

    CODE = "code"
    CHOICE = "choice"
    BOTH = "both"
    NEITHER = "neither verified"
    SPACE = "space"


MEANINGS = {
    Attribution.CODE: "the same configuration takes another time",
    Attribution.CHOICE: "another configuration was chosen; each takes the time that it took",
    Attribution.BOTH: "the code changed, and another configuration was chosen",
    Attribution.NEITHER: "no part exceeds the margin beyond chance",
    Attribution.SPACE: "one version does not offer the other's configuration",
}


def attribute(times: Floats, offered: "np.ndarray | None" = None) -> pd.DataFrame:
    """Split the changes of cases: `times` [cases, rounds, 4] in seconds, in the order of `ARMS`; NaN: not measured.

    `offered` [cases]: False where a configuration could not be swapped. One row per case: total, code and choice as
    differences of ln time, each with _low and _high (95 %), and the cause.
    """
    base, head, base_swapped, head_swapped = np.moveaxis(np.log(times), 2, 0)
    parts = {
        "total": head - base,
        "code": ((head_swapped - base) + (head - base_swapped)) / 2,
        "choice": ((base_swapped - base) + (head - head_swapped)) / 2,
    }
    margin = margins(row_medians(times[:, :, 0]))
    table = pd.DataFrame(index=range(len(times)))
    verified = {}
    for name, part in parts.items():
        found = decide(*moments(part), margin)
        table[name], table[f"{name}_low"], table[f"{name}_high"] = found.effect, found.low, found.high
        verified[name] = np.isin(found.words, ["faster", "slower"])
    causes = np.select(
        [verified["code"] & verified["choice"], verified["code"], verified["choice"]],
        [Attribution.BOTH.value, Attribution.CODE.value, Attribution.CHOICE.value],
        Attribution.NEITHER.value,
    )
    if offered is not None:
        causes = np.where(offered, causes, Attribution.SPACE.value)
    return table.assign(cause=causes)

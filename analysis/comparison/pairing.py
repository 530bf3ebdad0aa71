"""Two imported tables as the two versions of a comparison."""

import numpy as np
import pandas as pd

from ...shapes.errors import UsageError
from ..frames.coordinates import CASE
from ..imports.entries import Imported
from .effects import Order, Versions, align


def pair(base: Imported, head: Imported) -> Versions:
    """Join two tables case by case; each time is the only round of its version.

    Raises UsageError when they have no case in common, naming the column that keeps them apart if it is one.
    """
    cases = align(base.frame, head.frame)
    both = (cases["base_verdict"] != "") & (cases["head_verdict"] != "")
    if not both.any():
        raise UsageError(f"the tables have no case in common: {_apart(base.frame, head.frame)}")
    rounds = pd.DataFrame(
        {
            "case": np.arange(len(cases)),
            "round": 0,
            "base_s": cases["base_time_s"].to_numpy(),
            "head_s": cases["head_time_s"].to_numpy(),
        }
    )
    return Versions(cases, rounds, Order.IMPORTED)


def _apart(base: pd.DataFrame, head: pd.DataFrame) -> str:
    for name in CASE:
        ours, theirs = set(base[name]), set(head[name])
        if not ours & theirs:
            return (
                f"{name} is {_some(ours)} in the base and {_some(theirs)} in the head; map it: --columns {name}=COLUMN"
            )
    return "every single column has values in common, but no row has all of them; compare files of one suite"


def _some(values: set[object]) -> str:
    texts = sorted(str(value) for value in values)
    return ", ".join(texts[:3]) + (", ..." if len(texts) > 3 else "")

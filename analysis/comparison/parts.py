"""What a single number of a comparison may cover: a pass of a provider, its operands stored and found in one way."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..frames.coordinates import CASE
from ..statistics.arrays import Floats
from .breakdown import ChangeDistribution, compared, distribution
from .decide import Word
from .effects import Effects, Order
from .suite import SuiteChange, suite_change
from .unverified import rounded_mean

if TYPE_CHECKING:
    from .result import Result

GROUP = ("provider", "dtype", "scheme", "cache")
"""Cases that differ in one of these are never averaged; each pass is a separate question too."""

PROBLEM = tuple(name for name in CASE if name != "pass")
"""What the passes of one case have in common."""

STEP = "step"


@dataclass(frozen=True, eq=False)
class Part:
    """The compared cases of one group and pass; `rows` tells them among `effects.cases`."""

    group: tuple[str, ...]
    pass_: str
    effects: Effects
    rows: "pd.Series[bool]"

    @cached_property
    def cases(self) -> pd.DataFrame:
        """Rows of `Effects.cases`, those that have an effect."""
        found = compared(self.effects)
        return found[self.rows.reindex(found.index)]

    @cached_property
    def change(self) -> SuiteChange | None:
        """Geometric mean; None when nothing is compared."""
        return suite_change(self.effects, self.rows)

    def of_model(self, model: str) -> "Part":
        """The same of the cases of one model alone."""
        return Part(self.group, self.pass_, self.effects, self.rows & (self.effects.cases["model"] == model))

    def words(self) -> dict[Word, int]:
        """How many of the cases have which verdict."""
        counts = self.cases["word"].value_counts()
        return {word: int(counts.get(word.value, 0)) for word in Word}

    def rounded(self) -> tuple[float, float] | None:
        """What rounding of the tables lets the geometric mean be; None unless tables were compared."""
        return rounded_mean(self.cases) if self.effects.order is Order.IMPORTED and len(self.cases) else None

    def distribution(self) -> ChangeDistribution | None:
        """Distribution of the changes over the cases; None when nothing is compared."""
        return distribution(self.cases)

    def changes(self) -> Floats:
        """Change of the time of every case, in the order of `cases`: head / base - 1."""
        return np.asarray(np.expm1(self.cases["effect"].to_numpy(dtype=float)))


@lru_cache(maxsize=2)
def parts(result: "Result") -> "tuple[Part, ...]":
    """All parts that have a compared case: by group in order of appearance, its passes, then their sum."""
    found = [part for effects in (result.effects, result.sums) if effects is not None for part in _parts(effects)]
    order = list(dict.fromkeys(part.group for part in found))
    return tuple(sorted(found, key=lambda part: order.index(part.group)))


def leading(result: "Result") -> list[Part]:
    """Per group the part that ranks its cases: the sum of the passes, else a step measured as one, else the first."""
    by_group: dict[tuple[str, ...], list[Part]] = {}
    for part in parts(result):
        by_group.setdefault(part.group, []).append(part)
    return [_leading(own, result) for own in by_group.values()]


def leading_cases(result: "Result") -> pd.DataFrame:
    """Rows of the leading parts, one per case."""
    return _rows_of(leading(result), result)


def all_cases(result: "Result") -> pd.DataFrame:
    """Rows of all parts: every pass of every case, and the sums."""
    return _rows_of(parts(result), result)


def _rows_of(found: Sequence[Part], result: "Result") -> pd.DataFrame:
    return pd.concat([part.cases for part in found], ignore_index=True) if found else result.effects.cases.iloc[:0]


def by_problem(result: "Result") -> dict[tuple[Any, ...], dict[str, dict[str, Any]]]:
    """Rows of every problem (PROBLEM) by pass, in order of appearance; the sum is one of them."""
    rows = all_cases(result).to_dict("records")
    found: dict[tuple[Any, ...], dict[str, dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(problem_of(row), {})[str(row["pass"])] = {str(name): value for name, value in row.items()}
    return found


def problem_of(row: Any) -> tuple[Any, ...]:
    """Values of PROBLEM of a row."""
    return tuple(row[name] for name in PROBLEM)


def _parts(effects: Effects) -> Iterator[Part]:
    keys = effects.cases.groupby([*GROUP, "pass"], sort=False).ngroup()
    firsts = effects.cases.loc[~keys.duplicated(), [*GROUP, "pass"]].itertuples(index=False, name=None)
    for number, (*group, pass_) in enumerate(firsts):
        part = Part(tuple(map(str, group)), str(pass_), effects, keys == number)
        if len(part.cases):
            yield part


def _leading(own: list[Part], result: "Result") -> Part:
    summed = [part for part in own if part.effects is result.sums]
    stepped = [part for part in own if part.pass_ == STEP]
    return (summed or stepped or own)[0]

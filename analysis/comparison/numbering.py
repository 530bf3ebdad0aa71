"""Numbers by which a report refers to its cases: those of the shape set's source where it has any."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ...shapes import shapeset

SHAPE_SIZES = ("model", "layer", "op", "B", "E", "top_k", "N", "K", "M")
"""What has one number, whatever is done with it: the passes, providers and cache states of it share the number."""


@dataclass(frozen=True, slots=True)
class Numbering:
    """Numbers of cases; `title` heads the column: "TestID" of those of a shape set."""

    title: str
    _numbers: Mapping[tuple[Any, ...], int]

    def __getitem__(self, row: Any) -> int:
        """Return the number of a row of `Effects.cases`."""
        return self._numbers[_key(row)]


def number_cases(cases: pd.DataFrame) -> Numbering:
    """Number the problems of `Effects.cases`: as a shape set does that numbers all of them, else as they come."""
    keys = list(dict.fromkeys(_key(row) for row in cases[[*SHAPE_SIZES]].to_dict("records")))
    for name in shapeset.names():
        known = shapeset.test_ids(name)
        found = {key: known.get(_sizes(key)) for key in keys}
        if keys and known and all(found.values()):
            numbers = {key: number for key, number in found.items() if number is not None}
            if len(set(numbers.values())) == len(keys):
                return Numbering("TestID", numbers)
    return Numbering("case no.", {key: number for number, key in enumerate(keys, start=1)})


def _key(row: Any) -> tuple[Any, ...]:
    return tuple(row[name] for name in SHAPE_SIZES)


def _sizes(key: tuple[Any, ...]) -> tuple[str, int, int, int]:
    sizes = dict(zip(SHAPE_SIZES, key, strict=True))
    return str(sizes["model"]), int(sizes["N"]), int(sizes["K"]), int(sizes["M"])

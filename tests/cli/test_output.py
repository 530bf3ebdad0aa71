"""JSON on stdout: what becomes of our values."""

import dataclasses
import json
import math
from enum import StrEnum
from pathlib import Path

import pytest
from rooflens.cli.shared.output import plain, print_json


class Colour(StrEnum):
    RED = "red"


@dataclasses.dataclass(frozen=True, slots=True)
class Thing:
    colour: Colour
    sizes: tuple[int, ...]
    time_s: float


class NumpyLike:
    def item(self) -> float:
        return 2.5


def test_plain_reduces_values_to_json(capsys):
    thing = Thing(Colour.RED, (1, 2), math.nan)
    assert plain(thing) == {"colour": "red", "sizes": [1, 2], "time_s": None}
    assert plain({1: Path("a") / "b", "x": NumpyLike(), "inf": math.inf}) == {"1": "a/b", "x": 2.5, "inf": None}
    print_json([thing])
    assert json.loads(capsys.readouterr().out) == [{"colour": "red", "sizes": [1, 2], "time_s": None}]


def test_plain_refuses_what_json_does_not_know():
    with pytest.raises(TypeError, match="object"):
        plain(object())

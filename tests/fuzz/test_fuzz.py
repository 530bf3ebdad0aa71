"""Damaged and hostile files, given to every command that reads them: one line and a documented exit code, in time."""

import sys
import time
from itertools import count
from random import Random

import pytest

from . import property
from .mutate import damaged
from .property import PARTS, complaints
from .targets import TARGETS


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_no_input_breaks_a_command(target, part, tmp_path, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    clean, place = tmp_path / "clean", tmp_path / "place"
    clean.mkdir()
    place.mkdir()
    target.write(clean)
    assert complaints(target, clean, place, part) == []


@pytest.mark.parametrize(
    "code, said, wrong",
    [
        (0, "", ""),
        (2, "rooflens: error: a.csv line 1: no; mend it\n", ""),
        (1, "rooflens: error: unexpected KeyError: 'M' (case.py:3)\n", "unexpected KeyError"),
        (7, "", "exit code 7"),
        (2, "rooflens: error: one\ntwo\n", "not one line"),
        (2, f"rooflens: error: {'x' * 5000}\n", " characters: "),
        (0, "\x1b[31m", "a hidden character"),
    ],
)
def test_a_command_that_breaks_a_rule_is_found(code, said, wrong, tmp_path, monkeypatch):
    def main(arguments):
        print(said, end="", file=sys.stderr)
        return code

    monkeypatch.setattr(property, "main", main)
    assert wrong in (found := property.what_breaks(["list"], tmp_path))
    assert bool(found) == bool(wrong)


@pytest.mark.parametrize(
    "limit, main, wrong",
    [
        ("WAIT_S", lambda arguments: time.sleep(60), "more than 0.05 s"),
        ("EACH_S", lambda arguments: all(number >= 0 for number in count()), "more than 0.05 s of processor time"),
    ],
)
def test_a_command_that_does_not_end_is_found(limit, main, wrong, tmp_path, monkeypatch):
    monkeypatch.setattr(property, "main", main)
    monkeypatch.setattr(property, limit, 0.05)
    assert property.what_breaks(["list"], tmp_path) == wrong


@pytest.mark.parametrize("name", ["a.csv", "a.json", "a.toml", "a.txt"])
def test_most_inputs_are_damaged_and_the_same_ones_every_time(name):
    content = {"a.csv": b"a,b\n1,2\n3,4\n", "a.json": b'{"a": [1, {"b": 2}]}'}.get(name, b'a = 1\nb = "c"\n')
    found = [damaged(name, content, Random(number)) for number in range(200)]
    assert found == [damaged(name, content, Random(number)) for number in range(200)]
    assert len(set(found) - {content}) > 100

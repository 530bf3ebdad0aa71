"""A stored run with planted times, for the commands that read one, and a tiny suite for the one that measures."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rooflens.cli.main import main
from rooflens.shapes.request import Request

from ..analysis.synthetic import write_run
from .tiny_runs import write_suite


@pytest.fixture
def plant(tmp_path, monkeypatch) -> Callable[..., Path]:
    """Return `plant(name, **what)`: write runs/NAME in an empty working directory, as `write_run` describes."""
    monkeypatch.chdir(tmp_path)

    def write(name: str = "planted", **what: object) -> Path:
        return write_run(tmp_path / "runs" / name, **what)

    return write


@pytest.fixture
def plant_comparison(tmp_path) -> Callable[..., None]:
    """Return `plant_comparison(folder, arms, rounds)`: note that these arms, planted in `folder`, took turns."""

    def note(folder: Path, arms: tuple[str, ...], rounds: int) -> None:
        state = {
            "repository": str(tmp_path), "commits": dict.fromkeys(arms, "0" * 40), "suite": "tiny", "files": [],
            "request": Request(suite="tiny").stored(),
            "rounds": rounds, "setup": "", "suite_hash": "", "tables": {}, "only": "", "searches": {},
            "done": [[number, arm] for number in range(rounds) for arm in arms],
        }  # fmt: skip
        (folder / "compare.json").write_text(json.dumps(state))

    return note


@pytest.fixture
def invoke(capsys) -> Callable[..., object]:
    """Return `invoke(*arguments, code=0)`: run a command that ends with this exit code; return what was printed."""

    def run(*arguments: object, code: int = 0) -> object:
        assert main([*map(str, arguments)]) == code
        return capsys.readouterr()

    return run


@pytest.fixture
def refused(invoke) -> Callable[..., str]:
    """Return `refused(*arguments, code=2)`: run a command that prints one line of error and nothing else; return it."""

    def run(*arguments: object, code: int = 2) -> str:
        out, err = invoke(*arguments, code=code)
        assert out == ""
        assert err.startswith("rooflens: error: ")
        assert err.count("\n") == 1
        return err

    return run


@pytest.fixture
def place(tmp_path) -> Path:
    """Return a folder with the suite tiny.toml."""
    return write_suite(tmp_path)


@pytest.fixture
def here(place, tmp_path, monkeypatch) -> Path:
    """Return `place`, with a cache of environments of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return place


@pytest.fixture(autouse=True)
def no_width(monkeypatch) -> None:
    """Let no COLUMNS of whoever runs the tests lay tables out."""
    monkeypatch.delenv("COLUMNS", raising=False)

"""The project does not grow unnoticed: budgets.toml has the most of each measure; a commit that raises one says why."""

import ast
import io
import subprocess
import tokenize
import tomllib
from collections import Counter
from pathlib import Path, PurePosixPath

import click
import pytest
from rooflens.cli.main import app

ROOT = Path(__file__).resolve().parents[1]
BUDGETS = tomllib.loads((ROOT / "budgets.toml").read_text("utf-8"))
NO_CODE = {*(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE), *(tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)}
OTHERS = {".cu", ".cuh", ".cpp", ".hpp", ".h", ".js", ".css", ".html", ".j2"}


def tracked() -> list[PurePosixPath]:
    """Return the files of the project, from its root."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False).stdout.split(
        "\n"
    )
    paths = [PurePosixPath(name) for name in listed if name]
    return [path for path in paths if (ROOT / path).is_file() and not (ROOT / path).is_symlink()]


def python_lines(text: str) -> int:
    """Count lines of code: no blank ones, comments or docstrings, those below a constant included."""
    prose: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        for statement in [] if isinstance(node, ast.Lambda | ast.IfExp) else getattr(node, "body", []):
            value = getattr(statement, "value", None)
            if isinstance(statement, ast.Expr) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                prose.update(range(statement.lineno, statement.end_lineno + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - prose)


def other_lines(text: str) -> int:
    begins = ("//", "/*", "*", "{#", "<!--")
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith(begins))


def folder_of(path: PurePosixPath) -> str:
    """Name what a file counts for: its top folder, and tests, wherever they are."""
    return "tests" if "tests" in path.parts else path.parts[0] if len(path.parts) > 1 else "root"


def code_lines() -> dict[str, int]:
    """Lines of code by folder."""
    found: Counter[str] = Counter()
    for path in tracked():
        if path.parts[:2] in (("docs", "results"), ("docs", "gallery")):
            continue
        if path.suffix == ".py":
            found[folder_of(path)] += python_lines((ROOT / path).read_text("utf-8"))
        elif path.suffix in OTHERS:
            found[folder_of(path)] += other_lines((ROOT / path).read_text("utf-8"))
    return dict(found)


def options(command: click.Command) -> set[str]:
    """Names of the options of a command and of those inside of it, each once."""
    found = {name for one in command.params if isinstance(one, click.Option) for name in one.opts if name[:2] == "--"}
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            found |= options(inner)
    return found


def measured() -> dict[str, dict[str, float]]:
    pages = [path for path in tracked() if path.suffix == ".md" and folder_of(path) != "tests"]
    written = [path for path in pages if path.parts[:2] not in (("docs", "results"), ("docs", "gallery"))]
    stored = [path for path in tracked() if path.parts[:2] == ("docs", "results")]
    return {
        "lines of code": {**code_lines()},
        "others": {
            "options": len(options(app)),
            "words of documentation": sum(len((ROOT / path).read_text("utf-8").split()) for path in written),
            "MB of results": sum((ROOT / path).stat().st_size for path in stored) / 1e6,
        },
    }


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="only a repository says which files belong to the project")
def test_nothing_is_above_its_budget():
    found = measured()
    above = [
        f"{what} of {part}: {value:g}, {value - BUDGETS[what].get(part, 0):g} above its budget"
        for what, parts in found.items()
        for part, value in parts.items()
        if value > BUDGETS[what].get(part, 0)
    ]
    assert not above, "\n".join(above)


def test_lines_of_code_are_counted_without_prose():
    text = (
        '"""A\nB\n"""\n\nX = 1\n"""of X"""\n# so\ndef f(\n    a,\n):\n    """Doc."""\n    return (\n        a\n    )\n'
    )
    assert python_lines(text) == 7
    assert other_lines("// a\n\nint f() {\n}\n") == 2

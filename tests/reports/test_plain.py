"""--ascii: every sign that rooflens writes has a plain form; names and commands stay what they are."""

import ast
from pathlib import Path

import pytest
from rooflens.reports.model import CodeBlock, Column, Report, Section, Table, TableCell, Text
from rooflens.reports.render import json_form, markdown, plain, text

ROOT = Path(__file__).resolve().parents[2]

FOREIGN = {"audit", "imports"}
"""Folders that read what others print, and write none of it into a report."""


def strings(module: Path) -> set[str]:
    """Every character of a module's strings but those of docstrings."""
    tree = ast.parse(module.read_text("utf-8"))
    bodies = [node.body for node in ast.walk(tree) if isinstance(getattr(node, "body", None), list)]
    alone = {
        id(statement.value)
        for body in bodies
        for statement in body
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    }
    found = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in alone)
    return {sign for node in found if isinstance(node.value, str) for sign in node.value}


def test_every_sign_in_our_own_strings_has_a_plain_form():
    modules = [
        path
        for folder in ("reports", "analysis", "shapes", "harness")
        for path in (ROOT / folder).rglob("*.py")
        if not FOREIGN & set(path.parts) and path.name not in ("visible.py", "svg.py")
    ]
    assert len(modules) > 100
    without = {
        f"{sign!r} of {path.relative_to(ROOT)}"
        for path in modules
        for sign in strings(path)
        if not plain.to_ascii(sign).isascii()
    }
    assert not without, "add them to rooflens.reports.render.plain.ASCII"


@pytest.mark.parametrize(
    "sign, written",
    [
        ("~1.0×", "~1.0x"),
        ("≤ 12.30 µs … ≥ 4", "<= 12.30 us ... >= 4"),
        ("a ÷ b (time)", "a / b (time)"),
        ("−2.45% ± 1", "-2.45% +- 1"),
        ("Σ ref²", "sum ref^2"),
        ("10⁻¹² B", "10^-12 B"),
        ("32 → 96", "32 -> 96"),
        ("61 °C", "61 deg C"),
        ("模型 ü", "模型 ü"),
    ],
)
def test_signs(sign, written):
    assert plain.to_ascii(sign) == written


def signs() -> Report:
    """A report with signs of ours, a name of the user, and a command."""
    table = Table(
        "t", "≤ µ", (Column("N×K", unit="µs"),), ((TableCell("~1.0×", 1.0, note="± 2"),),), reading="a ÷ b → c"
    )
    blocks = (table, Text("模型 is ≥ 2×"), CodeBlock("rooflens report runs/µ×"))
    return Report("bf16 · cold", (("run", "r · 1"),), (Section("s", "Rate ≥ 1", blocks),), "g")


def test_nothing_but_names_and_commands_is_left():
    told = plain.as_ascii(signs())
    for rendered in (text.render(told), markdown.render(told, ascii_only=True).text):
        assert {sign for sign in rendered if not sign.isascii()} == {"模", "型", "µ", "×"}
        assert "rooflens report runs/µ×" in rendered
        assert "~1.0x" in rendered.replace("\\", "")
    assert json_form.render(told, ascii_only=True).isascii()


def test_values_anchors_and_notes_stay():
    told, was = plain.as_ascii(signs()), signs()
    (before, *_), (after, *_) = was.sections[0].blocks, told.sections[0].blocks
    assert (after.id, after.rows[0][0].value) == (before.id, 1.0)
    assert [*told.notes] == ["+- 2"]

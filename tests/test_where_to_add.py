"""The table "Where to add what" of docs/architecture.md is true: each row is tried in a temporary copy of the project.

A row is tried with the files that it names, and no others. All rows are added to one copy, and checked in one process.
"""

import json
import os
import re
import shutil
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from .environments import FOLDERS, printed_by
from .suite_files import suite_text

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"


PROVIDER = """
import torch
from {kernels}provider import Launch, Provider

class Added(Provider):
    name, family = "{name}", "{family}"

    def prepare(self, inputs, config=None):
        (out,) = inputs.empty_outputs()
        return Launch(lambda: torch.mm(inputs.x, inputs.dequantized().t(), out=out), out)

ADDED = Added()
PROVIDERS = [ADDED]
"""

PLUGIN = """
import click
from ...shapes.plugins import Command, Plugin

PLUGIN = Plugin({"added": Command("rooflens.plugins.added.plugin:added", "Say what was added here.")})
added = click.Command("added", callback=lambda: click.echo("an added command"))
"""

SCHEME = """
from .fourbit import FourBit

class Plain(FourBit):
    family, grammar, name = "added", "plain", "plain"

    @classmethod
    def read(cls, name, dtype):
        return cls("nf4", 64, dtype) if name == "plain" else None
"""

INPUTS = "from ..fourbit.inputs import make_inputs, make_weight, placeholders\n"

SUITE = suite_text("added", ["dequant_blas", "blas"], [1], shapes="added")

SHAPES = """suite,model,layer,op,N,K,B,E,top_k,tp,M_list,seqlen,notes
added,added-model,q,gemm,64,64,,,,,,,
"""

NAMED = """
from .{module} import {base}

class Added{base}({base}):
    name = "added"
"""

IMPORTER = """
from dataclasses import replace
from . import tidy

SOURCE = "added"
def matches(table):
    return table.header[0] == "added_ms"
def read(table, columns):
    return replace(tidy.read(table, {"time_ms": "added_ms"}), source=SOURCE)
"""

EMITTER = "def emit_added(policy, provenance):\n    return f'a policy: {policy.name}'\n"

RULE = """
from ..evidence.finding import Severity
from ..evidence.rule import Rule

def check(sheet):
    yield RULE.at(sheet, 0, "a table", severity=Severity.QUESTION)

RULE = Rule("added-rule", "tables", "nothing to do", check)
"""

SECTION = """
from {model}model import Section, Text

def added(subject):
    return Section("added", "An added chapter", (Text("added text"),))
"""

RENDERER = "def files(report, path, ascii_only):\n    return {path: f'added: {report.title}'.encode()}\n"

DEVICES = (ROOT / "shapes" / "devices.csv").read_text("utf-8").splitlines(keepends=True)
RADEON = next(line for line in DEVICES if line.startswith("AMD Radeon RX 7900 XTX,RX 7900 XTX,"))

ADDITIONS: dict[str, tuple[str, dict[str, str | tuple[str, str] | list[tuple[str, str]]]]] = {
    "a provider": (
        'assert "added_4bit" in printed("list", "providers")',
        {
            "kernels/fourbit/added.py": PROVIDER.format(kernels="..", name="added_4bit", family="fourbit"),
            "kernels/registry.py": (
                "BUILTIN = {\n",
                '@"added_4bit": Shipped("fourbit", "candidate", "fourbit.added:ADDED"),',
            ),
        },
    ),
    "a family (inside the package only)": (
        """
        from rooflens.kernels import registry
        from rooflens.kernels.inputs import make_inputs
        from rooflens.harness.machine.device import find_device
        from rooflens.shapes.problem import Problem
        from rooflens.shapes.schemes import parse_scheme
        inputs = make_inputs(Problem(2, 64, 64), parse_scheme("plain", "fp32"), find_device("cpu"), seed=1)
        launch = registry.load(["plain_mm"])["plain_mm"].prepare(inputs)
        launch()
        assert (launch.output - inputs.reference()[0]).abs().max() < 1e-5
        listed = printed("list", "providers")
        assert "plain_mm" in listed and "unexpected" not in listed, listed
        """,
        {
            "shapes/schemes/added.py": SCHEME,
            "kernels/added/inputs.py": INPUTS,
            "kernels/added/plain.py": PROVIDER.format(kernels="..", name="plain_mm", family="added"),
            "shapes/schemes/probes.py": (
                "PROBES: tuple[tuple[str, Problem], ...] = (\n",
                '@("plain", Problem(1, 8, 16)),\n',
            ),
            "shapes/schemes/__init__.py": (
                "FAMILIES: tuple[type[Scheme], ...] = (\n",
                "from .added import Plain\n@Plain,\n",
            ),
            "kernels/registry.py": (
                '    "kernel_a16w8": Shipped(',
                '"plain_mm": Shipped("added", "candidate", "added.plain:ADDED"),\n@',
            ),
        },
    ),
    "a provider of your own repository": (
        f"""
        (work / "mine.py").write_text({PROVIDER.format(kernels="rooflens.kernels.", name="mine", family="fourbit")!r})
        assert "mine" in printed("list", "providers", "--providers", work / "mine.py")
        """,
        {},
    ),
    "a shape set, a suite": (
        """
        assert "added" in printed("list", "shapes")
        assert "added" in printed("run", "added", "--dry-run")
        """,
        {"shapes/sets/added.csv": SHAPES, "shapes/suites/added.toml": SUITE},
    ),
    "a device": (
        'assert "Added GPU" in printed("list", "devices")',
        {
            "shapes/devices.csv": (
                RADEON,
                "@" + RADEON.replace("AMD Radeon RX 7900 XTX,RX 7900 XTX,", "Added GPU,Added GPU,"),
            )
        },
    ),
    "a stored column": (
        'assert "cells.csv:added_s" in printed("list", "columns")',
        {
            "shapes/run_folder/columns.py": (
                '"one row per finished (cell, round): the commit record, written after its samples",\n    (\n',
                '@ColumnSchema("added_s", ColumnType.FLOAT, "an added column", "s"),\n',
            )
        },
    ),
    "a timer": (
        """
        from rooflens.harness.timing.timers import TIMERS
        from rooflens.reports.sections.conditions import conditions
        assert TIMERS["added"].name == "added"
        assert conditions.TIMERS["added"] == "an added timer"
        printed("run", "llm4bit-quick", "--device", "cpu", "--set", "timer=added", "--dry-run")
        """,
        {
            "harness/timing/added_timer.py": NAMED.format(module="host_timer", base="HostTimer"),
            "harness/timing/timers.py": (
                "TIMERS: dict[str, Callable[..., Timer]] = {\n",
                'from .added_timer import AddedHostTimer\n@"added": AddedHostTimer,\n',
            ),
            "shapes/protocol.py": ('TIMERS = ("auto", ', '@"added", '),
            "harness/worker/bench.py": ("WATCHED = (", '@"added", '),
            "reports/sections/conditions/conditions.py": ("TIMERS = {\n", '@"added": "an added timer",\n'),
        },
    ),
    "a source of telemetry": (
        """
        from rooflens.harness.machine.device import find_device
        from rooflens.harness.telemetry.source import telemetry
        assert telemetry(find_device("cpu")).name == "added"
        """,
        {
            "harness/telemetry/added.py": NAMED.format(module="host", base="HostTelemetry"),
            "harness/telemetry/source.py": (
                "            return HostTelemetry()\n",
                "            from .added import AddedHostTelemetry\n            return AddedHostTelemetry()\n@",
            ),
        },
    ),
    "an importer of another tool's table": (
        """
        from rooflens.analysis.imports.read import read
        (work / "times.csv").write_text("added_ms,M,N,K\\n1.5,1,2,3\\n2.5,2,2,3\\n")
        found = read(work / "times.csv")
        assert (found.source, len(found.frame)) == ("added", 2)
        """,
        {
            "analysis/imports/added.py": IMPORTER,
            "analysis/imports/read.py": (
                "FORMATS: list[ImportFormat] = [",
                "from . import added\n@added, ",
            ),
        },
    ),
    "a form to emit a policy in": (
        """
        assert printed("dispatch", STORED, "--emit", "added").startswith("a policy: ")
        """,
        {
            "plugins/dispatch/emit_added.py": EMITTER,
            "plugins/dispatch/command.py": [
                ("FILES = {", '@"added": "dispatch.txt", '),
                ("    emitters: dict[", "    from .emit_added import emit_added\n@"),
                ('        "json": emit_json,\n', '@"added": emit_added,\n'),
            ],
        },
    ),
    "a plugin": (
        """
        assert "Say what was added here." in printed("--help")
        assert printed("added") == "an added command\\n"
        """,
        {"plugins/added/__init__.py": "", "plugins/added/plugin.py": PLUGIN},
    ),
    "a rule of the audit": (
        """
        (work / "table.md").write_text("| M | ms |\\n|---|---|\\n| 1 | 2.5 |\\n| 2 | 3.5 |\\n")
        assert "added-rule" in printed("audit", work / "table.md")
        """,
        {
            "plugins/audit/rules/added.py": RULE,
            "plugins/audit/rules/registry.py": (
                "RULES: tuple[Rule, ...] = (\n",
                "from .added import RULE as ADDED\n@ADDED,\n",
            ),
        },
    ),
    "advice of the doctor": (
        'assert "added advice" in printed("doctor")',
        {
            "harness/machine/advice_host.py": (
                "def host_load(",
                'def added(survey):\n    yield warn("host", "added advice")\n\n\n@',
            ),
            "harness/machine/advice.py": ("RULES: tuple[Rule, ...] = (\n", "@advice_host.added,\n"),
        },
    ),
    "a report section": (
        """
        from rooflens.reports.presets import PRESETS
        assert PRESETS["full"].chapters[0](None).id == "added"
        """,
        {
            "reports/sections/summary/added.py": SECTION.format(model="..."),
            "reports/presets.py": ('"everything that is known of a run",\n            (', "@added, "),
        },
    ),
    "a chapter on two versions": (
        """
        from rooflens.reports.presets import OF_TWO_VERSIONS
        assert OF_TWO_VERSIONS["branch"].chapters[0](None).id == "added"
        """,
        {
            "reports/sections/comparison/added.py": SECTION.format(model="..."),
            "reports/presets.py": [
                ("from .view import View\n", "from .sections.comparison.added import added as added_chapter\n@"),
                ('"what changed between two versions",\n        (\n', "@added_chapter,\n"),
            ],
        },
    ),
    "an output format": (
        """
        printed("report", STORED, "-o", f"added={work / 'r.added'}")
        assert (work / "r.added").read_text().startswith("added: ")
        """,
        {
            "reports/render/added.py": RENDERER,
            "reports/render/formats.py": (
                "FORMATS = {\n",
                '@"added": OutputFormat("added"),\n',
            ),
        },
    ),
    "a format of another tool for the times of a run": (
        """
        printed("report", STORED, "-o", work / "r.times")
        assert (work / "r.times").read_text().startswith("added: ")
        """,
        {
            "reports/exports/added_times.py": "def content(of):\n    return f'added: {of.run.id}'.encode()\n",
            "reports/exports/formats.py": (
                "EXPORTS = {",
                '@"added_times": Export("added_times", ".times"), ',
            ),
        },
    ),
    "a preset": (
        'assert "added text" in printed("report", STORED, "--preset", "added-preset", "-o", "text=-")',
        {
            "reports/presets.py": (
                "OF_A_RUN: dict[str, Preset[View]] = {\n    preset.name: preset\n    for preset in (\n",
                'from .sections.summary.added import added\n@Preset("added-preset", "an added chapter", (added,)),\n',
            ),
            "cli/report.py": ("    Presets:\n", "@      added-preset  an added chapter\n"),
        },
    ),
}
"""What can be added: code that asserts the result, and what to change: file -> the text of a new one, or what is there
and what takes its place, in which @ stands for it."""

CHECKS = """
import contextlib, io, json, sys, textwrap, traceback
from pathlib import Path
import rooflens
from rooflens.cli.main import main

root, work = Path(sys.argv[1]) / "rooflens", Path(sys.argv[1]) / "work"
assert Path(rooflens.__file__) == root / "__init__.py"

def printed(*arguments):
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        main([str(argument) for argument in arguments])
    return out.getvalue()

wrong = {}
for what, check in json.load(sys.stdin).items():
    try:
        exec(textwrap.dedent(check), {"printed": printed, "root": root, "work": work, "STORED": sys.argv[2]})
    except BaseException:
        wrong[what] = traceback.format_exc()
print(json.dumps(wrong))
"""


def table() -> dict[str, str]:
    """Return what can be added -> what to touch, by the page."""
    text = PAGE.read_text("utf-8").partition("## Where to add what")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ", 1) for line in text.splitlines() if line.startswith("| ")]
    return {what: touch for what, touch in rows if what != "to add"}


def test_every_row_is_tried():
    assert list(table()) == list(ADDITIONS)


@pytest.mark.parametrize("what", ADDITIONS)
def test_a_row_names_the_files_that_it_takes(what):
    named = [re.sub(r"<\w+>", "*", name) for name in re.findall(r"`([^`]*/[^`]*)`", table()[what])]
    _, changes = ADDITIONS[what]
    for path in changes:
        assert any(fnmatch(path, f"{name}*") for name in named), f"{path} is not among {named}"


@pytest.fixture(scope="module")
def wrong(tmp_path_factory) -> dict[str, str]:
    """Add everything to a copy; return the rows whose check fails, with the reason."""
    place = tmp_path_factory.mktemp("copy")
    project = place / "rooflens"
    (place / "work").mkdir()
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, project / folder, ignore=shutil.ignore_patterns("__pycache__", "tests"))
    shutil.copy(ROOT / "__init__.py", project)
    for name, change in [pair for _, changes in ADDITIONS.values() for pair in changes.items()]:
        (project / name).parent.mkdir(exist_ok=True)
        text = change if isinstance(change, str) else (project / name).read_text("utf-8")
        for there, added in [change] if isinstance(change, tuple) else change if isinstance(change, list) else []:
            assert text.count(there) == 1, f"{name} has no place for an addition"
            text = text.replace(there, added.replace("@", there))
        (project / name).write_text(text, "utf-8")
    checks = {what: check for what, (check, _) in ADDITIONS.items()}
    stored = ROOT / "docs" / "results" / "cpu-llm4bit-quick"
    where = {"cwd": place / "work", "env": os.environ | {"PYTHONPATH": str(place)}}
    done = printed_by(sys.executable, "-c", CHECKS, place, stored, **where, input=json.dumps(checks))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("what", ADDITIONS)
def test_what_a_row_says_is_enough(wrong, what):
    assert what not in wrong, wrong[what]

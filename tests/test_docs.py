"""Every `$ rooflens ...` line of the README and of docs/ is run, block after block, in a folder of its own.

A block that cannot run here carries `<!-- no-test: reason -->` on the line above its fence.
"""

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import command_reference
import package_map
import pytest
from rooflens.analysis.roofline.bounds import Bound
from rooflens.analysis.roofline.gaps import PARTS
from rooflens.cli.main import commands, main
from rooflens.reports.terms import GAP_PARTS
from rooflens.shapes.values import seconds

from .environments import printed_by
from .pace import patient

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "plugins").glob("*/README.md"))]


def name_of(page: Path) -> str:
    """Name a page from the root of the repository."""
    return page.relative_to(ROOT).as_posix()


LANGUAGES = ("console", "sh", "shell", "bash")
NO_TEST = re.compile(r"<!--\s*no-test:\s*(?P<reason>\S.*?)\s*-->")


@dataclass(frozen=True)
class Command:
    line: int
    text: str
    skipped_because: str = ""


def commands_of(markdown: str) -> list[Command]:
    """Find the `$ ` lines of fenced shell blocks; a backslash at the end continues a command on the next line."""
    found: list[Command] = []
    language, reason, previous, open_command = None, "", "", ""
    for number, line in enumerate(markdown.splitlines(), 1):
        if line.startswith("```"):
            if language is None:
                language = line[3:].strip()
                match = NO_TEST.search(previous)
                reason = match["reason"] if match else ""
            else:
                language = None
        elif language in LANGUAGES and (open_command or line.startswith("$ ")):
            text = open_command + (line.strip() if open_command else line[2:].strip())
            open_command = text[:-1] if text.endswith("\\") else ""
            if not open_command:
                found.append(Command(number, text, reason))
        if line.strip():
            previous = line
    return found


def documented(page: Path) -> list[Command]:
    return [command for command in commands_of(page.read_text("utf-8")) if command.text.startswith("rooflens")]


def test_readme_shows_commands_that_run():
    assert README.exists(), "a project without a README"
    assert [command for command in documented(README) if not command.skipped_because]


def test_the_kernel_in_the_readme_is_the_example_that_is_run():
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text("utf-8"), flags=re.DOTALL)
    assert code == (ROOT / "examples" / "my_kernels.py").read_text("utf-8")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_documented_commands_that_measure_nothing_run(page, tmp_path, monkeypatch, capfd):
    """Without what `test_documented_commands_run` waits for."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for command in documented(page):
        _, name, *arguments = shlex.split(command.text, comments=True)
        if not command.skipped_because and (name in ("list", "doctor", "audit") or "--dry-run" in arguments):
            assert main([name, *arguments]) == 0, f"{command.text}\n{capfd.readouterr().err}"


def run_by_a_shell(text: str, folder: Path) -> str:
    """As a reader does, with as much more time to measure as processes take to start; return what went wrong."""
    text = re.sub(r"--within (\d+[sm])\b", lambda it: f"--within {patient(seconds(it[1], '--within'))}s", text)
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    where = {"cwd": folder, "env": environment, "stdin": subprocess.DEVNULL}
    done = printed_by("bash", "-euo", "pipefail", "-c", text, **where, timeout=900)
    return f"{done.stdout}\n{done.stderr}" if done.returncode else ""


def run_here(text: str) -> str:
    """Without a start of Python and its imports; return what went wrong."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = main(shlex.split(text, comments=True)[1:])
    return f"exit code {code}\n{said.getvalue()}" if code else ""


MEASURING = ("run", "tune", "bench", "calibrate", "compare")


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [pytest.param(page, id=name_of(page), marks=pytest.mark.xdist_group(name_of(page))) for page in PAGES]
)
def test_documented_commands_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for command in documented(page):
        if command.skipped_because:
            continue
        measures = command.text.split()[1] in MEASURING and "--dry-run" not in command.text
        wrong = run_by_a_shell(command.text, tmp_path) if measures or "*" in command.text else run_here(command.text)
        assert not wrong, f"{page.name} line {command.line}: {command.text}\n{wrong}"


def test_the_map_of_the_packages_is_current():
    page = package_map.PAGE.read_text("utf-8")
    assert page == package_map.renewed(page), "docs/architecture.md is out of date: run make docs"
    assert "`harness/timing/`" in page
    assert package_map.arrows("harness")["worker"] == {"ceilings", "isolation", "machine", "plan"}


@pytest.mark.parametrize("folder", package_map.PICTURED)
def test_the_pictures_of_the_packages_are_current(folder):
    picture = package_map.picture(folder).read_text("utf-8")
    graph = package_map.arrows(folder)
    assert picture == package_map.drawn(graph), f"{package_map.picture(folder)} is out of date: run make docs"
    svg = ElementTree.fromstring(picture)
    space = "{http://www.w3.org/2000/svg}"
    assert sorted(text.text for text in svg.iter(f"{space}text")) == sorted(graph)
    assert len(svg.findall(f"{space}path")) == sum(map(len, graph.values()))


def test_the_reference_of_the_commands_is_current():
    page = command_reference.PAGE.read_text("utf-8")
    assert page == command_reference.page(), "docs/commands.md is out of date: run make docs"
    assert {f"## rooflens {name}" for name in commands()} <= set(page.splitlines())


def test_every_page_is_in_the_contents_of_the_documentation():
    """The sidebar of the site is made from the lists of the first page; the README ends with the same pages."""
    listed = re.findall(r"^- \[.*?\]\((.*?)\)", (ROOT / "docs" / "index.md").read_text("utf-8"), flags=re.MULTILINE)
    pages = {os.path.relpath(page, ROOT / "docs") for page in PAGES[1:]} | {"results/README.md"}
    assert sorted(listed) == sorted(pages - {"index.md"})
    in_readme = {os.path.normpath(f"docs/{page}") for page in listed}
    assert in_readme <= set(re.findall(r"\]\((.*?)\)", README.read_text("utf-8")))


def test_the_readme_is_short():
    assert len(README.read_text("utf-8").splitlines()) <= 120


def test_bound_classes_and_parts_of_a_time_are_explained():
    """The roofline page and the glossary name what cells are classified by, and the steps of a gap in their order."""
    roofline, glossary = ((ROOT / "docs" / name).read_text("utf-8") for name in ("roofline.md", "glossary.md"))
    _, _, gap = roofline.partition("## The gap")
    steps = re.findall(r"^\| (\w+) \| ", gap, re.MULTILINE)
    assert steps[: steps.index("rest") + 1] == ["part", *GAP_PARTS.values()]
    (row,) = re.findall(r"^\| gap \| .* in steps: (.*)\. \|$", glossary, re.MULTILINE)
    assert ["ideal", *row.split(", ")] == list(GAP_PARTS.values())
    for page in (roofline, glossary):
        assert {bound for bound in Bound if f"`{bound}`" not in page} == set()
    assert set(GAP_PARTS) == set(PARTS)


def test_columns_page_is_current():
    from rooflens.cli.listing.columns_page import columns_page
    from rooflens.shapes.run_folder.columns import TABLES

    page = ROOT / "docs" / "columns.md"
    assert page.read_text("utf-8") == columns_page(TABLES), "docs/columns.md is out of date: run make docs"


def prose_of(markdown: str) -> str:
    """Leave out blocks of code, whose lines are neither headings nor links."""
    return re.sub(r"^```.*?^```", "", markdown, flags=re.DOTALL | re.MULTILINE)


def places_of(markdown: str) -> set[str]:
    """Name the headings of a page as links do, on GitHub and on the site: a link in a heading counts by its text."""
    headings = re.findall(r"^#+ (.+)$", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", prose_of(markdown)), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def wrong_links(page: Path, text: str) -> list[str]:
    """Return the links of a page whose file or heading does not exist."""
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose_of(text))):
        name, _, place = target.partition("#")
        file = page.parent / name if name else page
        if "://" not in target and not (
            file.exists() and (not place or place in places_of(text if file == page else file.read_text("utf-8")))
        ):
            wrong.append(target)
    return wrong


def test_wrong_links_are_found():
    text = "# A *b*: `c_d`, [e](index.md)\n[1](#a-b-c_d-e) `[2](no.md)` [3](#b) ![4](no.png) [5](https://a.b/c#d)\n"
    text += "```sh\n# f\n[6](no.md)\n```\n[7](#f) [8](index.md#start) [9](index.md#stop)\n"
    assert wrong_links(ROOT / "docs" / "api.md", text) == ["#b", "no.png", "#f", "index.md#stop"]


def test_links_between_pages_lead_to_files_and_headings_that_exist():
    """Those between pages of the built site are checked by Sphinx: tests/test_site.py."""
    pages = [
        *ROOT.glob("*.md"),
        *(path for folder in ("docs", "examples", "plugins") for path in (ROOT / folder).rglob("*.md")),
    ]
    assert len(pages) > 35
    wrong = {page.relative_to(ROOT).as_posix(): wrong_links(page, page.read_text("utf-8")) for page in pages}
    assert not {page: links for page, links in wrong.items() if links}

"""Without plugins everything else is imported, listed and measured; other packages can add some."""

import re
import sys
from pathlib import Path

import pytest

from .environments import FOLDERS, ROOT, call

PLUGINS = sorted(path.parent.name for path in (ROOT / "plugins").glob("*/plugin.py"))
EVERYTHING = """
import importlib, os, sys
for folder, _, files in os.walk(sys.argv[1]):
    for file in files:
        path = os.path.join(folder, file)
        if file.endswith(".py") and "__main__" not in file and "/tests" not in path:
            importlib.import_module("rooflens." + os.path.relpath(path, sys.argv[1])[:-3].replace(os.sep, "."))
"""
MEASURED = (
    *("run", "llm4bit-quick", "--filter", "N == 512", "-a", "M=1", "--cache", "warm", "-p", "dequant_blas"),
    *("--rounds", "1", "--device", "cpu", "--no-calibrate", "--strict", "-o", "out"),
)


def without(folder: Path, *names: str) -> Path:
    """Make a folder with rooflens, but without some plugins or families of kernels."""
    package = folder / "rooflens"
    for name in ("plugins", "kernels"):
        (package / name).mkdir(parents=True)
        for path in (ROOT / name).iterdir():
            if path.name not in (*names, "__pycache__"):
                (package / name / path.name).symlink_to(path)
    for name in {"__init__.py", "__main__.py", *FOLDERS} - {"plugins", "kernels"}:
        (package / name).symlink_to(ROOT / name)
    return folder


def called(site: Path, *arguments: object, code: int = 0) -> str:
    done = call(sys.executable, *arguments, cwd=site, code=code, PYTHONPATH=str(site))
    return done.stdout + done.stderr


def works(site: Path, *gone: str) -> None:
    assert called(site, "-c", "import rooflens; print(rooflens.__file__)").strip().startswith(str(site))
    called(site, "-c", EVERYTHING, site / "rooflens")
    listed = called(site, "-m", "rooflens", "--help")
    assert not [name for name in gone if f"  {name} " in listed]
    assert [name for name in PLUGINS if f"  {name} " in listed] == [name for name in PLUGINS if name not in gone]
    assert "llm4bit-quick" in called(site, "-m", "rooflens", "list", "suites")
    called(site, "-m", "rooflens", *MEASURED)
    assert (site / "out" / "report.html").exists()


@pytest.mark.slow
def test_rooflens_works_without_plugins_and_other_families(tmp_path):
    """Weights in MXFP4 take their scales from the family mxfp8; `upstream` knows the operands of all families."""
    site = without(tmp_path, *PLUGINS, "a16w8", "fp8train", "mxfp8_moe", "torchao", "upstream")
    works(site, *PLUGINS)
    assert "unknown command 'audit'" in called(site, "-m", "rooflens", "audit", "x.csv", code=2)
    elsewhere = called(site, "-m", "rooflens", "run", "llm4bit-quick", "--address", "auto", code=2)
    assert "--address: no plugin" in elsewhere


@pytest.mark.slow
@pytest.mark.parametrize("name", PLUGINS)
def test_rooflens_works_without_a_plugin(name, tmp_path):
    works(without(tmp_path, name), name)


@pytest.mark.slow
def test_the_core_passes_its_tests_without_plugins(tmp_path):
    site = without(tmp_path, *PLUGINS)
    core = [ROOT / "tests" / name for name in ("shapes", "analysis", "harness/plan", "cli/test_main.py")]
    options = ("-q", "-p", "no:cacheprovider", "--rootdir", ROOT, "-c", ROOT / "pyproject.toml")
    said = called(site, "-m", "pytest", *options, "-m", "not slow and not exclusive", *core)
    assert int(re.search(r"(\d+) passed", said)[1]) > 1000


def offer(folder: Path, code: str) -> None:
    """Make a distribution `theirs` with a plugin."""
    (folder / "theirs.py").write_text(code)
    info = folder / "theirs-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[rooflens.plugins]\ntheirs = theirs:PLUGIN\n")


def test_another_package_offers_a_plugin(tmp_path):
    offer(
        tmp_path,
        "import click\nfrom rooflens.shapes.plugins import Command, Plugin\n"
        "PLUGIN = Plugin({'theirs': Command('theirs:command', 'Print what theirs prints.')})\n"
        "command = click.Command('theirs', callback=lambda: click.echo('theirs'))\n",
    )
    assert called(tmp_path, "-m", "rooflens.cli", "theirs") == "theirs\n"
    assert "Print what theirs prints." in called(tmp_path, "-m", "rooflens.cli", "--help")


@pytest.mark.parametrize(
    "code",
    [
        "import nowhere",
        "raise SystemExit(3)",
        "PLUGIN = {}",
        "from rooflens.shapes.plugins import Plugin\nPLUGIN = Plugin({'theirs': 'theirs:command'})",
    ],
)
def test_a_plugin_that_is_broken_is_left_out(code, tmp_path):
    offer(tmp_path, code)
    said = called(tmp_path, "-m", "rooflens.cli", "list", "suites")
    assert "llm4bit-quick" in said
    assert said.count("the plugin theirs is left out") == 1


def test_a_hook_that_leads_nowhere_names_its_plugin(tmp_path):
    offer(tmp_path, "from rooflens.shapes.plugins import Hook, Plugin\nPLUGIN = Plugin({}, {Hook.CHAPTER: 'no:one'})")
    code = "from rooflens.shapes.plugins import Hook, joining; list(joining(Hook.CHAPTER))"
    assert "the plugin theirs has no chapter of a run: No module named 'no'" in called(tmp_path, "-c", code, code=1)

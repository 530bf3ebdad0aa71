"""The arrows between the folders, kept by parsing every import; and what a folder may not import at all."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

ARROWS = {
    "shapes": set(),
    "kernels": {"shapes"},
    "harness": {"kernels", "shapes"},
    "analysis": {"shapes"},
    "reports": {"analysis", "shapes"},
    "cli": {"analysis", "harness", "kernels", "reports", "shapes"},
}
"""folder -> the other folders it may import. harness and analysis meet only at files."""

TORCH_FREE = ("shapes", "analysis", "reports")


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(("rooflens", *(parts[:-1] if parts[-1] == "__init__" else parts)))


def imports_of(source: str, package: tuple[str, ...]) -> list[tuple[int, str, bool]]:
    """Return (line, dotted name, is relative) of every import in `source`, also those inside functions.

    `package` is the package that the module is in; `from . import x` is reported as package.x.
    """
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name, False) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            prefix = ".".join((*base, *([node.module] if node.module else [])))
            found += [(node.lineno, f"{prefix}.{alias.name}", bool(node.level)) for alias in node.names]
    return found


def violations(source: str, folder: str, package: tuple[str, ...]) -> list[str]:
    """Say which imports of one module of `folder` break the rules."""
    wrong = []
    for line, name, relative in imports_of(source, package):
        head, *rest = name.split(".")
        if not relative:
            if head == "rooflens" or (head in ARROWS and head != "kernels"):
                wrong.append(f"line {line}: import {name}: write it relative")
            elif head == "kernels":
                wrong.append(f"line {line}: import {name}: that is Hugging Face's package; write it relative")
            continue
        target = rest[0] if rest else ""
        if head != "rooflens":
            wrong.append(f"line {line}: {name}: relative import beyond the package")
        elif target in ARROWS:
            if target != folder and target not in ARROWS[folder]:
                wrong.append(f"line {line}: {folder} may not import {target} ({name})")
        elif target != "__version__":
            wrong.append(f"line {line}: {name}: not a folder of the package")
    return wrong


@pytest.mark.parametrize("folder", ARROWS)
def test_imports_follow_the_arrows(folder):
    paths = modules(folder)
    assert paths, f"{folder}/ has no modules"
    wrong = [
        f"{path.relative_to(ROOT)} {message}"
        for path in paths
        for message in violations(path.read_text("utf-8"), folder, package_of(path))
    ]
    assert not wrong, "\n".join(wrong)


def package_of(path: Path) -> tuple[str, ...]:
    return ("rooflens", *path.relative_to(ROOT).parts[:-1])


@pytest.mark.parametrize(
    "folder, source, words",
    [
        ("shapes", "from ..kernels import provider", "shapes may not import kernels"),
        ("analysis", "from ..harness.store import open_run", "analysis may not import harness"),
        ("analysis", "def f():\n    from ..reports import model", "analysis may not import reports"),
        ("kernels", "from .. import harness", "kernels may not import harness"),
        ("reports", "if TYPE_CHECKING:\n    from ..kernels.provider import Role", "reports may not import kernels"),
        ("cli", "from rooflens.shapes import errors", "write it relative"),
        ("cli", "import shapes.errors", "write it relative"),
        ("harness", "import kernels.provider", "Hugging Face"),
        ("harness", "from ...shapes import errors", "beyond the package"),
        ("cli", "from ..tests import helpers", "not a folder of the package"),
    ],
)
def test_checker_sees_a_wrong_import(folder, source, words):
    (message,) = violations(source, folder, ("rooflens", folder))
    assert words in message


def test_checker_accepts_what_the_arrows_allow():
    source = (
        "import torch\nfrom .. import __version__\nfrom ..shapes.errors import UsageError\nfrom . import registry\n"
    )
    assert violations(source, "kernels", ("rooflens", "kernels")) == []
    assert violations("from ...shapes import device\nfrom ..provider import Launch", "kernels", FOURBIT) == []


FOURBIT = ("rooflens", "kernels", "fourbit")


@pytest.mark.parametrize("folder", TORCH_FREE)
def test_folder_imports_without_torch_and_triton(folder):
    names = [module_name(path) for path in modules(folder)]
    code = (
        "import importlib, sys\n"
        "for name in ('torch', 'triton', 'bitsandbytes'): sys.modules[name] = None\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "print(len(sys.argv) - 1)"
    )
    done = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(names)


def test_root_package_holds_a_docstring_and_the_version():
    tree = ast.parse((ROOT / "__init__.py").read_text("utf-8"))
    docstring, version = tree.body
    assert isinstance(docstring, ast.Expr)
    assert isinstance(version, ast.Assign)
    assert ast.unparse(version.targets[0]) == "__version__"


def test_kernels_stays_a_namespace_folder():
    """With an __init__.py, Hugging Face's package `kernels` would be shadowed in the repository root."""
    assert not (ROOT / "kernels" / "__init__.py").exists()


@pytest.mark.parametrize("folder", ARROWS)
def test_type_checkers_see_every_folder(folder):
    link = ROOT / "tests" / "typing" / "rooflens" / folder
    assert link.is_symlink()
    assert link.resolve() == ROOT / folder

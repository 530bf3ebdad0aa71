"""The arrows between the folders, kept by parsing every import; and what a folder may not import at all."""

import ast
import graphlib
import re
import subprocess
import sys

import pytest
from package_map import ROOT, imported_modules, imports_of, module_name, modules, package_of

ARROWS = {
    "shapes": set(),
    "kernels": {"shapes"},
    "harness": {"kernels", "shapes"},
    "analysis": {"shapes"},
    "reports": {"analysis", "shapes"},
    "api": {"analysis", "harness", "kernels", "reports", "shapes"},
    "cli": {"analysis", "api", "harness", "kernels", "reports", "shapes"},
    "plugins": {"analysis", "api", "cli", "harness", "kernels", "reports", "shapes"},
}
"""folder -> the other folders it may import. harness and analysis meet only at files; nobody imports a plugin."""

TORCH_FREE = ("shapes", "analysis", "reports")


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
            if folder == "plugins" and target == "plugins" and rest[1] != package[2]:
                wrong.append(f"line {line}: a plugin may not import another one ({name})")
            elif folder == "plugins" and any(part.startswith("_") for part in rest):
                wrong.append(f"line {line}: a plugin may import public names only ({name})")
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
        ("cli", "from ..plugins.audit import command", "cli may not import plugins"),
        ("plugins/a", "from ..b import command", "may not import another one"),
        ("plugins/a", "from ...cli.main import _run", "public names only"),
    ],
)
def test_checker_sees_a_wrong_import(folder, source, words):
    parts = folder.split("/")
    (message,) = violations(source, parts[0], ("rooflens", *parts))
    assert words in message


def circle(graph: dict[str, set[str]]) -> list[str]:
    """Return one circle of a graph; [] when it has none."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def test_commands_take_nothing_from_the_chapters_of_reports():
    """What both need is in `reports/cells.py`, `terms.py` and `formatting.py`."""
    taken = {
        (module, other)
        for module, found in imported_modules().items()
        for other in found
        if module.startswith("rooflens.cli.") and other.startswith("rooflens.reports.sections")
    }
    assert not taken


def test_no_module_imports_itself_by_way_of_others():
    graph = imported_modules(*ARROWS)
    assert "rooflens.harness.timing.timer" in graph["rooflens.harness.timing.measure"]
    assert circle(graph) == []


def test_no_package_imports_itself_by_way_of_others():
    """A package and those inside of it count as one."""
    packages: dict[str, set[str]] = {}
    for name, others in imported_modules(*ARROWS).items():
        package = name.rpartition(".")[0]
        targets = {one.rpartition(".")[0] for one in others}
        packages.setdefault(package, set()).update(
            one
            for one in targets
            if not f"{one}.".startswith(f"{package}.") and not f"{package}.".startswith(f"{one}.")
        )
    assert "rooflens.harness.timing" in packages["rooflens.harness.worker"]
    assert circle(packages) == []


def test_a_circle_is_seen():
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) != []
    assert circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


def test_no_two_classes_share_a_name():
    """Who searches for a class finds one. Names with an underscore are a module's own."""
    places: dict[str, list[str]] = {}
    for path in (path for folder in ARROWS for path in modules(folder)):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(path.relative_to(ROOT).as_posix())
    assert places["Cell"] == ["harness/plan/plan.py"]
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


PACKAGES = sorted(
    path for path in {path.parent for folder in ARROWS for path in modules(folder)} if path.parent != ROOT
)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_package_lists_its_modules(package):
    """Folders of a family of kernels all have the same parts; every other package lists its modules."""
    names = sorted(path.stem for path in package.glob("*.py") if path.stem != "__init__")
    assert len(names) <= 22
    if "kernels" in package.parts or package.name in ("schemes", "sections"):
        return
    listed = ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8"))) or ""
    missing = [name for name in names if not re.search(rf"\b{name}\b", listed.replace("emit_*", " ".join(names)))]
    assert not missing, f"{package.name}/__init__.py does not say what {', '.join(missing)} is"


def test_every_module_that_is_named_exists():
    """Also where nothing imports it here: in scripts that tests run, in docstrings and in documentation."""
    texts = [
        path for folder in (*ARROWS, "tests", "benchmarks", "examples", "docs") for path in (ROOT / folder).rglob("*")
    ]
    named = re.compile(rf"\brooflens((?:\.(?:{'|'.join(ARROWS)}))(?:\.[a-z]\w*)+)")
    gone = [
        f"{path.relative_to(ROOT)}: {name[0]}"
        for path in texts
        if path.suffix in (".py", ".md")
        for name in named.finditer(path.read_text("utf-8"))
        if "planted" not in name[0] and ".added" not in name[0] and not _is_there(name[1].split(".")[1:])
    ]
    assert not gone


@pytest.mark.parametrize("path", [*modules("benchmarks"), *modules("examples")], ids=lambda path: path.name)
def test_what_stands_beside_the_package_imports_names_from_where_they_are_defined(path):
    """Most of it is never run by tests, nor read by mypy."""
    gone = []
    for _, name, _ in imports_of(path.read_text("utf-8"), ()):
        module, _, attribute = name.removeprefix("rooflens.").rpartition(".")
        source = ROOT / f"{module.replace('.', '/')}.py"
        if name.startswith("rooflens.") and source.is_file():
            nodes = list(ast.walk(ast.parse(source.read_text("utf-8"))))
            defined = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
            defined |= {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
            gone += [name] * (attribute not in defined)
    assert not gone


def _is_there(names: list[str]) -> bool:
    """Tell whether names lead to a module of the package, or into one."""
    place = ROOT
    for name in names:
        if (place / f"{name}.py").is_file():
            return True
        if not (place / name).is_dir():
            return False
        place /= name
    return True


@pytest.mark.parametrize("folder", TORCH_FREE)
def test_folder_imports_without_torch_and_triton(folder):
    """And so does the registry of kernels."""
    names = ["rooflens.kernels.registry", *(module_name(path) for path in modules(folder))]
    code = (
        "import importlib, sys\n"
        "for name in ('torch', 'triton', 'bitsandbytes'): sys.modules[name] = None\n"
        "for name in sys.argv[1:]: importlib.import_module(name)\n"
        "print(len(sys.argv) - 1)"
    )
    done = subprocess.run([sys.executable, "-c", code, *names], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == len(names)


def test_importing_the_package_imports_nothing_heavy():
    """Names of the API are imported when they are asked for; the version comes without."""
    code = (
        "import sys, rooflens; assert rooflens.__version__; print(sorted(rooflens.__all__))\n"
        "assert set(rooflens.__all__) <= set(dir(rooflens))\n"
        "print([name for name in ('torch', 'pandas', 'numpy', 'scipy') if name in sys.modules])\n"
        "rooflens.load; print('pandas' in sys.modules, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "['bench', 'compare', 'do_bench', 'function', 'load', 'measure', 'report', 'tune']",
        "[]",
        "True False",
    ]


def test_kernels_stays_a_namespace_folder():
    """With an __init__.py, Hugging Face's package `kernels` would be shadowed in the repository root."""
    assert not (ROOT / "kernels" / "__init__.py").exists()


@pytest.mark.parametrize("folder", ARROWS)
def test_type_checkers_see_every_folder(folder):
    link = ROOT / "tests" / "typing" / "rooflens" / folder
    assert link.is_symlink()
    assert link.resolve() == ROOT / folder

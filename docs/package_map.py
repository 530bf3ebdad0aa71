"""Write the map in docs/architecture.md from the real imports and from the docstrings of the folders: `make docs`.

A picture shows the folders inside of one, and an arrow to each that it imports, without those that follow from others.
"""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- made by docs/package_map.py -->\n", "<!-- end -->\n"
FOLDERS = ("cli", "reports", "analysis", "harness", "shapes")
PICTURED = ("analysis", "harness")


def name_of(folder: Path) -> str:
    """Name a folder from the root of the repository."""
    return folder.relative_to(ROOT).as_posix()


def modules(folder: str) -> list[Path]:
    """Return the modules in a folder, at any depth."""
    return sorted((ROOT / folder).rglob("*.py"))


def module_name(path: Path) -> str:
    """Return the dotted name by which a module is imported."""
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


def package_of(path: Path) -> tuple[str, ...]:
    """Return the names of the package that a module is in."""
    return ("rooflens", *path.relative_to(ROOT).parts[:-1])


def imported_modules(*folders: str) -> dict[str, set[str]]:
    """Return module -> the modules of these folders that it imports."""
    paths = {module_name(path): path for folder in folders for path in modules(folder)}
    graph: dict[str, set[str]] = {}
    for name, path in paths.items():
        found = {one for _, one, _ in imports_of(path.read_text("utf-8"), package_of(path))}
        graph[name] = {one if one in paths else one.rpartition(".")[0] for one in found} & paths.keys() - {name}
    return graph


def arrows(folder: str) -> dict[str, set[str]]:
    """Return package -> packages that it imports, of those inside `folder`, without arrows that follow from others."""
    packages = sorted({path.parent.name for path in (ROOT / folder).glob("*/*.py")})
    direct: dict[str, set[str]] = {package: set() for package in packages}
    for name, others in imported_modules(folder).items():
        if (package := _inside(name)) in direct:
            direct[package] |= set(map(_inside, others)) & direct.keys() - {package}

    def reached(package: str) -> set[str]:
        return direct[package].union(*map(reached, direct[package]))

    return {package: others - set().union(*map(reached, others)) for package, others in direct.items()}


def _inside(module: str) -> str:
    """Name the package right inside of a folder that a module is in; "" for the folder's own modules."""
    return module.split(".")[2] if module.count(".") > 1 else ""


def picture(folder: str) -> list[str]:
    """Draw the packages of a folder in Mermaid, which GitHub renders."""
    lines = ["```mermaid", "flowchart TD"]
    for package, others in arrows(folder).items():
        lines.append(f"    {package}" + (f" --> {' & '.join(sorted(others))}" if others else ""))
    return [*lines, "```", ""]


def summary(folder: Path) -> str:
    """Return the first paragraph of the docstring of a package."""
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or ""
    return " ".join(docstring.partition("\n\n")[0].split())


def generated() -> str:
    """Return the generated part of the page."""
    lines = []
    for folder in FOLDERS:
        lines += ["", f"### {folder}/", "", summary(ROOT / folder), ""]
        lines += picture(folder) if folder in PICTURED else []
        packages = sorted(path.parent for path in (ROOT / folder).rglob("*/__init__.py"))
        lines += ["| package | purpose |", "|---|---|"]
        lines += [f"| `{name_of(path)}/` | {summary(path)} |" for path in packages if path != ROOT / folder]
    return "\n".join(lines) + "\n\n"


def renewed(text: str) -> str:
    """Return the page with its generated part made anew."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}{generated()}{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text("utf-8")), "utf-8")

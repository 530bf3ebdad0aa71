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


def imported(module: Path) -> set[str]:
    """Return the folders that a module imports from."""
    found = set()
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = module.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            targets = [base / alias.name for alias in node.names] if base.is_dir() else [base]
            found |= {name_of(one if one.is_dir() else one.parent) for one in targets}
    return found


def arrows(folder: str) -> dict[str, set[str]]:
    """Return package -> packages that it imports, of those inside `folder`, without arrows that follow from others."""
    packages = sorted({name_of(path.parent) for path in (ROOT / folder).glob("*/*.py")})
    direct = {}
    for package in packages:
        found = set().union(*map(imported, (ROOT / package).rglob("*.py")))
        direct[package] = {
            one for one in packages if one != package and any(f"{name}/".startswith(f"{one}/") for name in found)
        }

    def reached(package: str) -> set[str]:
        return direct[package].union(*map(reached, direct[package]))

    return {package: others - set().union(*map(reached, others)) for package, others in direct.items()}


def picture(folder: str) -> list[str]:
    """Draw the packages of a folder in Mermaid, which GitHub renders."""
    lines = ["```mermaid", "flowchart TD"]
    for package, others in arrows(folder).items():
        targets = " & ".join(Path(one).name for one in sorted(others))
        lines.append(f"    {Path(package).name}" + (f" --> {targets}" if targets else ""))
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

"""Write the map in docs/architecture.md from the real imports and from the docstrings of the folders: `make docs`.

A picture shows the folders inside of one, and an arrow to each that it imports, without those that follow from others.
"""

import ast
import itertools
import statistics
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- made by docs/package_map.py -->\n", "<!-- end -->\n"
FOLDERS = ("cli", "reports", "analysis", "harness", "shapes", "plugins")
PICTURED = ("analysis", "harness")

SWEEPS = 24
ROW, BOX, CHARACTER, MARGIN, JOINT = 64, 28, 8, 12, 40
"""Heights of a row and of a package in it, and widths of a character, of a margin and of a joint: pixels."""
SVG = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" \
font-family="system-ui, sans-serif" font-size="14">
<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">\
<path d="M0 0 8 4 0 8z" fill="#8a8f98"/></marker></defs>
{shapes}
</svg>
"""


def name_of(folder: Path) -> str:
    """Name a folder from the root of the repository."""
    return folder.relative_to(ROOT).as_posix()


def modules(folder: str) -> list[Path]:
    """Return the modules in a folder, at any depth; of plugins, without their tests."""
    found = sorted((ROOT / folder).rglob("*.py"))
    return [path for path in found if folder != "plugins" or "tests" not in path.parts]


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


def picture(folder: str) -> Path:
    """Return where the picture of a folder is."""
    return PAGE.parent / "images" / f"packages-{folder}.svg"


def drawn(graph: dict[str, set[str]]) -> str:
    """Draw a graph without cycles as SVG: each package in a row above all that it imports.

    An arrow over several rows has a joint in each row between, which is placed like a package, so that it runs beside
    them.
    """
    heights: dict[str, int] = {}

    def height(name: str) -> int:
        return heights.setdefault(name, 1 + max(map(height, graph[name]), default=-1))

    rows: list[list[str]] = [[] for _ in range(1 + max(map(height, graph)))]
    for name in graph:
        rows[heights[name]].append(name)
    paths = []
    for name, others in graph.items():
        for other in sorted(others):
            between = range(heights[name] - 1, heights[other], -1)
            joints = [f"{name}>{other}>{level}" for level in between]
            for level, joint in zip(between, joints, strict=True):
                rows[level].append(joint)
            paths.append([name, *joints, other])

    x = _placed(rows, [step for path in paths for step in itertools.pairwise(path)])
    y = {one: ROW * (len(rows) - level - 0.5) for level, row in enumerate(rows) for one in row}
    shapes = []
    for path in paths:
        line = f"M{x[path[0]]:.0f} {y[path[0]]:.0f}"
        for upper, lower in itertools.pairwise(path):
            end = y[lower] - (BOX / 2 if lower in graph else 0)
            middle = (y[upper] + end) / 2
            line += f" C{x[upper]:.0f} {middle:.0f} {x[lower]:.0f} {middle:.0f} {x[lower]:.0f} {end:.0f}"
        shapes.append(f'<path d="{line}" fill="none" stroke="#8a8f98" marker-end="url(#tip)"/>')
    for name in graph:
        left, top, width = x[name] - _width(name) / 2 + MARGIN, y[name] - BOX / 2, _width(name) - 2 * MARGIN
        box = f'x="{left:.0f}" y="{top:.0f}" width="{width}" height="{BOX}" rx="5"'
        shapes.append(f'<rect {box} fill="#e8eef7" stroke="#5b7db1"/>')
        shapes.append(f'<text x="{x[name]:.0f}" y="{y[name] + 5:.0f}" text-anchor="middle">{name}</text>')
    width = max(x[one] + _width(one) / 2 for one in x)
    return SVG.format(width=round(width), height=ROW * len(rows), shapes="\n".join(shapes))


def _width(one: str) -> int:
    """Return the width that a package with its margins, or a joint, takes in its row."""
    return JOINT if ">" in one else CHARACTER * len(one) + 4 * MARGIN


def _placed(rows: list[list[str]], steps: list[tuple[str, str]]) -> dict[str, float]:
    """Sort each row by the mean place of what its members are joined to, back and forth; return their middles."""
    joined: dict[str, list[str]] = {one: [] for row in rows for one in row}
    for upper, lower in steps:
        joined[upper].append(lower)
        joined[lower].append(upper)
    x: dict[str, float] = {}
    for sweep in range(SWEEPS):
        for row in rows if sweep % 2 else reversed(rows):
            if sweep:
                row.sort(key=lambda one: statistics.mean(x[other] for other in joined[one] or [one]))
            left = -sum(map(_width, row)) / 2
            for one in row:
                x[one] = left + _width(one) / 2
                left += _width(one)
    leftmost = min(x[one] - _width(one) / 2 for one in x)
    return {one: place - leftmost for one, place in x.items()}


def summary(folder: Path) -> str:
    """Return the first paragraph of the docstring of a package."""
    docstring = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or ""
    return " ".join(docstring.partition("\n\n")[0].split())


def generated() -> str:
    """Return the generated part of the page."""
    lines = []
    for folder in FOLDERS:
        lines += ["", f"### {folder}/", "", summary(ROOT / folder), ""]
        if folder in PICTURED:
            lines += [f"![Packages of {folder}/ and what they import](images/{picture(folder).name})", ""]
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
    for folder in PICTURED:
        picture(folder).write_text(drawn(arrows(folder)), "utf-8")

"""Hash of the code behind a provider, so that a result measured with other code is never taken for its own.

1. Start at the module of the provider's class, and at the file that offers it (the registry's, or the user's).
2. Follow its imports, wherever they are in the file, as long as they resolve inside the same trees: the package folder
   of an installed provider, the folders that a user's file imports from.
3. Add the `sources` that any of these modules names (.cpp, .cu, ...), and compiled modules that they import.

Files are read and parsed, never imported. Paths enter relative to the tree, so that a copy elsewhere has the same hash.
"""

import ast
import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

from ..shapes.errors import RooflensError
from .provider import AnyProvider
from .provider_paths import import_folders
from .registry import BUILTIN

DIGITS = 16
_AHEAD_OF_TIME = Path(__file__).resolve().parent / "aot.py"
"""Compiles for GPUs that are not there; no launch runs it."""

_USER_MODULE = "rooflens_user_"


def source_hash(provider: AnyProvider) -> str:
    """Return 16 hex digits over every file that `provider` is made of.

    Raises RooflensError when one of its `sources` does not exist.
    """
    starts = list(roots(provider))
    pending = [(file, root) for root in starts for file in root.files]
    labels: dict[Path, str] = {}
    parsed: set[Path] = set()
    while pending:
        file, root = pending.pop()
        if file in parsed or file == _AHEAD_OF_TIME:
            continue
        parsed.add(file)
        labels[file] = root.label(file)
        if file.suffix == ".py":
            content = file.read_bytes()
            imports = (one for many in contents(content)[1].values() for one in many)
            pending += [(found, root) for one in imports for found in root.resolve(file, *one)]
            labels.update((found, root.label(found)) for found in _existing(provider, file, _sources(content)))
    labels.update(
        (found, starts[0].label(found)) for found in _existing(provider, starts[0].files[0], provider.sources)
    )
    digest = hashlib.sha256()
    for label, file in sorted((label, file) for file, label in labels.items()):
        digest.update(f"{label}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:DIGITS]


@dataclass(frozen=True, slots=True)
class Root:
    """Files to start at, the folders in which imports resolve, and the package that stands for them (empty: none)."""

    files: tuple[Path, ...]
    trees: tuple[Path, ...]
    package: str
    prefix: str = ""

    def label(self, file: Path) -> str:
        """Name of a file that is the same wherever the trees are."""
        return self.prefix + Path(os.path.relpath(file, self.trees[0])).as_posix()

    def resolve(self, file: Path, level: int, module: str, name: str) -> Iterator[Path]:
        """Files of the trees that one import runs: packages on the way, the module, `name` where that is a module."""
        for tree in self.trees:
            yield from _resolve(file, tree, self.package, level, module, name)


def roots(provider: AnyProvider) -> Iterator[Root]:
    """Where the code of a provider begins: the module of its class, and each file that offers it.

    `__module__` of a class that was made by a call of its metaclass names the caller's or that of `abc`: a module of
    Python itself, or none that is loaded, is not the provider's code.
    """
    files = [file for name in offered_in(provider) if (file := _file_of(name))]
    module = type(provider).__module__
    start = _file_of(module)
    if start is not None and not _is_of_python(start):
        trees, package = _trees(module, start)
        inside = [file for file in files if file.is_relative_to(trees[0])]
        yield Root((start, *inside), trees, package)
        files = [file for file in files if file not in inside]
    elif not files:
        raise RooflensError(f"provider of module {module!r}: it has no file, so its results cannot be identified")
    for file in files:
        yield Root((file,), tuple(import_folders(file)), "", "offered/")


def _file_of(module: str) -> Path | None:
    file = getattr(sys.modules.get(module), "__file__", None)
    return Path(file).resolve() if file else None


def _is_of_python(file: Path) -> bool:
    standard = Path(sysconfig.get_path("stdlib")).resolve()
    return file.is_relative_to(standard) and not {"site-packages", "dist-packages"} & set(file.parts)


def _trees(module: str, file: Path) -> tuple[tuple[Path, ...], str]:
    """Folders that the provider's imports may resolve in, and the package name that stands for them (empty: none)."""
    top, *inner = module.split(".")
    if not inner:
        return tuple(import_folders(file)), ""
    depth = len(inner) if file.name == "__init__.py" else len(inner) - 1
    return (file.parents[depth],), top


def offered_in(provider: AnyProvider) -> list[str]:
    """Modules that instantiate the provider: its arguments are code too."""
    names = [name for name in sys.modules if name.startswith(_USER_MODULE)]
    modules = [name for name in names if any(one is provider for one in getattr(sys.modules[name], "PROVIDERS", ()))]
    return [*modules, BUILTIN[provider.name].target.partition(":")[0]] if provider.name in BUILTIN else modules


@lru_cache(maxsize=512)
def contents(content: bytes) -> tuple[dict[str, list[ast.stmt]], dict[str, list[tuple[int, str, str]]]]:
    """What a module defines at its top, and what its imports bind, wherever they are, as (level, module, name).

    In whatever encoding the module declares. What is no Python, and cannot run, has neither.
    """
    defined: dict[str, list[ast.stmt]] = {}
    bound: dict[str, list[tuple[int, str, str]]] = {}
    try:
        module = ast.parse(content)
    except (SyntaxError, ValueError):
        return defined, bound
    for node in _walk(module):
        for alias in node.names if isinstance(node, ast.Import | ast.ImportFrom) else ():
            name = alias.asname or alias.name
            if isinstance(node, ast.ImportFrom):
                bound.setdefault(name, []).append((node.level, node.module or "", alias.name))
            else:
                bound.setdefault(alias.asname or name.partition(".")[0], []).append((0, alias.name, ""))
    pending: list[ast.AST] = [*module.body]
    for node in pending:  # grows while it is walked through
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
            for name in _targets(node):
                defined.setdefault(name, []).append(node)
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.ExceptHandler):
            pending += ast.iter_child_nodes(node)
    return defined, bound


def _targets(node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> Iterator[str]:
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        yield from (inner.id for inner in ast.walk(target) if isinstance(inner, ast.Name))


def _sources(content: bytes) -> Iterator[str]:
    """Yield the strings that the module or a class assigns to `sources`."""
    statements = [node for nodes in contents(content)[0].values() for node in nodes]
    for node in (*statements, *(member for one in statements if isinstance(one, ast.ClassDef) for member in one.body)):
        if isinstance(node, ast.Assign | ast.AnnAssign) and any(name.lower() == "sources" for name in _targets(node)):
            strings = (one.value for one in ast.walk(node) if isinstance(one, ast.Constant))
            yield from (value for value in strings if isinstance(value, str))


def _walk(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those under `if TYPE_CHECKING`, which never runs."""
    pending = [tree]  # no recursion: a generated sum is nested as deeply as it has terms
    while pending:
        for node in ast.iter_child_nodes(pending.pop()):
            if not (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
                yield node
                pending.append(node)


def _resolve(file: Path, tree: Path, package: str, level: int, module: str, name: str) -> Iterator[Path]:
    parts = module.split(".") if module else []
    if level:
        folder = file.parents[level - 1]
    elif package and parts[0] == package:
        folder, parts = tree, parts[1:]
    elif not package:
        folder = tree
    else:
        return
    if not folder.is_relative_to(tree):
        return
    module_path = folder.joinpath(*parts)
    packages = [folder.joinpath(*parts[:depth]) for depth in range(1, len(parts))]
    for path in (*packages, module_path, *([module_path / name] if name else [])):
        beside = [path.with_name(path.name + suffix) for suffix in (".py", *EXTENSION_SUFFIXES)]
        # A link is followed, wherever it leads, and what it leads to imports from where the link is.
        yield from (found for found in (*beside, path / "__init__.py") if found.is_file())


def _existing(provider: AnyProvider, module_file: Path, sources: Iterable[str]) -> Iterator[Path]:
    for source in sources:
        path = (module_file.parent / source).resolve()
        if not path.is_file():
            raise RooflensError(f"provider {provider.name!r}: its source {source!r} is not beside {module_file.name}")
        yield path

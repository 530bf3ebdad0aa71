"""Hash of the code behind a provider, so that a result measured with other code is never taken for its own.

1. Start at the module of the provider's class, and at the file that lists the instance (the registry's, or the user's).
2. Follow its imports, wherever they stand in the file, as long as they resolve inside the same tree: the package folder
   of an installed provider, the folder of a user's file.
3. Add the `sources` that any of these modules names (.cpp, .cu, ...).

Files are read and parsed, never imported. Paths enter relative to the tree, so that a copy elsewhere has the same hash.
"""

import ast
import hashlib
import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from ..shapes.errors import RooflensError
from .provider import AnyProvider
from .registry import BUILTIN

_DIGITS = 16
_AHEAD_OF_TIME = Path(__file__).resolve().parent / "aot.py"
"""Compiles for GPUs that are not there; no launch runs it."""

_USER_MODULE = "rooflens_user_"


def source_hash(provider: AnyProvider) -> str:
    """Return 16 hex digits over every file that `provider` is made of.

    Raises RooflensError when one of its `sources` does not exist.
    """
    start = _file_of(type(provider).__module__)
    tree, package = _tree(type(provider).__module__, start)
    pending = [start, *_listed_in(provider)]
    modules: set[Path] = set()
    others = set(_existing(provider, start, provider.sources))
    while pending:
        file = pending.pop()
        if file in modules or file == _AHEAD_OF_TIME:
            continue
        modules.add(file)
        imports, sources = _parse(file.read_text(encoding="utf-8"))
        for level, module, name in imports:
            pending += _resolve(file, tree, package, level, module, name)
        others.update(_existing(provider, file, sources))
    digest = hashlib.sha256()
    for label, file in sorted((Path(os.path.relpath(file, tree)).as_posix(), file) for file in modules | others):
        digest.update(f"{label}\0{hashlib.sha256(file.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()[:_DIGITS]


def _file_of(module: str) -> Path:
    file = getattr(sys.modules.get(module), "__file__", None)
    if not file:
        raise RooflensError(f"provider of module {module!r}: it has no file, so its results cannot be identified")
    return Path(file).resolve()


def _tree(module: str, file: Path) -> tuple[Path, str]:
    """Folder that the provider's imports may resolve in, and the package name that stands for it (empty: none)."""
    top, *inner = module.split(".")
    if not inner:
        return file.parent, ""
    depth = len(inner) if file.name == "__init__.py" else len(inner) - 1
    return file.parents[depth], top


def _listed_in(provider: AnyProvider) -> Iterator[Path]:
    """Files that instantiate the provider: its arguments are code too."""
    if provider.name in BUILTIN:
        module = BUILTIN[provider.name].target.partition(":")[0]
        if module in sys.modules:
            yield _file_of(module)
    for name, loaded in list(sys.modules.items()):
        listed = getattr(loaded, "PROVIDERS", ()) if name.startswith(_USER_MODULE) else ()
        if any(one is provider for one in listed):
            yield _file_of(name)


@lru_cache(maxsize=256)
def _parse(text: str) -> tuple[tuple[tuple[int, str, str], ...], tuple[str, ...]]:
    """Imports of a module as (level, module, name), and the strings that the module or a class assigns to `sources`."""
    imports: list[tuple[int, str, str]] = []
    sources: list[str] = []
    module = ast.parse(text)
    for node in _walk(module):
        if isinstance(node, ast.Import):
            imports += [(0, alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            imports += [(node.level, node.module or "", alias.name) for alias in node.names]
    classes = (node for node in module.body if isinstance(node, ast.ClassDef))
    for node in (*module.body, *(member for one in classes for member in one.body)):
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id.lower() == "sources" for target in targets):
                sources += [
                    inner.value
                    for inner in ast.walk(node.value)
                    if isinstance(inner, ast.Constant) and isinstance(inner.value, str)
                ]
    return tuple(imports), tuple(sources)


def _walk(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those under `if TYPE_CHECKING`, which never runs."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            yield node
            yield from _walk(node)


def _resolve(file: Path, tree: Path, package: str, level: int, module: str, name: str) -> Iterator[Path]:
    """Files of the tree that one import runs: packages on the way, the module, `name` where that is a module itself."""
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
        for found in (path.with_name(path.name + ".py"), path / "__init__.py"):
            if found.is_file() and found.resolve().is_relative_to(tree):
                yield found.resolve()


def _existing(provider: AnyProvider, module_file: Path, sources: tuple[str, ...]) -> Iterator[Path]:
    for source in sources:
        path = (module_file.parent / source).resolve()
        if not path.is_file():
            raise RooflensError(f"provider {provider.name!r}: its source {source!r} is not beside {module_file.name}")
        yield path

"""Identity of what a cell timed: a hash that moves with the code that the device runs, and with how it is timed.

1. Start at the provider: its class, its function, and the names that it is bound to.
2. Follow the names that these use through the syntax trees of its files, as `source_hash` resolves their imports.
3. Keep the functions of Triton that the launch ran, with all functions and constants that they use; the text of C++ and
   CUDA C++; and where the launch ran other kernels, the versions of the packages that may have them.
4. Add the configuration, the timer, what makes the cell cold, and the model of the device.

Comments, formatting, paths, names of modules, host code and the serial number of the device are excluded: a result is
recognised after files have moved, on another device of the model, and with another Python or Triton. The exceptions are
plain functions, and providers of users without any such kernel: their own code is all that is known of them.
"""

import ast
import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

from ..shapes.device import Device
from .functions import FunctionProvider
from .provider import AnyProvider, Role
from .source_hash import DIGITS, Root, contents, offered_in, roots

_ON_GPU, _ON_CPU = {".cu", ".cuh", ".hip"}, {".cpp", ".hpp", ".cc", ".c", ".h"}
_SOURCE = re.compile(r"^[\w ./+-]{1,200}\.(cuh?|hip|[ch]pp|cc|c|h)$", re.ASCII)
_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.MULTILINE)
_COMMENT = re.compile(r"""("(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|//[^\n]*|/\*.*?\*/""", re.DOTALL)
_HOST_PACKAGES = {__name__.partition(".")[0], "triton"}
"""Their versions say nothing of a kernel."""
_JIT = {"jit", "autotune", "heuristics"}
_NOT_CODE = {"ctx", "kind", "type_comment"}

Definition = tuple[Path, ast.AST]
"""What a file defines by a name."""


@dataclass(frozen=True, slots=True)
class Code:
    """What a provider may launch.

    kernels   normalised syntax trees behind each function of Triton, by its name
    host      those of the provider's own functions, where these are what is timed
    sources   (suffix, text) of each file of C++ or CUDA C++; packages  what is imported besides
    """

    kernels: Mapping[str, frozenset[str]]
    host: frozenset[str]
    sources: tuple[tuple[str, str], ...]
    packages: frozenset[str]

    def launched(self, kernels: Sequence[str], role: str, is_gpu: bool, versions: Mapping[str, str]) -> dict[str, Any]:
        """Return as JSON what a launch of `kernels` ran; without names, all that it may have run."""
        trees = {name: found for name, found in self.kernels.items() if name in kernels or not kernels}
        texts = [text for suffix, text in self.sources if suffix in (_ON_GPU if is_gpu else _ON_CPU)]
        if not (trees or texts):
            texts = [text for _, text in self.sources]
        known = all(name in trees for name in kernels) and (kernels or role in (Role.CANDIDATE, Role.STOCK_TRITON))
        names = () if texts or (trees and known) else sorted(self.packages)
        return {
            "trees": sorted(self.host.union(*trees.values())),
            "sources": sorted(texts),
            "packages": {name: versions.get(name, "") for name in names},
        }


def identity(launched: Mapping[str, Any], columns: Mapping[str, Any], device: Device) -> str:
    """Return 16 hex digits over what was `launched` and how it was timed, by its `columns` of cells.csv."""
    how = [dict(columns["config"]), columns["timer"], columns["cold_by"], device.kind, device.name, device.arch]
    content = json.dumps([launched, how], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:DIGITS]


def code_of(provider: AnyProvider) -> Code:
    """Read the code of a provider. Files are parsed, never imported."""
    own = type(provider)
    function = vars(own)["kernel"].__func__ if isinstance(provider, FunctionProvider) else None
    modules = [sys.modules[name] for name in (own.__module__, *offered_in(provider)) if name in sys.modules]
    bound = {name for module in modules for name, value in vars(module).items() if value is provider}
    names = {getattr(function or own, "__qualname__", "").partition(".")[0], *bound}
    every = list(roots(provider))
    found = [read(root, names) for root in every]
    if (vars(provider) and not bound) or not any(one.host for one in found):
        found += [read(root, {"PROVIDERS"}) for root in every]
    joined = Code(
        {name: trees for one in found for name, trees in one.kernels.items()},
        frozenset().union(*(one.host for one in found)),
        tuple(dict.fromkeys(text for one in found for text in one.sources)),
        frozenset().union(*(one.packages for one in found)),
    )
    is_ours = own.__module__.partition(".")[0] in _HOST_PACKAGES
    if not function and (is_ours or joined.kernels or joined.sources):
        return Code(joined.kernels, frozenset(), joined.sources, joined.packages)
    return joined


def read(root: Root, names: Iterable[str]) -> Code:
    """Follow `names` from the files where `root` begins."""
    defined = cache(partial(_defined, root))
    reached = _reach(defined, [found for file in root.files for name in names for found in defined(file, name)])
    kernels: dict[str, frozenset[str]] = {}
    texts: list[Path] = []
    files = dict.fromkeys(file for file, _ in reached)
    folders = dict.fromkeys(file.parent for file in files)
    packages = {
        one[1].partition(".")[0]
        for file in files
        for many in contents(file.read_bytes())[1].values()
        for one in many
        if one[0] == 0 and not any(root.resolve(file, *one))
    }
    for file, node in reached:
        for inner in ast.walk(node):
            if isinstance(inner, ast.FunctionDef) and any(_is_jit(one) for one in inner.decorator_list):
                trees = (normalised(one) for _, one in _reach(defined, [(file, inner)]))
                kernels[inner.name] = kernels.get(inner.name, frozenset()).union(trees)
            elif isinstance(inner, ast.Constant) and _SOURCE.search(name := str(inner.value)):
                beside = ((folder / name).resolve() for folder in (file.parent, *folders))
                texts += [one for one in beside if one.is_file()][:1]
    for file in texts:  # grows while it is walked through
        included = [(file.parent / name).resolve() for name in _INCLUDE.findall(file.read_text("utf-8", "replace"))]
        texts += [one for one in included if one.is_file() and one not in texts]
    return Code(
        kernels,
        frozenset(normalised(node) for _, node in reached),
        tuple((file.suffix, without_comments(file.read_text("utf-8", "replace"))) for file in dict.fromkeys(texts)),
        frozenset(packages - _HOST_PACKAGES - set(sys.stdlib_module_names)),
    )


def _reach(defined: Callable[[Path, str], list[Definition]], start: Iterable[Definition]) -> list[Definition]:
    """Return all definitions that `start` uses, itself included."""
    found: dict[tuple[Path, int], Definition] = {}
    pending = list(start)
    while pending:
        file, node = pending.pop()
        if (file, id(node)) not in found:
            found[file, id(node)] = file, node
            for name in _names(node):
                pending += defined(file, name)
    return list(found.values())


def _defined(root: Root, file: Path, name: str) -> list[Definition]:
    """What `name`, or `name` and one of its attributes ("module.function"), means in a file."""
    found: list[Definition] = []
    seen: set[tuple[Path, str]] = set()
    pending = [(file, name)]
    while pending:
        file, name = pending.pop()
        if (file, name) in seen or file.suffix != ".py":
            continue
        seen.add((file, name))
        defined, bound = contents(file.read_bytes())
        first, _, attribute = name.partition(".")
        found += ((file, node) for node in defined.get(first, ()))
        for level, module, member in bound.get(first, ()) or bound.get("*", ()):
            pending += [
                (one, name if member == "*" else attribute or member)
                for one in root.resolve(file, level, module, member)
            ]
    return found


@lru_cache(maxsize=4096)
def _names(node: ast.AST) -> tuple[str, ...]:
    """Names that are used in a tree, with each attribute of them: "tl.float32"."""
    found: dict[str, None] = {}
    for inner in ast.walk(node):
        if isinstance(inner, ast.Name):
            found[inner.id] = None
        elif isinstance(inner, ast.Attribute):
            value = inner.value
            while isinstance(value, ast.Attribute):
                value = value.value
            if isinstance(value, ast.Name):
                found[f"{value.id}.{inner.attr}"] = None
    return tuple(found)


def _is_jit(decorator: ast.AST) -> bool:
    return any(name.rpartition(".")[2] in _JIT for name in _names(decorator))


@lru_cache(maxsize=4096)
def normalised(node: ast.AST) -> str:
    """Write a syntax tree without docstrings, positions, and what only some versions of Python have."""
    words: list[str] = []
    pending: list[Any] = [node]
    while pending:  # no recursion: a generated sum is nested as deeply as it has terms
        one = pending.pop()
        if isinstance(one, ast.AST):
            fields = [(name, value) for name, value in ast.iter_fields(one) if name not in _NOT_CODE]
            known = [(name, value) for name, value in fields if value is not None and value != []]
            words.append(f"{type(one).__name__}{len(known)}")
            for name, value in reversed(known):
                pending += [_without_docstring(one, value) if name == "body" else value, f"{name}="]
        elif isinstance(one, list):
            words.append(f"[{len(one)}")
            pending += reversed(one)
        else:
            words.append(one if isinstance(one, str) and one.endswith("=") else repr(one))
    return " ".join(words)


def _without_docstring(node: ast.AST, body: Any) -> Any:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return body if ast.get_docstring(node, clean=False) is None else body[1:]
    return body


def without_comments(text: str) -> str:
    """C++ or CUDA C++ without comments, empty lines and spaces that mean nothing."""
    lines = _COMMENT.sub(lambda match: match[1] or " ", text).splitlines()
    return "\n".join(line for line in (" ".join(one.split()) for one in lines) if line)

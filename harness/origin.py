"""Where the code of one arm of a comparison may come from: its own checkout and environment, and nowhere else.

Two arms that import the same installed package would measure one version twice and call it a comparison.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ..kernels.provider import AnyProvider
from ..shapes.errors import RooflensError

_OURS = __name__.partition(".")[0]
_KERNELS = f"{_OURS}.kernels"


@dataclass(frozen=True, slots=True)
class Origin:
    """What an arm may import.

    tree          checkout of its commit
    environment   its virtual environment, where `--setup` may have installed what it built
    working_tree  the user's own checkout, which no arm may import from
    ours          the repository is rooflens itself: its kernels must come from `tree`
    """

    tree: Path
    environment: Path
    working_tree: Path
    ours: bool = False

    @classmethod
    def read(cls, file: Path) -> "Origin":
        """Read what `harness.comparing` wrote for an arm."""
        content = json.loads(file.read_text(encoding="utf-8"))
        paths = {name: Path(content[name]) for name in ("tree", "environment", "working_tree")}
        return cls(**paths, ours=bool(content["ours"]))

    def check_providers(self, providers: Mapping[str, AnyProvider]) -> None:
        """Raise RooflensError unless the file of each provider that is not rooflens' own lies in the checkout."""
        for name, provider in providers.items():
            module = type(provider).__module__
            file = file_of(module)
            shipped = module.startswith(f"{_OURS}.") and not self.ours
            if not shipped and not self._is_mine(file):
                raise RooflensError(
                    f"provider {name} comes from {file}, not from the checkout {self.tree}: both versions would run "
                    "the same code; keep its file in the repository and name it by its path there"
                )

    def check_modules(self) -> None:
        """Raise RooflensError when a loaded module has the name of a package of the repository, but is another copy."""
        for name, file in self._strays():
            raise RooflensError(
                f"module {name} comes from {file}, not from the checkout {self.tree}: both versions would run the same "
                'code; give --setup "pip install -e ." (or what builds your package), which runs once per version'
            )

    def _strays(self) -> Iterator[tuple[str, Path]]:
        packages = set(_packages(self.tree))
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if not isinstance(file, str) or not os.path.isabs(file):
                continue
            path = Path(file).resolve()
            if self._is_mine(path):
                continue
            if name.partition(".")[0] == _OURS:
                if self.ours and name.startswith(f"{_KERNELS}."):
                    yield name, path
            elif path.is_relative_to(self.working_tree) or name.partition(".")[0] in packages:
                yield name, path

    def _is_mine(self, file: Path) -> bool:
        return file.is_relative_to(self.tree) or file.is_relative_to(self.environment)


def told(module: str, ours: bool = False) -> str:
    """File of a provider's module, as a run stores it; of a shipped one its place in the package."""
    if module.startswith(f"{_OURS}.") and not ours:
        return f"{module.replace('.', '/')}.py"
    return str(file_of(module))


def file_of(module: str) -> Path:
    """File of a loaded module."""
    return Path(str(sys.modules[module].__file__)).resolve()


def _packages(tree: Path) -> Iterator[str]:
    """Names of the packages at the top of a checkout, or in its src/."""
    for folder in (tree, tree / "src"):
        for init in folder.glob("*/__init__.py"):
            yield init.parent.name

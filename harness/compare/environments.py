"""The environment of one version of a repository: its virtual environment, caches and search path.

Everything else (torch, Triton, rooflens with its harness) comes from the invoking Python: the environment sees those
packages after its own.
"""

import hashlib
import os
import shutil
import signal
import site
import sys
import venv
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...kernels.provider_paths import checkout_folders
from ...shapes.errors import Interrupted, UsageError
from .process import run_logged

_SOURCES = (".py", ".toml", ".csv")


def refuse_other_harness(tree: Path, arm: str) -> None:
    """Raise UsageError when a checkout of rooflens measures, or describes problems, differently from this one."""
    root = Path(__file__).resolve().parents[2]
    for name in ("harness", "shapes"):
        if _folder_hash(tree / name) != _folder_hash(root / name):
            raise UsageError(
                f"{arm}: its {name}/ differs from that of the rooflens that compares, so that a difference might not "
                "be the kernels'; run rooflens compare from a checkout with the same one, or compare two stored runs"
            )


def _folder_hash(folder: Path) -> str:
    """Hash the sources below a folder: names and contents."""
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.suffix in _SOURCES and path.is_file()):
        digest.update(f"{file.relative_to(folder).as_posix()}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


_VISIBLE = "zzz-invoking-python.pth"
"""Read after the .pth files of what --setup installed, so that those win."""

_SHOWN_LINES = 5


@dataclass(frozen=True, slots=True)
class VersionEnvironment:
    """Python and environment variables of one version; its checkout is `tree`."""

    folder: Path
    tree: Path

    @property
    def prefix(self) -> Path:
        """The virtual environment."""
        return self.folder / "env"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.prefix / "bin" / "python"

    def variables(self, has_setup: bool, ours: bool) -> dict[str, str]:
        """Environment of its processes: own caches, own scripts first, and the checkout importable.

        After a --setup what it installed is imported, not the sources. `ours`: see `overlay`.
        """
        first = [self.folder / "overlay"] if ours else [] if has_setup else checkout_folders(self.tree)
        path = [str(entry) for entry in first]
        path += [os.environ["PYTHONPATH"]] if os.environ.get("PYTHONPATH") else []
        found = {name: value for name, value in os.environ.items() if name != "PYTHONHOME"}
        return found | {
            "PATH": f"{self.python.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "VIRTUAL_ENV": str(self.prefix),
            "PYTHONPATH": os.pathsep.join(path),
            "TRITON_CACHE_DIR": str(self.folder / "triton"),
            "TORCH_EXTENSIONS_DIR": str(self.folder / "extensions"),
            "TORCHINDUCTOR_CACHE_DIR": str(self.folder / "inductor"),
            # what triton.autotune has found is stored beside its kernels: one search per arm, not one per round
            "TRITON_CACHE_AUTOTUNING": "1",
        }


PreparedVersion = tuple[VersionEnvironment, dict[str, str]]
"""A version that is ready, and the environment variables of its processes on its machine."""


def create(
    environment: VersionEnvironment, setup: str, log: Path, ours: bool, should_stop: Callable[[], bool] = lambda: False
) -> None:
    """Create the virtual environment and run `setup` in the checkout; its output goes to `log`.

    Raises UsageError with the last lines of the output when it fails.
    """
    venv.EnvBuilder(system_site_packages=True, clear=True, symlinks=True, with_pip=bool(setup)).create(
        environment.prefix
    )
    packages = next((environment.prefix / "lib").glob("python*/site-packages"))
    (packages / _VISIBLE).write_text(
        "".join(f"import site; site.addsitedir({folder!r})\n" for folder in _invoking()), encoding="utf-8"
    )
    if ours:
        overlay(environment)
    if setup:
        _run_setup(environment, setup, log, ours, should_stop)


def overlay(environment: VersionEnvironment) -> None:
    """Combine the invoking rooflens with the kernels of the checkout, to compare rooflens itself."""
    root = Path(__file__).resolve().parents[2]
    folder = environment.folder / "overlay" / "rooflens"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name in ("__init__.py", "shapes", "harness", "analysis", "reports", "api", "cli", "plugins"):
        (folder / name).symlink_to(root / name)
    (folder / "kernels").symlink_to(environment.tree / "kernels")


def _invoking() -> list[str]:
    """Folders of installed packages that the invoking Python sees."""
    found = [entry for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")]
    user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return list(dict.fromkeys((*found, *user)))


def _run_setup(
    environment: VersionEnvironment, setup: str, log: Path, ours: bool, should_stop: Callable[[], bool]
) -> None:
    """Run one line of shell."""
    variables = environment.variables(has_setup=True, ours=ours) | {"PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    title = f"$ {setup}   # in {environment.tree}"
    command = ["bash", "-euo", "pipefail", "-c", setup]
    try:
        code, output = run_logged(title, command, environment.tree, variables, log, should_stop)
    except Interrupted:
        raise Interrupted("interrupted during --setup") from None
    if code in (-signal.SIGINT, 128 + signal.SIGINT):
        raise Interrupted("interrupted during --setup")
    if code:
        shown = " | ".join([title, *output][-_SHOWN_LINES:])
        raise UsageError(f"--setup failed with exit code {code}; {log} ends: {shown}")

"""Environments and source trees for tests that install the project, without the network."""

import os
import shutil
import subprocess
import sysconfig
import zipfile
from collections.abc import Collection
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("shapes", "kernels", "harness", "analysis", "reports", "api", "cli", "plugins")
LEFT_OUT = {"__pycache__", "tests", "README.md"}
"""Folders and files that are not installed."""
ROOT_FILES = ("__init__.py", "__main__.py", "py.typed")
"""What the package holds outside of its folders."""
BUILD_FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "CHANGELOG.md", "LICENSE")


def printed_by(*command: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a program; return it with what it printed."""
    return subprocess.run([*map(str, command)], capture_output=True, text=True, **options)


def call(*arguments: object, cwd: Path, code: int = 0, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program without the network and the machine's settings; fail if it exits with another code."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP", "PYTHON", "UV_"))}
    offline = {
        "PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "UV_OFFLINE": "1",
        "UV_NO_INDEX": "1", "NO_COLOR": "1",
    }  # fmt: skip
    done = printed_by(*arguments, cwd=cwd, env=kept | offline | variables, timeout=600)
    assert done.returncode == code, f"{' '.join(done.args)}\n{done.stdout}\n{done.stderr}"
    return done


def package_files() -> list[Path]:
    """Every source and data file of the package, relative to the root; caches and compiled files are not sources."""
    found = [
        path.relative_to(ROOT)
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix not in {".so", ".pyc"} and not LEFT_OUT & set(path.relative_to(ROOT).parts)
    ]
    return [*map(Path, ROOT_FILES), *sorted(found)]


def package_source(copy: Path) -> Path:
    """Copy what a build needs, because it writes into its source tree."""
    for name in (*BUILD_FILES, *package_files()):
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
    return copy


def link_packages(site: Path, but: Collection[str] = ("rooflens",)) -> None:
    """Show the packages of this environment in another `site-packages`, without the distributions `but`."""
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        name = path.name.partition("-")[0]
        if name not in but and "rooflens" not in name and path.suffix != ".pth" and not (site / path.name).exists():
            (site / path.name).symlink_to(path)


def wheel_of(name: str, folder: Path) -> Path:
    """Pack a pure distribution of this environment into the wheel that it came from, so that pip finds it offline."""
    found = distribution(name)
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name.replace('-', '_')}-{found.version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in found.files or ():
            if ".." not in file.parts and "__pycache__" not in file.parts:
                archive.write(file.locate(), file.as_posix())
    return wheel


def empty_wheel_of(name: str, folder: Path) -> Path:
    """Make a wheel with the name and the version of what is installed here, and nothing in it."""
    version = distribution(name).version
    info = f"{name}-{version}.dist-info"
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "".join(f"{info}/{file},,\n" for file in ("METADATA", "WHEEL", "RECORD")))
    return wheel

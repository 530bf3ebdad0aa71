"""Whether another checkout of rooflens measures as this one does: only then its kernels can be compared."""

import hashlib
from pathlib import Path

from ..shapes.errors import UsageError

_SOURCES = (".py", ".toml", ".csv")


def refuse_other_harness(tree: Path, arm: str) -> None:
    """Raise UsageError when rooflens' own checkout measures, or describes problems, in another way than this one."""
    root = Path(__file__).resolve().parents[1]
    for name in ("harness", "shapes"):
        if _folder_hash(tree / name) != _folder_hash(root / name):
            raise UsageError(
                f"{arm}: its {name}/ is not that of the rooflens that compares, so that a difference would not be the "
                "kernels'; run rooflens compare from a checkout with the same one, or compare two stored runs"
            )


def _folder_hash(folder: Path) -> str:
    """Hash the sources below a folder: names and contents."""
    digest = hashlib.sha256()
    for file in sorted(path for path in folder.rglob("*") if path.suffix in _SOURCES and path.is_file()):
        digest.update(f"{file.relative_to(folder).as_posix()}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()

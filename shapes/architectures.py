"""Names of architectures, as devices tell them: sm90 (NVIDIA), gfx950 (AMD), x86_64-avx512 (CPUs)."""

import re
from collections.abc import Iterable

from .errors import UsageError, quote

_GPU = re.compile(r"sm\d+|gfx[0-9a-f]+")
_CPU = re.compile(r"(x86_64|amd64|aarch64|arm64|ppc64le|s390x)-\w+")


def is_gpu(name: str) -> bool:
    """Return whether this names the architecture of a GPU."""
    return bool(_GPU.fullmatch(name))


def is_architecture(name: str) -> bool:
    """Return whether this names an architecture."""
    return is_gpu(name) or bool(_CPU.fullmatch(name))


def parse_devices(texts: Iterable[str], where: str) -> tuple[str, int | None]:
    """Read "gfx950" or "sm90=2": an architecture ("" for none), and the most devices of it, None for all.

    Raises UsageError that begins with `where`, and for several architectures.
    """
    parts = [part.strip() for text in texts for part in text.split(",")]
    for part in parts:
        name, equals, count = part.partition("=")
        if not is_architecture(name) or (equals and not (count.isdecimal() and int(count))):
            raise UsageError(f"{where} {quote(part)}: write an architecture, such as sm90, or sm90=2 for two devices")
    if len(parts) > 1:
        raise one_per_call(parts)
    return (name, int(count) if equals else None) if parts else ("", None)


def one_per_call(names: Iterable[str]) -> UsageError:
    """Return the error that says which calls measure these architectures."""
    calls = " and ".join(f"one with --on {name}" for name in names)
    return UsageError(f"a call measures one architecture: make {calls}, each with its own -o")

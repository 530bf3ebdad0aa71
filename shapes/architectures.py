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


def parse_devices(texts: Iterable[str], where: str) -> dict[str, int | None]:
    """Read "gfx950", "sm90=2" or lists of both with commas: the most devices of each architecture, None for all.

    Raises UsageError that begins with `where`.
    """
    asked: dict[str, int | None] = {}
    for part in (part.strip() for text in texts for part in text.split(",")):
        name, equals, count = part.partition("=")
        if not is_architecture(name) or (equals and not (count.isdecimal() and int(count))):
            raise UsageError(f"{where} {quote(part)}: write an architecture, such as sm90, or sm90=2 for two devices")
        if name in asked:
            raise UsageError(f"{where} {quote(part)}: {name} is named twice")
        asked[name] = int(count) if equals else None
    return asked

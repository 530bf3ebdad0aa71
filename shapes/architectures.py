"""Names of architectures, as devices tell them: sm90 (NVIDIA), gfx950 (AMD), x86_64-avx512 (CPUs)."""

import re

from .errors import UsageError, quote

_GPU = re.compile(r"sm\d+|gfx[0-9a-f]+")
_CPU = re.compile(r"(x86_64|amd64|aarch64|arm64|ppc64le|s390x)-\w+")


def is_gpu(name: str) -> bool:
    """Return whether this names the architecture of a GPU."""
    return bool(_GPU.fullmatch(name))


def is_architecture(name: str) -> bool:
    """Return whether this names an architecture."""
    return is_gpu(name) or bool(_CPU.fullmatch(name))


def parse_devices(text: str, where: str) -> tuple[str, int | None]:
    """Read "gfx950" or "sm90=2": an architecture ("" for none), and the most devices of it, None for all.

    Raises UsageError that begins with `where`.
    """
    name, equals, count = text.partition("=")
    if text and (not is_architecture(name) or (equals and not (count.isdecimal() and int(count)))):
        raise UsageError(f"{where} {quote(text)}: write an architecture, such as sm90, or sm90=2 for two devices")
    return name, int(count) if equals else None

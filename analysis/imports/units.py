"""Units that the name of a column states."""

import re

SECONDS = {"s": "1", "ms": "0.001", "us": "0.000001", "ns": "0.000000001"}
"""Unit of time: its seconds, as exact decimal text."""

_SPELLINGS = {
    "sec": "s",
    "secs": "s",
    "second": "s",
    "seconds": "s",
    "msec": "ms",
    "usec": "us",
    "µs": "us",
    "μs": "us",
}

_TIMES = {"time", "latency", "duration", "elapsed", "runtime"}

_RATES = {"tflops", "gflops", "flops", "tbps", "gbps", "mbps", "bw", "bandwidth", "throughput", "speedup", "rate"}


def unit_of(name: str) -> str | None:
    """Return the unit of time that a column name states ("Latency (ms)", "kernel_us"); None without or with several."""
    found = {_SPELLINGS.get(word, word) for word in _words(name)} & set(SECONDS)
    return found.pop() if len(found) == 1 else None


def is_time(name: str) -> bool:
    """Return whether a column holds times by its name, with or without a unit."""
    words = set(_words(name))
    if words & _RATES or re.search(r"/\s*s(ec)?\b", name.lower()):
        return False
    return bool(words & _TIMES) or unit_of(name) is not None


def _words(name: str) -> list[str]:
    return [word for word in re.split(r"[^a-zµμ]+", name.lower()) if word]

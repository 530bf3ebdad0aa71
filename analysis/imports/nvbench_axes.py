"""How axes of an nvbench benchmark become the coordinates of a case; shared by its CSV and its JSON."""

import re
from collections.abc import Mapping

from ...shapes.errors import UsageError, quote
from ...shapes.problem import Problem
from .entries import UNKNOWN, ImportedCase
from .table import TimeCell

COLD, BATCH = "GPU Time", "Batch GPU"
"""Names of the mean over isolated launches, and of that over launches without a gap."""

CACHES = {COLD: "cold", BATCH: "warm"}
"""Isolated launches are preceded by a flush of the L2, batched ones are not."""

_SIZES = {"m": "M", "n": "N", "k": "K", "b": "B", "batch": "B"}

_TEXTS = {"dtype": "dtype", "scheme": "scheme", "model": "model", "layer": "layer"}

_PROVIDERS = ("provider", "implementation", "backend")


def entry(
    benchmark: str, axes: Mapping[str, str], reading: TimeCell, timing: str, where: str, place: str, note: str = ""
) -> ImportedCase:
    """Build the entry of one state.

    Axes M, N, K, B and batch are sizes; dtype, scheme, model and layer themselves; provider is added to the name of
    the benchmark; the others make up the layer. Case and word order do not matter. `timing` is `COLD` or `BATCH`.
    """
    sizes: dict[str, int] = {}
    texts: dict[str, str] = {}
    providers, rest = [benchmark], []
    for name, value in axes.items():
        key = name.lower()
        if key in _SIZES:
            if not (re.fullmatch(r"[0-9]{1,18}", value) and int(value)):
                raise UsageError(f"{where} {place}, axis {name}: {quote(value)} is not a positive whole number")
            sizes[_SIZES[key]] = int(value)
        elif key in _TEXTS:
            texts[_TEXTS[key]] = value
        elif key in _PROVIDERS:
            providers.append(value)
        else:
            rest.append(f"{name}={value}")
    layer = " ".join([*([texts["layer"]] if "layer" in texts else []), *rest]) or "gemm"
    M, N, K, B = (sizes.get(name, 1) for name in ("M", "N", "K", "B"))
    try:
        problem = Problem(M, N, K, B)
    except UsageError as error:
        raise UsageError(f"{where} {place}: {error}") from None
    return ImportedCase(
        problem=problem,
        place=place,
        reading=reading,
        provider=" ".join(providers),
        model=texts.get("model", "any"),
        dtype=texts.get("dtype", UNKNOWN),
        scheme=texts.get("scheme", UNKNOWN),
        layer=layer,
        cache=CACHES[timing],
        flops=None if {"M", "N", "K"} <= set(sizes) else float("nan"),
        note=note,
    )


def noise_note(share: str) -> str:
    """Put nvbench's relative standard deviation into words; "" where it is none."""
    try:
        return f"noise {float(share):.2%} over single launches"
    except ValueError:
        return ""

"""Figures that are printed beside a device table, and what they cannot be: measured peaks, achievable bandwidth, ...

A figure is known by the name of its field: a type or "mem_bw", and what is claimed of it (`bf16_measured`,
`int8_threshold`, `mem_bw_achievable`, `int8_tflops_per_gcd`, `fp8_e4m3fn`); TFLOPS and GB/s as in the table. What no
law covers is not checked.
"""

from collections.abc import Iterator, Mapping

from .gpu_architectures import architecture

Row = Mapping[str, str]

REACHED = 0.98
"""Nothing that was measured reaches more of a published bandwidth."""

_REAL = ("measured", "threshold", "empirical_roof", "achievable")
"""Ends of the names of figures that a device delivers, and that its published peak therefore bounds."""

_SCALES = ("e8m0",)
"""Types that scale other operands and are none."""

_LANES = {"sm80": 64}
"""Lanes ("shaders") of a compute unit that differ from the vendor's others: 64 of AMD, 128 of NVIDIA."""

MOST = 1e15
"""No figure of a device is larger, in the units of the table."""


def number(row: Row, field: str) -> float | None:
    """Return a field as a number; None where it is empty, or none that can be reckoned with: 0, or beyond `MOST`."""
    try:
        value = float(row.get(field) or "")
    except ValueError:
        return None
    return value if 0 < value <= MOST else None


def claim_faults(row: Row, arch: str) -> Iterator[str]:
    """Yield what cannot be right among the figures beside the table, in the order of the row."""
    for field, text in row.items():
        if not text:
            continue
        what, _, claim = field.partition("_")
        if field == "device_name":
            yield from _name(row, text)
        elif field == "shaders":
            yield from _shaders(row, arch, text)
        elif field == "cache_to_flush":
            yield from _flushed(row, text)
        elif field.endswith("_formula"):
            yield f"{field} = {text}: a formula is not a figure; transfers per clock differ between types of memory"
        elif field.endswith("_per_gcd"):
            yield from _per_die(row, field, text)
        elif what == "fp8" and claim in _SCALES:
            yield f"{field} = {text}: {claim} is a type of scales, not of operands"
        elif what == "fp8" and claim.startswith("e4m3") and claim != (own := _fp8_format(arch)):
            yield f"{field} = {text}: the FP8 units of {arch} take {own}"
        elif field.endswith(_REAL):
            yield from _delivered(row, field, text)


def _delivered(row: Row, field: str, text: str) -> Iterator[str]:
    """Hold a figure that a device delivers against its published peak."""
    end = next(end for end in _REAL if field.endswith(end))
    what = field.removesuffix(f"_{end}")
    peak, value = number(row, "mem_bw_gbs" if what == "mem_bw" else f"{what}_tflops"), number(row, field)
    if peak is None or value is None:
        return
    if value > peak:
        yield f"{field} = {text}: above the published {peak:g}: another unit, or another level of memory"
    elif what == "mem_bw" and value > REACHED * peak:
        yield f"{field} = {text}: that is the published {peak:g}, of which {REACHED:.0%} are reached at most"


def _name(row: Row, text: str) -> Iterator[str]:
    """Find words of a name that the row's device does not have."""
    words = set(row.get("device", "").replace("(", " ").split())
    if other := [word for word in text.split() if word not in words]:
        yield f"device_name = {text}: this is {row.get('device', '')}, not {' '.join(other)}"


def _fp8_format(arch: str) -> str:
    return "e4m3fnuz" if architecture(arch).fnuz else "e4m3fn"


def _shaders(row: Row, arch: str, text: str) -> Iterator[str]:
    lanes = _LANES.get(arch, 64 if arch.startswith("gfx") else 128)
    units, value = number(row, "compute_units"), number(row, "shaders")
    if units and value and value != units * lanes:
        yield f"shaders = {text}: {units:g} units of {lanes} are {units * lanes:g}"


def _flushed(row: Row, text: str) -> Iterator[str]:
    last, value = number(row, "llc_mib") or number(row, "l2_mib"), number(row, "cache_to_flush")
    if last and value and value < last:
        yield f"cache_to_flush = {text}: the last-level cache has {last:g} MiB"


def _per_die(row: Row, field: str, text: str) -> Iterator[str]:
    whole, value = number(row, field.removesuffix("_per_gcd")), number(row, field)
    dies = number(row, "l2_private_slices")
    if whole and value and dies and abs(value * dies / whole - 1) > 0.02:
        yield f"{field} = {text}: the package of {dies:g} has {whole:g}, so each has {whole / dies:g}"

"""One column of a table: what it is, guessed from its header and cells, or the user's word instead."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ....analysis.imports.units import SECONDS, is_time, unit_of
from ....shapes.errors import UsageError, quote, shorten, unknown_name
from . import words as known
from .annotated_table import AnnotatedColumn, ColumnRole, numbers_of
from .assumptions import devices_of_cell
from .printed import EMPHASIS, Printed, is_blank, read_size

GIVEN: Mapping[str, tuple[ColumnRole, float, str]] = {
    **{name: (ColumnRole.SIZE, 1.0, name) for name in ("M", "N", "K", "B", "E", "top_k")},
    **{f"time_{unit}": (ColumnRole.TIME, float(seconds), "") for unit, seconds in SECONDS.items()},
    **{unit: (ColumnRole.RATE, known.RATES[unit], "") for unit in ("tflops", "gflops", "pflops")},
    "gbs": (ColumnRole.BANDWIDTH, 1e9, ""),
    "throughput": (ColumnRole.THROUGHPUT, 1.0, ""),
    "speedup": (ColumnRole.RATIO, 1.0, ""),
    "change": (ColumnRole.CHANGE, 1.0, ""),
    "reduction": (ColumnRole.CHANGE, 1.0, "reduction"),
    "gain": (ColumnRole.CHANGE, 1.0, "gain"),
    "percent_of_peak": (ColumnRole.PEAK_SHARE, 1.0, ""),
    "cases": (ColumnRole.CASES, 1.0, ""),
    "dtype": (ColumnRole.DTYPE, 1.0, ""),
    "device": (ColumnRole.DEVICE, 1.0, ""),
    "id": (ColumnRole.ID, 1.0, ""),
    "label": (ColumnRole.LABEL, 1.0, ""),
    "ignore": (ColumnRole.OTHER, 1.0, ""),
}
"""What `--column ROLE=NAME` may say; `ROLE:SIDE=NAME` names the side too ("time_ms:old")."""


_SHAPES = frozenset(("shape", "shapes", "problem", "gemm", "size", "sizes", "mnk", "dims"))
"""Words of a header whose three numbers are M, N and K unless it gives letters."""

_SHAPE = re.compile(r"[(\[]?\s*\d+[kK]?(\s*[,x×]\s*\d+[kK]?){2,3}\s*[)\]]?")
"""Three or four sizes in one cell."""

_SIDED = frozenset(
    (
        *(
            ColumnRole.TIME,
            ColumnRole.RATE,
            ColumnRole.BANDWIDTH,
            ColumnRole.THROUGHPUT,
            ColumnRole.RATIO,
            ColumnRole.CHANGE,
            ColumnRole.DIFFERENCE,
        ),
        *(ColumnRole.PEAK_SHARE, ColumnRole.STATISTIC, ColumnRole.BYTES, ColumnRole.OTHER),
    )
)
"""Roles of which a table may have a column per side."""


@dataclass(frozen=True, slots=True)
class Override:
    """One `--column ROLE[:SIDE]=NAME`."""

    role: str
    side: str
    name: str

    @staticmethod
    def parse(text: str) -> "Override":
        """Read the option; raise UsageError when it is none."""
        left, equals, name = text.partition("=")
        role, _, side = left.partition(":")
        if not equals or not name.strip():
            raise UsageError(f"--column {quote(text)}: write ROLE=NAME, as in time_us='Kernel (us)'")
        if role.strip() not in GIVEN:
            raise unknown_name("role of --column", role.strip(), list(GIVEN))
        return Override(role.strip(), side.strip().lower(), name.strip())


def read_column(index: int, name: str, texts: Sequence[str], lower: bool, override: Override | None) -> AnnotatedColumn:
    """Build a column: its role is guessed from its header and cells, unless `override` gives it."""
    numbers = numbers_of(texts)
    cells, mixed, unread = numbers.cells, numbers.mixed, 0
    words = known.words_of(name)
    fixed = {} if override else {found[1]: size for found in _FIXED.finditer(name) if (size := read_size(found[2]))}
    if override:
        role, unit, detail = GIVEN[override.role]
        cells = cells if override.role != "ignore" else (None,) * len(cells)
    else:
        role, unit, detail = _role(name, name.strip().replace(" ", "_"), words, cells, texts, lower)
    if role is ColumnRole.SIZE:
        cells = tuple(cell and _size(cell) for cell in cells)
    if not override:
        if role not in (ColumnRole.SHAPE, ColumnRole.DTYPE, ColumnRole.DEVICE, ColumnRole.ID, ColumnRole.OTHER):
            unread = sum(cell is None and not is_blank(text) for cell, text in zip(cells, texts, strict=True))
        if not any(cell is not None for cell in cells) and role not in (
            ColumnRole.SHAPE,
            ColumnRole.DTYPE,
            ColumnRole.DEVICE,
            ColumnRole.ID,
        ):
            role, detail = ColumnRole.LABEL, _letters(name, words)
        cells, unit, converted = _in_one_unit(cells, role, unit)
        mixed = mixed or converted
    passes = known.passes_in(words)
    has_side = override is not None or (role in _SIDED and not fixed)
    return AnnotatedColumn(
        index,
        shorten(name),
        role,
        cells,
        (override.side if override else "") or (_side(words) if has_side else ""),
        passes.pop() if len(passes) == 1 else "",
        unit,
        detail,
        _dtype(words),
        _core(words),
        fixed,
        numbers.rounding,
        mixed,
        unread,
        numbers.digits,
        sides=_sides(name, words) if role in (ColumnRole.RATIO, ColumnRole.CHANGE) and not override else "",
    )


_FIXED = re.compile(r"\b([MNKBE])\s*=\s*(\d+[kK]?)\b")
"""A size that a header fixes."""


def _letters(name: str, words: Sequence[str]) -> str:
    """Sizes that a header of names gives for a product in each of them: "shape (N x K)"; of a shape M, N and K."""
    letters = "".join(re.findall(r"\b([BEMNK])\b", name.replace("x", " ").replace("_", " ")))
    if len(letters) > 1:
        return letters if len(set(letters)) == len(letters) else ""
    return "MNK" if set(words) & _SHAPES and not set(words) & {"tile", "block", "size", "sizes"} else ""


def _size(cell: Printed) -> Printed | None:
    """A size as a whole number: "4k" is 4096; None where it may be two numbers ("7k")."""
    size = read_size(EMPHASIS.sub("", cell.text).strip())
    return replace(cell, digits=str(size)) if size is not None else cell if cell.text[-1:] not in "kK" else None


_POWERS = {
    ColumnRole.TIME: {"s": 0, "ms": -3, "us": -6, "ns": -9},
    ColumnRole.RATE: {"gflops": 9, "tflops": 12, "pflops": 15},
    ColumnRole.BANDWIDTH: {"gb/s": 9, "tb/s": 12},
    ColumnRole.BYTES: {"kb": 3, "mb": 6, "gb": 9},
}
"""Units of a cell, as powers of ten of the base unit."""


def _in_one_unit(
    cells: tuple[Printed | None, ...], role: ColumnRole, unit: float
) -> tuple[tuple[Printed | None, ...], float, bool]:
    """Believe the unit in a cell before that of the header; True where cells have several, and were converted."""
    powers = _POWERS.get(role if role is not ColumnRole.OTHER else ColumnRole.TIME, {})
    own = {powers.get(cell.unit) for cell in cells if cell is not None}
    if len(own) == 1 and None not in own:
        return cells, 10.0 ** next(power for power in own if power is not None), False
    if not own - {None}:
        return cells, unit, False
    base = round(math.log10(unit))
    converted = tuple(
        cell if cell is None or cell.unit not in powers else cell.in_unit(powers[cell.unit] - base) for cell in cells
    )
    return converted, unit, True


def _role(
    name: str, plain: str, words: Sequence[str], cells: Sequence[object], texts: Sequence[str], lower: bool
) -> tuple[ColumnRole, float, str]:
    """Role, unit and detail of a column."""
    units = {getattr(cell, "unit", "") for cell in cells if cell is not None}
    said = set(words)
    sizes = known.SIZES.get(plain, "") or (known.SIZES.get(plain.lower(), "") if len(plain) > 1 else "")
    sizes = sizes or (plain.upper() if lower and plain in ("m", "n", "k", "b", "e") else "")
    if sizes:
        return ColumnRole.SIZE, 1.0, sizes
    if texts and all(_SHAPE.fullmatch(text.strip()) for text in texts):
        letters = "".join(re.findall(r"\b([BEMNK])\b", name))
        count = len(re.findall(r"\d+", texts[0]))
        return (
            ColumnRole.SHAPE,
            1.0,
            letters if len(letters) == count else "MNK" if count == 3 and said <= _SHAPES else "",
        )
    if (threshold := known.threshold_in(name)) is not None:
        return ColumnRole.COUNT, 1.0, str(threshold)
    if said & known.IDS or plain.lower() in known.IDS:
        return ColumnRole.ID, 1.0, ""
    if any("dtype" in word for word in words):
        return ColumnRole.DTYPE, 1.0, ""
    if said & known.DEVICES and not any(cells) and any(devices_of_cell(text) is not None for text in texts):
        return ColumnRole.DEVICE, 1.0, ""
    if said and said <= known.COUNTS:
        return ColumnRole.CASES, 1.0, ""
    return _quantity(name, words, units)


def _quantity(name: str, words: Sequence[str], units: set[str]) -> tuple[ColumnRole, float, str]:
    said = set(words)
    timed = bool(units) and units <= {*_POWERS[ColumnRole.TIME]}  # "best 20%" of times
    percent = "%" in units or (bool(said & {"%", "pct", "percent"}) and not timed)
    if _is_peak_share(said, percent):
        return ColumnRole.PEAK_SHARE, 1.0, "bandwidth" if said & _MEMORY else ""
    if said & {"work", "total"} and said & {"tflop", "gflop"}:  # an amount, no rate
        return ColumnRole.OTHER, 1.0, ""
    rates = [word for word in words if word in known.RATES and not (word in _SHORT_RATES and is_time(name))]
    rate = known.RATES[rates[0]] if rates else None
    unit = unit_of(re.sub(r"(?i)[#x%]", " ", name)) if is_time(name) and name.strip() != "S" else None  # a length
    statistic = next((known.STATISTICS[word] for word in words if word in known.STATISTICS), "")
    if percent:
        if statistic and not said & known.CHANGES and rate is None:
            return ColumnRole.STATISTIC, 1.0, statistic
        return ColumnRole.CHANGE, 1.0, _change_kind(said, rate is not None)
    if said & known.CHANGES:
        scale = rate or (float(SECONDS[unit]) if unit else 1.0)
        return ColumnRole.DIFFERENCE, scale, ""
    if _literal(name) or units == {"x"} or said & {"speedup", "ratio", "x-factor", "×"}:
        return ColumnRole.RATIO, 1.0, ""
    if rate is not None or (units and units <= {*_POWERS[ColumnRole.RATE]}):
        return ColumnRole.RATE, rate or 1e12, ""
    bandwidth = next((known.BANDWIDTHS[word] for word in words if word in known.BANDWIDTHS), None)
    if bandwidth is not None or (units and units <= {*_POWERS[ColumnRole.BANDWIDTH]}):
        return ColumnRole.BANDWIDTH, bandwidth or 1e9, ""
    if (size := _bytes(words, units)) is not None and unit is None:
        return ColumnRole.BYTES, size, ""
    if said & known.THROUGHPUTS or units == {"/s"} or any(map(known.is_per_second, words)):
        return ColumnRole.THROUGHPUT, 1.0, ""
    unit = unit or ("us" if units and units <= {*_POWERS[ColumnRole.TIME]} else None)
    if unit is not None:
        return ColumnRole.TIME, float(SECONDS[unit]), ""
    if statistic:
        return ColumnRole.STATISTIC, 1.0, statistic
    return ColumnRole.OTHER, 1.0, ""


_SHORT_RATES = frozenset(("gf", "tf", "pf"))
"""Words that are rates only where nothing says time: "TF (ms)" may be a framework."""

_MEMORY = frozenset(("bw", "bandwidth", "membw", "hbm", "dram", "memory", "mem", "gbs", "tbs"))

_OTHERWISE = frozenset(("vs", "vs.", "versus", "relative", "over", "of", "to", "gpu", "sm", "scaling", "parallel"))
"""Words that make an efficiency or utilization one of something else than a peak."""


def _is_peak_share(said: set[str], percent: bool) -> bool:
    """Tell whether a header is about a percentage of a peak: of FLOP/s, or with words for it, of bandwidth."""
    if said & {"mfu", "hfu"} or (percent and said & {"sol", "%sol", "roofline"}) or ("peak" in said and percent):
        return True
    if percent and said & {"max", "maximum", "theoretical"} and said & _MEMORY:
        return True
    return percent and bool(said & {"efficiency", "utilization"}) and not said & _OTHERWISE


def _bytes(words: Sequence[str], units: set[str]) -> float | None:
    """Bytes per unit of a column of sizes in bytes, by its cells, else by its header; None for another."""
    own = units & {*known.BYTES}
    if own and own == units:
        return known.BYTES[min(own)]
    said = [known.BYTES[word] for word in words if word in known.BYTES]
    return said[0] if len(said) == 1 and units <= {""} else None


def _change_kind(said: set[str], rate: bool) -> str:
    if "reduction" in said or said & {"time", "latency"}:
        return "reduction"
    return "gain" if rate or "throughput" in said else ""


def _literal(name: str) -> str:
    """Sides "a/b" of a header that writes a quotient: "New/Old", "new ÷ bf16", "new over old"."""
    text = name.replace("_", " ").strip().lower()
    found = re.search(r"\b([a-z][\w.+]*)\s*(?:/|÷|\bover\b)\s*([a-z][\w.+]*)", text)
    if found is None or found[2] in ("s", "sec") or found[1] in {*known.RATES, *SECONDS}:
        return ""
    return f"{found[1]}/{found[2]}"


def _sides(name: str, words: Sequence[str]) -> str:
    """Sides of a ratio or change, as `AnnotatedColumn.sides` has them."""
    literal = _literal(name) if "speedup" not in words else ""
    return literal or _from_to(name)


def _from_to(name: str) -> str:
    """Sides of a speedup: "a>b" of "a -> b speedup" and "speedup_a_to_b", "a<b" of "b vs a", "a<" of "vs a"; or ""."""
    text = name.replace("_", " ").strip().lower()
    if found := _VERSUS.search(text):
        head = "" if found[1] in (None, "speedup", "ratio", "x") else found[1]
        return f"{found[2]}<{head}"
    found = re.search(r"([a-z][\w.+]*)\s*(?:->|→|\bto\b)\s*([a-z][\w.+]*)", text)
    return f"{found[1]}>{found[2]}" if found else ""


_VERSUS = re.compile(r"(?:([a-z][\w.+=]*)\s+)?\b(?:vs\.?|versus|over|relative to|against)\s+(?:the\s+)?([a-z][\w.+=]*)")


def _side(words: Sequence[str]) -> str:
    drop = {*known.PASSES, *known.RATES, *known.BANDWIDTHS, *known.STATISTICS, *known.CHANGES, *known.FILLER}
    drop |= {*SECONDS, "%", "percent", "speedup", "ratio", "×", "µs", "μs", "ops"}
    drop |= {*known.THROUGHPUTS, *known.BYTES, "peak", "mfu", "hfu", "efficiency", "utilization", "sol", "roofline"}
    return " ".join(word for word in words if word not in drop and not known.is_per_second(word))


def _core(words: Sequence[str]) -> frozenset[str]:
    """Words of a header without passes and units: what columns of one quantity share."""
    return frozenset(word for word in words if word not in {*known.PASSES, *SECONDS, "%", "pct", "percent", "printed"})


def _dtype(words: Sequence[str]) -> str:
    return next((word for word in words if word in known.DTYPES), "")

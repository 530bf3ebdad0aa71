"""What a column is: by its header, whose words `words` knows, and by its cells, which decide; or by the user's word."""

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from ...shapes.errors import shorten
from . import words as known
from .columns import GIVEN, AnnotatedColumn, ColumnRole, Override
from .devices import devices_of_cell
from .printed import EMPHASIS, SECONDS, Printed, is_blank, read_printed, read_size
from .rounding import Rounding, RoundingKind, detect
from .words import is_time, unit_of

_NAMES = (ColumnRole.SHAPE, ColumnRole.DTYPE, ColumnRole.DEVICE, ColumnRole.ID)
"""Roles whose cells are no numbers."""

_UNSIDED = (*_NAMES, ColumnRole.SIZE, ColumnRole.WORK, ColumnRole.LABEL)
"""Roles of which a table has no column per side."""

_SHAPES = frozenset(("shape", "shapes", "problem", "gemm", "size", "sizes", "mnk", "dims"))
"""Words of a header whose three numbers are M, N and K unless it gives letters."""

_SHAPE = re.compile(r"[(\[]?\s*\d+[kK]?(\s*[,x×]\s*\d+[kK]?){2,3}\s*[)\]]?")
"""Three or four sizes in one cell."""

_FIXED = re.compile(r"\b([MNKBE])\s*=\s*(\d+[kK]?)\b")
"""A size that a header fixes."""


def read_column(
    index: int, name: str, texts: Sequence[str], lower: bool = False, override: Override | None = None
) -> AnnotatedColumn:
    """Build a column: its role is guessed from its header and cells, unless `override` gives it.

    `lower`: the sizes of this table have names in lower case.
    """
    (cells, rounding, mixed, digits), unread = numbers_of(texts), 0
    words = known.words_of(name)
    if override:
        role, unit, detail = GIVEN[override.role]
        cells = cells if override.role != "ignore" else (None,) * len(cells)
    else:
        role, unit, detail = _role(name, words, cells, texts, lower)
    if role is ColumnRole.SIZE:
        cells = tuple(cell and _size(cell) for cell in cells)
    if not override:
        if role not in (*_NAMES, ColumnRole.OTHER):
            unread = sum(cell is None and not is_blank(text) for cell, text in zip(cells, texts, strict=True))
        if not any(cells) and role not in _NAMES:
            role, detail = ColumnRole.LABEL, _sizes_of(name, words)
        cells, unit, converted = _in_one_unit(cells, role, unit)
        mixed = mixed or converted
    fixed = {} if override else {found[1]: size for found in _FIXED.finditer(name) if (size := read_size(found[2]))}
    passes = known.passes_in(words)
    has_side = override is not None or (role not in _UNSIDED and not fixed)
    return AnnotatedColumn(
        index,
        shorten(name),
        role,
        cells,
        (override.side if override else "") or (_side(words) if has_side else ""),
        passes.pop() if len(passes) == 1 else "",
        unit,
        detail,
        next((word for word in words if word in known.DTYPES), ""),
        frozenset(words) - {*known.PASSES, *SECONDS, "%", "pct", "percent", "printed"},
        fixed,
        rounding,
        mixed,
        unread,
        digits,
        sides=_sides(name, words) if role in (ColumnRole.RATIO, ColumnRole.CHANGE) and not override else "",
    )


def _sizes_of(name: str, words: Sequence[str]) -> str:
    """Sizes that a header names for a product or list in each cell: "shape (N x K)"; of a shape M, N and K."""
    parts = re.findall(r"\w+", name.replace(" x ", " ").replace("×", " "))
    parts = parts if all(len(part) > 1 for part in parts) else re.findall(r"[A-Za-z]+", name.replace("x", " "))
    named = [size for part in parts if (size := known.size_named(part))]
    if len(named) > 1:
        return ",".join(named) if len(set(named)) == len(named) else ""
    return "M,N,K" if set(words) & _SHAPES and not set(words) & {"tile", "block", "size", "sizes"} else ""


def _size(cell: Printed) -> Printed | None:
    """A size as a whole number: "4k" is 4096; None where it may be two numbers ("7k")."""
    size = read_size(EMPHASIS.sub("", cell.text).strip())
    return replace(cell, digits=str(size)) if size is not None else cell if cell.text[-1:] not in "kK" else None


_UNITS = {
    **{unit: (ColumnRole.TIME, power) for unit, power in (("s", 0), ("ms", -3), ("us", -6), ("ns", -9))},
    **{unit: (ColumnRole.RATE, power) for unit, power in (("gflops", 9), ("tflops", 12), ("pflops", 15))},
    **{unit: (ColumnRole.BANDWIDTH, power) for unit, power in (("gb/s", 9), ("tb/s", 12))},
    **{unit: (ColumnRole.BYTES, power) for unit, power in (("kb", 3), ("mb", 6), ("gb", 9))},
}
"""Unit of a cell: the quantity, and the power of ten of its base unit."""

_SCALED = (*dict.fromkeys(role for role, _ in _UNITS.values()), ColumnRole.DIFFERENCE, ColumnRole.OTHER)
"""Roles of columns whose cells may have units."""


def _quantity_of(units: set[str]) -> ColumnRole | None:
    """The one quantity that the units of cells are of."""
    found = {_UNITS[unit][0] if unit in _UNITS else None for unit in units}
    return found.pop() if len(found) == 1 else None


def _in_one_unit(
    cells: tuple[Printed | None, ...], role: ColumnRole, unit: float
) -> tuple[tuple[Printed | None, ...], float, bool]:
    """Believe the unit in a cell before that of the header; True where cells have several, and were converted."""
    own = {cell.unit for cell in cells if cell is not None}
    quantity = _quantity_of(own - {""})
    if role not in _SCALED or quantity is None or quantity not in (role, ColumnRole.TIME, ColumnRole.RATE):
        return cells, unit, False
    if len(own) == 1:
        return cells, 10.0 ** _UNITS[own.pop()][1], False
    base = round(math.log10(unit))
    converted = tuple(cell and cell.in_unit(_UNITS[cell.unit][1] - base if cell.unit else 0) for cell in cells)
    return converted, unit, True


def _role(
    name: str, words: Sequence[str], cells: Sequence[Printed | None], texts: Sequence[str], lower: bool
) -> tuple[ColumnRole, float, str]:
    """Role, unit and detail of a column."""
    units = {cell.unit for cell in cells if cell is not None}
    said, plain = set(words), name.strip().replace(" ", "_").lower()
    size = known.size_named(name) or (plain.upper() if lower and plain in ("m", "n", "k", "b", "e") else "")
    if size and (any(cells) or not any(texts)):
        return ColumnRole.SIZE, 1.0, size
    if texts and all(_SHAPE.fullmatch(text.strip()) for text in texts):
        named, count = _sizes_of(name, words), len(re.findall(r"\d+", texts[0]))
        fits = named.count(",") + 1 == count and (said <= _SHAPES or named != "M,N,K" or not said & _SHAPES)
        return ColumnRole.SHAPE, 1.0, named if named and fits else ""
    if said & known.IDS or plain in known.IDS:
        return ColumnRole.ID, 1.0, ""
    if any("dtype" in word for word in words):
        return ColumnRole.DTYPE, 1.0, ""
    if said & known.DEVICES and not any(cells) and any(devices_of_cell(text) is not None for text in texts):
        return ColumnRole.DEVICE, 1.0, ""
    if said & known.UNTIMED:
        return ColumnRole.OTHER, 1.0, ""
    return _quantity(name, words, units, all(cell is None or "." not in cell.digits for cell in cells))


def _quantity(name: str, words: Sequence[str], units: set[str], is_whole: bool) -> tuple[ColumnRole, float, str]:
    said, quantity = set(words), _quantity_of(units)
    percent = "%" in units or (bool(said & {"%", "pct", "percent"}) and quantity is not ColumnRole.TIME)
    if _is_peak_share(said, percent):
        return ColumnRole.PEAK_SHARE, 1.0, "bandwidth" if said & _MEMORY else ""
    if {"flops", "flop"} & said and is_whole and not re.search(r"(?i)flops?\s*/|per", name) and not units - {""}:
        return ColumnRole.WORK, 1.0, ""
    if "/" in name and said & {"flops/byte", "flop/byte", "byte", "flops/bytes"}:  # an intensity
        return ColumnRole.OTHER, 1.0, ""
    if said & {"work", "total"} and said & {"tflop", "gflop"}:  # an amount, no rate
        return ColumnRole.OTHER, 1.0, ""
    rates = [word for word in words if word in known.RATES and not (word in _SHORT_RATES and is_time(name))]
    rate = known.RATES[rates[0]] if rates else None
    unit = unit_of(re.sub(r"(?i)[#x%]", " ", name)) if is_time(name) else None
    statistic = next((known.STATISTICS[word] for word in words if word in known.STATISTICS), "")
    if percent:
        if statistic and not said & known.CHANGES and rate is None:
            return ColumnRole.STATISTIC, 1.0, statistic
        return ColumnRole.CHANGE, 1.0, _change_kind(said, rate is not None)
    unit = unit or ("us" if quantity is ColumnRole.TIME else None)
    seconds = float(SECONDS[unit]) if unit else None
    if said & known.CHANGES:
        return ColumnRole.DIFFERENCE, rate or seconds or 1.0, ""
    if _literal(name) or units == {"x"} or said & {"speedup", "ratio", "x-factor", "×"}:
        return ColumnRole.RATIO, 1.0, ""
    if rate is not None or quantity is ColumnRole.RATE:
        return ColumnRole.RATE, rate or 1e12, ""
    bandwidth = next((known.BANDWIDTHS[word] for word in words if word in known.BANDWIDTHS), None)
    if bandwidth is not None or quantity is ColumnRole.BANDWIDTH:
        return ColumnRole.BANDWIDTH, bandwidth or 1e9, ""
    if (size := _bytes(words, units)) is not None and seconds is None:
        return ColumnRole.BYTES, size, ""
    if said & known.THROUGHPUTS or units == {"/s"} or any(map(known.is_per_second, words)):
        return ColumnRole.THROUGHPUT, 1.0, ""
    if seconds is not None and not known.is_secondary(name):
        return ColumnRole.TIME, seconds, ""
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


ENOUGH = 100
"""Numbers that tell as much as more of them."""

BY_CHANCE = 0.15
"""Chance of so many cells without their last zero, one in ten of which is a zero, above which they may be dropped."""


def numbers_of(texts: Sequence[str]) -> tuple[tuple[Printed | None, ...], Rounding, bool, int]:
    """Read the cells of a column, and find out how they were rounded; `mixed` and `digits` as in `AnnotatedColumn`.

    Where decimals differ, zeros at the end may have been dropped, of a number with so many decimals or with so many
    digits. If too many cells lack zeros for either, every cell was rounded by itself.
    """
    cells = tuple(read_printed(text) for text in texts)
    exact = [cell.digits for cell in cells if cell is not None and not cell.about]
    rounding = detect(exact)
    numbers = [Decimal(text) for text in exact]
    numbers = [number for number in numbers if number]
    decimals = [-int(number.as_tuple().exponent) for number in numbers]
    if len(set(decimals)) < 2 or rounding.kind is RoundingKind.NONE:
        return cells, rounding, False, 0
    digits = [number.adjusted() + places + 1 for number, places in zip(numbers, decimals, strict=True)]
    short = min(len(counts) - counts.count(max(counts)) for counts in (decimals, digits))
    return cells, rounding, _chance(short, len(numbers)) < BY_CHANCE, max(digits)


def _chance(short: int, count: int) -> float:
    """Chance that `short` of so many numbers, or more, end in a zero; of long columns that of a part of them."""
    if count > ENOUGH:
        short, count = ENOUGH * short // count, ENOUGH
    return 1 - sum(math.comb(count, one) * 0.1**one * 0.9 ** (count - one) for one in range(short))

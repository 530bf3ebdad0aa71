"""One grammar for every number that a reader sees; the same text in every format.

Values come in base units (seconds, byte/s, FLOP/s) and are scaled only here. An unknown (None or NaN) is an empty text,
never 0. The minus sign is U+2212 everywhere; `plain.to_ascii` has a plain form of every sign used.

Where a function takes `low` and `high`, the 95 % interval of the value, the text has no more digits than the interval
leaves (`rounded`).
"""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TypeGuard, TypeVar

from ..shapes.run_folder.coverage import Coverage

MINUS = "\N{MINUS SIGN}"
TIMES = "\N{MULTIPLICATION SIGN}"
DIVIDE = "\N{DIVISION SIGN}"

TIE = f"~1.0{TIMES}"
"""A measured tie."""

Item = TypeVar("Item")


def known(value: float | None) -> TypeGuard[float]:
    """True for a number that can be shown: neither None nor NaN."""
    return value is not None and not math.isnan(value)


def significant(value: float, digits: int = 3) -> str:
    """Write `value` with `digits` significant digits and no exponent: 0.0123, 1.23, 12.3, 123, 1234."""
    if value == 0 or not math.isfinite(value):
        return f"{value:.0f}"
    magnitude = math.floor(math.log10(abs(value)))
    decimals = max(0, digits - 1 - magnitude)
    text = f"{value:.{decimals}f}"
    if decimals and len(text.lstrip("-").replace(".", "").lstrip("0")) > digits:  # 9.996 rounds up to 10.00
        text = f"{value:.{decimals - 1}f}"
    return text.replace("-", MINUS)


def rounded(value: float, decimals: int, low: float | None = None, high: float | None = None, least: int = 2) -> str:
    """Write `value` with `decimals` decimals, or with as few as its interval [low, high] leaves: 12.34 ± 5% as 12.

    The unit of the last digit is the largest power of ten that is no wider than the interval, and with which the text
    still lies inside it; but `least` significant digits stay, because one alone would move 1.5 to 2. Digits before the
    point become zeros: 812 in [750, 880] is 810. An interval that is unknown, infinite, of no width, or without the
    value says nothing of digits.
    """
    return _fixed(value, _places(value, decimals, low, high, least))


def _fixed(value: float, places: int) -> str:
    return f"{round(value, places):.{max(0, places)}f}".replace("-", MINUS)


def _places(value: float, decimals: int, low: float | None, high: float | None, least: int = 2) -> int:
    """Decimals of `rounded`, below 0 where digits before the point become zeros."""
    places = decimals
    if low is not None and high is not None and low <= value <= high and 0 < high - low < math.inf:
        known_places = -math.floor(math.log10(high - low) + 1e-9)
        least_places = least - 1 - math.floor(math.log10(abs(value)) + 1e-9) if value else known_places
        places = min(decimals, max(known_places, least_places))
        while places < decimals and not low <= round(value, places) <= high:
            places += 1
    return places


def _ends(low: float, high: float, places: int, none: float) -> int:
    """Decimals of both ends of an interval: those of its point, and one more where an end would read as no change."""
    return places + any(round(end, places) == none != end for end in (low, high))


def ratio(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """Write a speedup: 3.64×; below 0.1 two significant digits, above 100 one decimal."""
    if not known(value):
        return ""
    if math.isinf(value):
        return "\N{INFINITY}" + TIMES
    return _fixed(value, _ratio_places(value, low, high)) + TIMES


def _ratio_places(value: float, low: float | None = None, high: float | None = None) -> int:
    small = 0 < value < 0.0995
    return _places(value, _decimals(significant(value, 2)) if small else 1 if value >= 99.995 else 2, low, high)


def undecided(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """Write a ratio whose interval includes 1: ~1.08×; as a measured tie, ~1.0×, where all of the interval is one.

    What would only read as a tie has a digit less: ~1×.
    """
    if low is not None and high is not None and f"{low:.1f}" == f"{high:.1f}" == "1.0":
        return TIE
    text = f"~{ratio(value, low, high)}" if known(value) else ""
    return f"~1{TIMES}" if text == TIE else text


def ratio_interval(low: float | None, high: float | None) -> str:
    """Write the interval of a ratio: [3.60×, 3.69×]; a bound that says nothing as < 0.001× or > 1000×.

    An interval of which neither bound says anything is "unknown". Its ends have the digits of the ratio, which is in
    its logarithmic middle.
    """
    if not (known(low) and known(high)):
        return ""
    if low < 1e-3 and high > 1e3:
        return "unknown"
    if low < 1e-3 or high > 1e3:
        return f"[{f'< 0.001{TIMES}' if low < 1e-3 else ratio(low)}, {f'> 1000{TIMES}' if high > 1e3 else ratio(high)}]"
    places = _ends(low, high, _ratio_places(math.sqrt(low * high), low, high), 1)
    return f"[{_fixed(low, places)}{TIMES}, {_fixed(high, places)}{TIMES}]"


def time(seconds: float | None, low: float | None = None, high: float | None = None) -> str:
    """Write a duration: 12.34 µs (2 decimals), 1.234 ms and 1.234 s (3 decimals), up to 2 more if its interval asks."""
    if not known(seconds):
        return ""
    unit, scale, decimals = _time_unit(seconds)
    return f"{_scaled(seconds, scale, _enough(scale, decimals, low, high), low, high)} {unit}"


def time_interval(low: float | None, high: float | None) -> str:
    """Write an interval of a duration: [3.83, 3.90] µs, or with a unit at each end where they are far apart.

    One of more than six decades is "unknown": two noisy rounds give seventeen. Its ends have unit and
    digits of the duration, which is in its logarithmic middle.
    """
    if not (known(low) and known(high)):
        return ""
    if high > 1e6 * low:
        return "unknown"
    if high > 10 * low:
        return f"[{time(low)}, {time(high)}]"
    unit, scale, decimals = _time_unit(middle := math.sqrt(low * high))
    places = _places(middle * scale, _enough(scale, decimals, low, high), low * scale, high * scale)
    return f"[{_fixed(low * scale, places)}, {_fixed(high * scale, places)}] {unit}"


def _time_unit(seconds: float) -> tuple[str, float, int]:
    """Unit of a duration, what seconds are multiplied by, and its decimals."""
    if seconds < 0.999995e-3:
        return "µs", 1e6, 2
    return ("ms", 1e3, 3) if seconds < 0.9999995 else ("s", 1.0, 3)


def _enough(scale: float, decimals: int, low: float | None, high: float | None) -> int:
    """As many more decimals, two at most, as it takes to tell the ends of an interval apart."""
    width = scale * (high - low) if low is not None and high is not None else math.nan
    return next((n for n in (decimals, decimals + 1) if not 0 < width < 10.0**-n), decimals + 2)


def tick_time(seconds: float) -> str:
    """Write an axis label: 10 µs, 1 ms, 100 ns, 0."""
    if not seconds:
        return "0"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale * 0.9995:
            return f"{_short(seconds / scale)} {unit}"
    return f"{_short(seconds / 1e-9)} ns"


def tick_flops(flops_per_s: float) -> str:
    """Write an axis label of a rate: 10 TFLOPS, 500 GFLOPS."""
    if flops_per_s >= 0.9995e12:
        return f"{_short(flops_per_s / 1e12)} TFLOPS"
    return f"{_short(flops_per_s / 1e9)} GFLOPS"


def tick_ratio(value: float) -> str:
    """Write an axis label of a ratio; below 1 as a fraction: 4×, 1×, 1/4×."""
    return f"{_short(value)}{TIMES}" if value >= 1 else f"1/{_short(1 / value)}{TIMES}"


def tick_elapsed(seconds: float) -> str:
    """Write an axis label of time that passes: 0, 20 s, 1:30 min, 2 h."""
    if seconds < 60:
        return f"{_short(seconds)} s" if seconds else "0"
    large, unit = (3600, "h") if seconds >= 3600 else (60, "min")
    whole, rest = divmod(round(seconds / (large / 60)), 60)
    return f"{whole}:{rest:02d} {unit}" if rest else f"{whole} {unit}"


def tick_share(fraction: float) -> str:
    """Write an axis label of a share: 20%, −5%."""
    return f"{_short(100 * fraction)}%".replace("-", MINUS)


def tick_change(fraction: float) -> str:
    """Write a change on an axis: +5%, −2.5%, 0%."""
    text = f"{100 * fraction:+.{1 if abs(fraction) < 0.1 else 0}f}".removesuffix(".0").replace("-", MINUS)
    return "0%" if text.strip(f"+{MINUS}") == "0" else f"{text}%"


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 999.5 else f"{value:.0f}"


def flops(flops_per_s: float | None, low: float | None = None, high: float | None = None) -> str:
    """Write a rate: 812.4 TFLOPS above 100, else 3 significant digits; GFLOPS below one TFLOPS."""
    if not known(flops_per_s):
        return ""
    unit = flops_unit([flops_per_s])
    return f"{flops_in(unit, flops_per_s, low, high)} {unit}"


def flops_unit(rates: Iterable[float]) -> str:
    """Choose the unit of a column of rates: TFLOPS when the largest reaches one, else GFLOPS."""
    return "TFLOPS" if max(rates, default=0.0) >= 0.9995e12 else "GFLOPS"


def flops_in(unit: str, flops_per_s: float | None, low: float | None = None, high: float | None = None) -> str:
    """Write a rate in the unit of the header."""
    return _rate(flops_per_s, 1e-12 if unit == "TFLOPS" else 1e-9, low, high) if known(flops_per_s) else ""


def rates_in(unit: str, base: float, head: float) -> tuple[str, str]:
    """Write the rates of two versions; with so many digits that a change is seen, up to six: 10.38, 10.46."""
    texts = flops_in(unit, base), flops_in(unit, head)
    scale = 1e-12 if unit == "TFLOPS" else 1e-9
    digits = 4
    while texts[0] == texts[1] and base != head and digits <= 6:
        texts = significant(base * scale, digits), significant(head * scale, digits)
        digits += 1
    return texts


def operations(per_s: float | None) -> str:
    """Write a rate of instructions: 33.4 Top/s, below one of them Gop/s."""
    return flops(per_s).replace("FLOPS", "op/s")


def ceiling(what: str, value: float | None) -> str:
    """Write a value of ceilings.csv by the name of its ceiling; an unknown ceiling is a time."""
    scales: dict[str, Callable[[float | None], str]] = {
        "bandwidth": bandwidth,
        "peak": flops,
        "vector": operations,
        "clock": clock,
    }
    return scales.get(what, time)(value)


def gigabytes(bytes_per_s: float | None, low: float | None = None, high: float | None = None) -> str:
    """Write a bandwidth in GB/s where the header has the unit."""
    return _rate(bytes_per_s, 1e-9, low, high) if known(bytes_per_s) else ""


def bandwidth(bytes_per_s: float | None, low: float | None = None, high: float | None = None) -> str:
    """Write a bandwidth in GB/s (1e9 byte/s): 1 decimal above 100, else 3 significant digits."""
    return f"{gigabytes(bytes_per_s, low, high)} GB/s" if known(bytes_per_s) else ""


def _rate(per_s: float, scale: float, low: float | None, high: float | None) -> str:
    value = per_s * scale
    return _scaled(per_s, scale, 1 if value >= 99.95 else _decimals(significant(value)), low, high)


def _scaled(value: float, scale: float, decimals: int, low: float | None, high: float | None, least: int = 2) -> str:
    """`rounded` in another unit."""
    if low is None or high is None:
        return rounded(value * scale, decimals)
    return rounded(value * scale, decimals, low * scale, high * scale, least)


def _decimals(text: str) -> int:
    return len(text.partition(".")[2])


def clock(hertz: float | None) -> str:
    """Write a clock rate: 1.980 GHz, 345 MHz."""
    if not known(hertz):
        return ""
    return f"{hertz / 1e9:.3f} GHz" if hertz >= 0.9995e9 else f"{hertz / 1e6:.0f} MHz"


def temperature(celsius: float | None) -> str:
    """Write a temperature: 61 °C."""
    return f"{celsius:.0f} °C".replace("-", MINUS) if known(celsius) else ""


def power(watts: float | None) -> str:
    """Write a power: 698 W."""
    return f"{watts:.0f} W" if known(watts) else ""


def bytes_size(size: float | None) -> str:
    """Write a size in binary units: 60 MiB, 1.5 GiB."""
    if not known(size):
        return ""
    for unit, scale in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= scale:
            return f"{size / scale:.4g} {unit}"
    return f"{size:.0f} B"


def share(fraction: float | None) -> str:
    """Write a fraction of a whole as a percentage: 78%, 0.4%, 100%; never rounds up to 100 nor down to 0."""
    if not known(fraction):
        return ""
    percent = round(fraction * 100, 9)  # what is a whole but for the arithmetic is one
    if percent == 0 or percent == 100:
        return f"{percent:.0f}%"
    if percent < 1 or 99 < percent < 100:
        text = f"{percent:.1f}%"
        return {"0.0%": "<0.1%", "100.0%": ">99.9%"}.get(text, text)
    return f"{percent:.0f}%"


def signed_percent(fraction: float | None, low: float | None = None, high: float | None = None) -> str:
    """Write a change with sign and 2 decimals; the unit is in the header: +1.80, −2.45, 0.00.

    One digit is enough only below 1 %, so that below 10 % a sorted list of changes reads as sorted.
    """
    if not known(fraction):
        return ""
    return _signed(fraction, _percent_places(fraction, low, high))


def _percent_places(fraction: float, low: float | None, high: float | None) -> int:
    low, high = (None if end is None else 100 * end for end in (low, high))
    return _places(100 * fraction, 2, low, high, least=1 if abs(fraction) < 0.01 else 2)


def _signed(fraction: float, places: int) -> str:
    text = _fixed(100 * fraction, places)
    if not text.strip(f"0.{MINUS}"):
        return text.removeprefix(MINUS)
    return text if text.startswith(MINUS) else f"+{text}"


def change(ratio: float | None, low: float | None = None, high: float | None = None) -> str:
    """Write a ratio of times as a change: +3.10%, −0.25%; beyond a factor of 3 as the ratio: 4.2×, > 1000×.

    low, high  95 % interval of the ratio: +3.1% in [+2.8%, +3.4%].
    """
    if not known(ratio):
        return "unknown"
    low, high = (None if end is None else end - 1 for end in (low, high))
    return _change(ratio, _percent_places(ratio - 1, low, high))


def _change(ratio: float, places: int) -> str:
    if ratio > _FACTOR:
        return "> 1000×" if ratio > 1000 else f"{significant(ratio)}×"
    if ratio < 1 / _FACTOR:
        return "< 0.001×" if ratio < 0.001 else f"{significant(ratio, 2)}×"
    return f"{_signed(ratio - 1, places)}%"


def change_interval(low: float | None, high: float | None) -> str:
    """Write an interval of ratios of times, with the digits of `change`; "unknown" when it says nothing."""
    if not (known(low) and known(high)):
        return ""
    if low < 0.001 and high > 1000:
        return "unknown"
    middle = math.exp((math.log(low) + math.log(high)) / 2) - 1
    places = _ends(100 * (low - 1), 100 * (high - 1), _percent_places(middle, low - 1, high - 1), 0)
    return f"[{_change(low, places)}, {_change(high, places)}]"


_FACTOR = 3.0
"""From here on a percentage reads badly."""


def about(effect: float) -> str:
    """Write an estimate of a change in either direction, which two digits tell well enough: ±19%, ±0.85%, 4.20×."""
    more = math.expm1(min(effect, 700.0))
    return f"±{significant(100 * more, 2)}%" if more < 2 else change_size(effect)


def change_size(effect: float) -> str:
    """Write the size of a change in either direction: ±1.30%, 4.20×."""
    text = change(math.exp(min(effect, 700.0)))
    return f"±{text[1:]}" if text.startswith("+") else text


def decibel(value: float | None) -> str:
    """Write an SNR: 54.3 dB; an exact output has an infinite one."""
    if not known(value):
        return ""
    return "exact" if math.isinf(value) and value > 0 else f"{value:.1f} dB".replace("-", MINUS)


def count(part: int, whole: int) -> str:
    """Write 82 / 83."""
    return f"{part} / {whole}"


def coverage(covered: Coverage) -> str:
    """Write what became of the cells of a run: 82 / 90 timed; 2 failed, 6 to do; 48 more cannot run here."""
    parts = [(covered.failed, "failed"), (covered.to_do, "to do")]
    rest = ", ".join(f"{count} {word}" for count, word in parts if count)
    texts = [
        f"{count(covered.timed, covered.runnable)} timed",
        rest,
        f"{covered.unsupported} more cannot run here" if covered.unsupported else "",
        f"{count(covered.shapes_timed, covered.shapes)} shapes" if covered.shapes_timed < covered.shapes else "",
        f"{count(covered.rounds_to_do, covered.rounds)} rounds to do" if covered.rounds_to_do else "",
    ]
    return "; ".join(filter(None, texts))


def plural(number: int, noun: str, nouns: str = "") -> str:
    """Write 1 shape, 40 shapes."""
    return f"{number} {noun if number == 1 else nouns or noun + 's'}"


def some(texts: Sequence[str], most: int, separator: str = ", ") -> str:
    """Write the first `most` texts and count the others: a, b and 3 more; with semicolons a; b; and 3 more."""
    left = len(texts) - most
    return separator.join(texts[:most]) + f"{separator.strip(', ')} and {left} more" * (left > 0)


def thinned(items: Sequence[Item], most: int) -> list[Item]:
    """Return at most `most` of the items, the ends among them, evenly spread."""
    if len(items) <= most:
        return list(items)
    places = {round(index * (len(items) - 1) / (most - 1)) for index in range(most)}
    return [items[place] for place in sorted(places)]


def sizes(of: Iterable[int]) -> str:
    """Write sizes, each once, in order: 1, 2, 4, ..., 2048 when they are many and double all the way."""
    values = sorted(set(map(int, of)))
    doubling = len(values) > 5 and all(b == 2 * a for a, b in pairwise(values))
    if doubling:
        return f"{values[0]}, {values[1]}, {values[2]}, \N{HORIZONTAL ELLIPSIS}, {values[-1]}"
    return ", ".join(map(str, values))


def shape(label: str) -> str:
    """Write the N x K at the end of a shape's label with the sign: llama2-7b down (4096×11008)."""
    name, bracket, size = label.rpartition("(")
    return name + bracket + size.replace("x", TIMES)


def crossover(m: float | None) -> str:
    """Write a crossover position: M~622, below 10 with two significant digits (it is interpolated between sizes)."""
    return f"M~{_m(m)}" if known(m) else ""


def m_interval(low: float | None, high: float | None) -> str:
    """Write an interval of M: [32, 64]; with an end beyond the sweep (0, ∞ or unknown) ≤ 64 or ≥ 32."""
    low = low if low is not None and 0 < low < math.inf else None
    high = high if high is not None and 0 < high < math.inf else None
    if low is not None and high is not None:
        return f"[{_m(low)}, {_m(high)}]"
    if high is not None:
        return f"\N{LESS-THAN OR EQUAL TO} {_m(high)}"
    return f"\N{GREATER-THAN OR EQUAL TO} {_m(low)}" if low is not None else ""


def m_range(first: float | None, last: float | None) -> str:
    """Write at which M a rule holds: 4 ≤ M ≤ 16, M ≤ 16, M ≥ 4, M = 4, or every M; None for an end that is open."""
    if first is None and last is None:
        return "every M"
    if first == last:
        return f"M = {first:g}"
    low = "" if first is None else f"{first:g} \N{LESS-THAN OR EQUAL TO} "
    if last is None:
        return f"M \N{GREATER-THAN OR EQUAL TO} {first:g}"
    return f"{low}M \N{LESS-THAN OR EQUAL TO} {last:g}"


def _m(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"


def effect(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """Write a difference of ln time, with its 95 % interval, as the change of time, head ÷ base − 1: +12.71% slower."""
    if not known(value):
        return "unknown"
    if not (known(low) and known(high)):
        return change(_exp(value))
    return change(_exp(value), _exp(low), _exp(high))


def effect_interval(low: float | None, high: float | None) -> str:
    """Write an interval of differences of ln time as changes of time."""
    if not (known(low) and known(high)):
        return ""
    return change_interval(_exp(low), _exp(high))


def _exp(value: float) -> float:
    """exp without overflow: a bound beyond a factor of e^700 is written as one that says nothing."""
    return math.exp(max(-700.0, min(700.0, value)))

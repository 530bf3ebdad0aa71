"""A scan: shapes replaced by variants of themselves that differ in N or K alone.

N=2048..4096:64     every 64th size from 2048 to 4096
N=4096~8x64         8 steps of 64 to both sides of 4096
K=~4x128            4 steps of 128 to both sides of the shape's own K
N=4096,4160,8192    these sizes; parts of all kinds may be joined by commas
"""

import re
from dataclasses import dataclass, replace

from .errors import UsageError, quote
from .problem import Op
from .shapeset import Shape

SCANNED = ("N", "K")
"""Sizes that a scan can vary."""

LARGEST_SCAN = 1000
"""Variants of one shape; more of them is a slip of the keyboard."""

_PART = re.compile(
    r"(?P<only>\d{1,18})|(?P<first>\d{1,18})\.\.(?P<last>\d{1,18}):(?P<by>\d{1,18})"
    r"|(?P<centre>\d{1,18})?~(?P<steps>\d{1,9})x(?P<step>\d{1,18})"
)


@dataclass(frozen=True, slots=True)
class Scan:
    """Sizes of one axis, in parts: each are sizes, or distances from the shape's own size where it is marked so.

    `text` is what the user wrote.
    """

    axis: str
    parts: tuple[tuple[range, bool], ...]
    text: str

    @classmethod
    def parse(cls, text: str) -> "Scan":
        """Read the text of --scan. Raises UsageError that says how to write it."""
        axis, equals, sizes = text.partition("=")
        if axis not in SCANNED or not equals:
            raise UsageError(f"--scan {quote(text)}: write N=SIZES or K=SIZES, such as N=2048..4096:64 or N=4096~8x64")
        parts = tuple(_part(part.strip(), text) for part in sizes.split(","))
        return cls(axis, parts, text)

    def variants(self, shape: Shape, op: Op) -> tuple[Shape, ...]:
        """Return the variants of `shape`, by rising size: layer "down N=4160", and the rest as it is."""
        if op is Op.QUANTIZE and self.axis == "N":
            raise UsageError(f"--scan {quote(self.text)}: a quantization has no N; scan K")
        own: int = getattr(shape, self.axis)
        sizes = sorted({size + own * is_around for part, is_around in self.parts for size in part})
        if sizes[0] < 1:
            raise UsageError(
                f"--scan {quote(self.text)}: {self.axis}={sizes[0]} of {shape.label} is not a size: take less"
            )
        if len(sizes) > LARGEST_SCAN:
            raise UsageError(f"--scan {quote(self.text)}: {len(sizes)} sizes of one shape; {LARGEST_SCAN} are the most")
        return tuple(
            replace(
                shape,
                layer=f"{shape.layer} {self.axis}={size}",
                alias="",
                N=size if self.axis == "N" else shape.N,
                K=size if self.axis == "K" else shape.K,
            )
            for size in sizes
        )


def _part(part: str, text: str) -> tuple[range, bool]:
    match = _PART.fullmatch(part)
    if not match:
        raise UsageError(
            f"--scan {quote(text)}: {quote(part)} is neither a size, nor FIRST..LAST:STEP, nor CENTRE~STEPSxSTEP "
            "(no CENTRE: around the size of each shape)"
        )
    read = {name: int(value) for name, value in match.groupdict().items() if value}
    if "only" in read:
        first, last, step = read["only"], read["only"], 1
    elif "by" in read:
        first, last, step = read["first"], read["last"], read["by"]
    else:
        step, centre = read["step"], read.get("centre", 0)
        first, last = centre - read["steps"] * step, centre + read["steps"] * step
    if step < 1 or last < first:
        raise UsageError(
            f"--scan {quote(text)}: {quote(part)} does not rise: the step is positive, and the first size the least"
        )
    if (last - first) // step >= LARGEST_SCAN:
        raise UsageError(f"--scan {quote(text)}: {quote(part)} is more than {LARGEST_SCAN} sizes")
    return range(first, last + 1, step), "steps" in read and "centre" not in read

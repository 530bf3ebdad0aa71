"""What the numbers of a table are held against: a device, the type that it multiplies in, and the operation."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

from ....shapes.device import DeviceSpec, specs
from ....shapes.errors import UsageError, quote, unknown_name
from ....shapes.problem import Op, Pass
from .words import DTYPES, FOUR_BITS

TOTAL, PER_EXPERT = "total", "per_expert"


@dataclass(frozen=True, slots=True)
class Assumptions:
    """How to read a table.

    device           None: rules that need peaks are left out
    dtype            type of the multiplications ("" unknown: the device's highest rate is the roof); fp4 and nvfp4
                     are mxfp4, which runs at the same rate on NVIDIA, and no other device multiplies nvfp4
    pass_            pass that times are of, where no header says so ("" unknown)
    m_is             what M counts where there are experts: "total", "per_expert" or "" (unknown)
    weight_bits, activation_bits   storage per element, scales left out; the defaults are the least that is in use
    """

    device: DeviceSpec | None = None
    dtype: str = ""
    op: Op = Op.GEMM
    pass_: str = ""
    m_is: str = ""
    weight_bits: float = 4
    activation_bits: float = 8

    def __post_init__(self) -> None:
        if self.dtype in FOUR_BITS and not (self.dtype == "nvfp4" and self.device and self.device.vendor != "NVIDIA"):
            object.__setattr__(self, "dtype", "mxfp4")
        if self.dtype and self.dtype not in (*DTYPES, *FOUR_BITS):
            raise unknown_name("dtype", self.dtype, [*DTYPES, *FOUR_BITS])
        if self.pass_ and self.pass_ not in tuple(Pass):
            raise unknown_name("pass", self.pass_, list(Pass))
        if self.device and self.dtype and self.dtype not in self.device.peak_flops:
            known = ", ".join(self.device.peak_flops)
            raise UsageError(
                f"{self.device.name} has no published {self.dtype} rate: give the type that it multiplies in, "
                f"after upcasting: --dtype {known.replace(', ', '|')}"
            )

    def on(self, devices: Sequence[DeviceSpec]) -> "Assumptions":
        """Return the setting for a number that one of `devices` gave: nothing is checked where there are none.

        Of several that one name stands for (H100 SXM and PCIe), that of the user, else the fastest: what it cannot do,
        none of them can.
        """
        if not devices:
            return replace(self, device=None)
        if self.device in devices:
            return self
        device = max(
            devices,
            key=lambda one: (max(one.peak_flops.values(), default=0.0), one.bandwidth_bytes_per_s or 0.0),
        )
        return replace(self, device=device, dtype=self.dtype if self.dtype in device.peak_flops else "")

    def peak(self, dtype: str = "") -> tuple[float, str] | None:
        """Dense FLOP/s of the device and their type: `dtype`, else that of the setting, else its fastest."""
        if self.device is None or not self.device.peak_flops:
            return None
        rates = self.device.peak_flops
        for name in (dtype, self.dtype):
            if name in rates:
                return rates[name], name
        fastest = max(rates, key=lambda name: rates[name])
        return rates[fastest], fastest


BOARD_BOOST = 1.25
"""Clock of a consumer board over the one that its rates are published for: an RTX 5090, rated at 2407 MHz, was seen at
2902 MHz in a review (Trusted Reviews), and boards are sold overclocked."""


def reachable(device: DeviceSpec, peak: float) -> float:
    """Return what a device may reach of a published rate: more where its clock rises above the rated one."""
    return peak * BOARD_BOOST if re.search(r"\b(GeForce|Radeon RX)\b", device.name) else peak


def find_device(name: str) -> DeviceSpec:
    """Find a device by its full name, an unambiguous part of it ("MI300X", "H200") or its architecture ("gfx1201").

    Raises UsageError that names the candidates, or the nearest names.
    """
    rows = specs()
    exact = [row for row in rows if row.name.lower() == name.lower()]
    wanted = _key(name)
    parts = [row for row in rows if wanted and wanted in (_key(word) for word in _parts(row.name))]
    by_arch = [row for row in rows if _key(row.arch) == wanted]
    # "H20" is no part of "H200": those are two devices
    whole = re.compile(rf"(?<!\d(?=\d)){re.escape(wanted)}(?!(?<=\d)\d)")
    inside = [row for row in rows if len(wanted) > 2 and whole.search(_key(row.name))]
    for found in (exact, parts, by_arch, inside):
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(repr(row.name) for row in found)
            raise UsageError(f"device {quote(name)} may be any of {names}; give more of the name")
    short = {_short(row.name): row.name for row in rows}
    raise unknown_name("device", name, [*short, *dict.fromkeys(row.arch for row in rows)])


def devices_in(text: str) -> list[DeviceSpec]:
    """Devices that a sentence names; of a name that fits several (H100) those that other words of it fit best."""
    return list(_devices_in(text))


@cache
def _devices_in(text: str) -> tuple[DeviceSpec, ...]:
    words = {_key(word) for word in re.findall(r"(?<![A-Za-z])[A-Za-z]+\d+[A-Za-z]*|\d+[A-Za-z]*", text)}
    named: dict[str, list[DeviceSpec]] = {}
    for row in specs():
        if (short := _key(_short(row.name))) in words:
            named.setdefault(short, []).append(row)
    said = {_key(word) for word in _parts(text)}
    found = []
    for rows in named.values():
        fit = [len(said & {_key(word) for word in _parts(row.name)}) for row in rows]
        found += [row for row, count in zip(rows, fit, strict=True) if count == max(fit)]
    return tuple(found)


_LOOKS_LIKE_DEVICE = re.compile(
    r"(?i)\b(gfx[0-9a-f]{3,4}|sm_?\d{2,3}|MI\d{2,3}[A-Z]?|[ABHLPTV]\d{1,3}|GB\d{3}|[RG]TX|radeon|geforce|instinct|tesla|"
    r"xeon|epyc|ryzen|gaudi|TPU|CPU|apple|arc)\b"
)


def devices_of_cell(text: str) -> list[DeviceSpec] | None:
    """Devices that a cell names, by name or architecture; none for one that is not in the table; None for no device."""
    if found := devices_in(text):
        return found
    words = {_key(word) for word in re.findall(r"(?<![A-Za-z])[A-Za-z]+_?\d+[A-Za-z]*", text)}
    by_arch = [row for row in specs() if _key(row.arch) in words]
    return by_arch if by_arch or _LOOKS_LIKE_DEVICE.search(text) else None


def short_name(device: DeviceSpec) -> str:
    """Return the name that people use: MI300X, H200, RTX 4090."""
    return _short(device.name)


def _short(name: str) -> str:
    bare = re.sub(r"\(.*?\)", "", name).split("/")[-1]
    words = [word for word in bare.split() if re.search(r"\d", word)]
    return words[0].partition("-")[0] if words else bare.strip()


def _parts(name: str) -> list[str]:
    words = re.sub(r"[()/,]", " ", name).replace("-", " ").split()
    return [*words, *(" ".join(pair) for pair in itertools.pairwise(words))]


def _key(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())

"""What the numbers of a table are held against: a device, the type that it multiplies in, and the operation."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ....analysis.imports.words import DTYPES, FOUR_BITS
from ....shapes.device import DeviceSpec
from ....shapes.errors import UsageError, unknown_name
from ....shapes.problem import Op, Pass

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

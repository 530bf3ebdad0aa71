"""What cannot be right in a row of `shapes/devices.csv`: laws that hold for every part.

1. A rate is compute units x FLOP per clock x clock (`RATES`, dense, fp32 accumulation), within what vendors round and
   clock otherwise: of the devices in the table 0.92 (H100 PCIe) to 1.08 (fp32 of an H100 SXM, at another clock).
2. Rates of one part have the ratios of its architecture, whatever its clock: the one that stands out is wrong.
3. An architecture has units for some types only.
4. Bandwidth is bus width x the rate of a pin, which the type of memory limits.
5. Caches and numbers of units do not exceed the die, and private slices of L2 have their size.

Sources of the constants: the vendors' architecture white papers and instruction set guides, as cited row by row in
devices.csv.
"""

from collections.abc import Iterator, Mapping
from statistics import median

Row = Mapping[str, str]


def _table(text: str) -> dict[str, dict[str, int]]:
    """Read a table with a header: architecture -> column -> number, without those that it does not have."""
    (_, *names), *rows = (line.split() for line in text.strip().splitlines())
    return {
        arch: {name: int(cell) for name, cell in zip(names, cells, strict=True) if cell != "-"} for arch, *cells in rows
    }


RATES = _table("""
arch     fp32  tf32  bf16  fp16    fp8   int8  mxfp8  mxfp4
gfx908    128     -   512  1024      -   1024      -      -
gfx90a    128     -  1024  1024      -   1024      -      -
gfx942    256  1024  2048  2048   4096   4096      -      -
gfx950    256     -  4096  4096   8192   8192   8192  16384
gfx1100   256     -   512   512      -    512      -      -
gfx1150   256     -   512   512      -    512      -      -
gfx1151   256     -   512   512      -    512      -      -
gfx1200   256     -  1024  1024   2048   2048      -      -
gfx1201   256     -  1024  1024   2048   2048      -      -
sm70      128     -     -  1024      -      -      -      -
sm80      128  1024  2048  2048      -   4096      -      -
sm89      256   512  1024  1024   2048   2048      -      -
sm90      256  2048  4096  4096   8192   8192      -      -
sm100     256  4096  8192  8192  16384  16384  16384  32768
sm103     256  4096  8192  8192  16384      -  16384  49152
sm120     256   512  1024  1024   2048   2048   2048   4096
""")
"""Dense FLOP per clock of a compute unit, by architecture and type; packed or dual-issued fp32 where there is such."""

_HALVED = ("tf32", "bf16", "fp16", "fp8", "mxfp8")
"""Types of which a GeForce card multiplies half as many with fp32 accumulation."""

_CLOSES, _AGREES = 0.09, 0.025
"""Share by which a rate may be off its closed form, and off the ratio to its neighbours."""

_PIN_GBPS = {
    "HBM2": (1.4, 2.5),
    "HBM2e": (2.8, 3.7),
    "HBM3": (4.8, 6.6),
    "HBM3e": (5.8, 9.8),
    "GDDR6": (12.0, 20.0),
    "GDDR6X": (19.0, 24.0),
    "GDDR7": (28.0, 32.0),
    "LPDDR5X": (7.5, 9.6),
}
"""Least and most bits per second and pin of a type of memory, as parts are sold with it."""

_MOST = 1e15
"""No figure of a device is larger, in the units of the table."""


_DIES = _table("""
arch     units  l2_mib  llc_mib
gfx908     128       8        0
gfx90a     112       8        0
gfx942      40       4      256
gfx950      36       4      256
gfx1100     96       6       96
gfx1150     16       2        0
gfx1151     40       2       32
gfx1200     32       4       32
gfx1201     64       8       64
sm70        84       6        0
sm80       128      48        0
sm89       144      96        0
sm90       144      60        0
sm100      160     126        0
sm103      160     126        0
sm120      192     128        0
""")
"""The most that a whole die has. AMD: per private slice of L2, and what is behind them."""


def number(row: Row, field: str) -> float | None:
    """Return a field as a number; None where it is empty, or not a positive one."""
    try:
        value = float(row.get(field) or "")
    except ValueError:
        return None
    return value if 0 < value <= _MOST else None


def faults(row: Row) -> list[str]:
    """Say what cannot be right in a row, each beginning with the name of its field. Empty: nothing stands out."""
    arch = row["arch"].replace("_", "")
    if arch not in RATES:
        return [f"arch = {row['arch']}: no law is known for it; known are {', '.join(RATES)}"]
    return [*_unreckonable(row), *_rates(row, arch), *_memory(row), *_sizes(row, arch)]


def _unreckonable(row: Row) -> Iterator[str]:
    """Rates, clocks and counts that are not a positive number: no other check applies to them."""
    for name, text in row.items():
        if text and name.endswith(("_tflops", "_gbs", "_mhz", "_units")) and number(row, name) is None:
            yield f"{name} = {text}: not a positive number"


def _rates(row: Row, arch: str) -> Iterator[str]:
    laws = {name: per_clock / _halving(row, name) for name, per_clock in RATES[arch].items()}
    stated = {name.removesuffix("_tflops"): number(row, name) for name in row if name.endswith("_tflops")}
    rates = {name: rate for name, rate in stated.items() if rate is not None}
    for name in (name for name in rates if name not in laws):
        yield f"{name}_tflops = {row[f'{name}_tflops']}: {arch} has no unit for {name}"
    known = {name: rate for name, rate in rates.items() if name in laws}
    units, clock = number(row, "compute_units"), number(row, "boost_mhz")
    if units and clock:
        for name, rate in known.items():
            share = rate / (units * laws[name] * clock * 1e-6)
            if abs(share - 1) > _CLOSES:
                yield (
                    f"{name}_tflops = {row[f'{name}_tflops']}: {units:g} units x {laws[name]:g} FLOP/clk x {clock:g} "
                    f"MHz are {rate / share:.4g}"
                )
    # the clock times the units that each rate implies; fp32 may be stated at another clock
    implied = {name: rate / laws[name] for name, rate in known.items() if name != "fp32"}
    for name, each in implied.items():
        usual = median(implied.values())
        if abs(each / usual - 1) > _AGREES:
            yield (
                f"{name}_tflops = {row[f'{name}_tflops']}: the other types of this part imply {usual * laws[name]:.4g}"
            )


def _halving(row: Row, name: str) -> int:
    return 2 if "GeForce" in row.get("device", "") and name in _HALVED else 1


def _memory(row: Row) -> Iterator[str]:
    bandwidth = number(row, "mem_bw_gbs")
    if bandwidth is None:
        return
    bus, kind = number(row, "mem_bus_bits"), row.get("mem_type", "")
    if bus and kind in _PIN_GBPS:
        least, most = _PIN_GBPS[kind]
        pin = 8 * bandwidth / bus
        if not least <= pin <= most:
            yield (
                f"mem_bw_gbs = {row['mem_bw_gbs']}: that is {pin:.3g} Gbit/s for each of {bus:g} pins; "
                f"{kind} has {least:g} to {most:g}"
            )
    elif kind and kind not in _PIN_GBPS:
        yield f"mem_type = {kind}: known are {', '.join(_PIN_GBPS)}"


def _sizes(row: Row, arch: str) -> Iterator[str]:
    die, amd = _DIES[arch], arch.startswith("gfx")
    slices = number(row, "l2_private_slices") or 1
    dies = slices if amd else 1
    units, l2, llc = (number(row, name) for name in ("compute_units", "l2_mib", "llc_mib"))
    if units and units > dies * die["units"]:
        yield f"compute_units = {row['compute_units']}: {dies:g} dies of {arch} have {dies * die['units']:g} at most"
    if l2 and (l2 != dies * die["l2_mib"] if amd else l2 > die["l2_mib"]):
        yield f"l2_mib = {row['l2_mib']}: {arch} has {dies * die['l2_mib']:g}{'' if amd else ' at most'}"
    if (llc or 0) != die["llc_mib"]:
        stands = f"a last-level cache of {die['llc_mib']:g} MiB behind L2" if die["llc_mib"] else "no cache behind L2"
        yield f"llc_mib = {row.get('llc_mib', '')}: {arch} has {stands}"

"""Rules about the device that is measured: each takes a Survey and yields findings."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..telemetry.reading import INVALIDATING
from .advice_values import Advice, mib, ok, problem, warn

if TYPE_CHECKING:  # it imports torch, and a run asks `shared_device` where there is none
    from .survey import Survey

HOT_C = 85.0
"""Temperature of a GPU or CPU from which on to worry, where the slowdown temperature is unknown."""

MARGIN_C = 5.0
"""Distance from the slowdown temperature that counts as close."""


def unused_gpu(survey: "Survey") -> Iterator[Advice]:
    """A GPU that torch does not see is most often a wrong build of torch."""
    if survey.device.is_gpu or not survey.driver_gpus or survey.siblings:
        return
    vendor, count = survey.driver_gpus[0], len(survey.driver_gpus)
    build = survey.software.torch_build
    wanted = "CUDA" if vendor == "NVIDIA" else "ROCm"
    if not build.startswith(wanted):
        cure = f"torch {survey.software.torch} is built for {build}: install a {wanted} build of torch"
    else:
        cure = "torch cannot use it: check the driver and the visible-device variables, or ask with --device cuda"
    yield warn("device", f"{count} {vendor} device file{'s' * (count > 1)} here, but the CPU is surveyed; {cure}")


def known_device(survey: "Survey") -> Iterator[Advice]:
    """Ceilings and the last-level cache of a GPU come from the table of devices."""
    device, caches = survey.device, survey.caches
    if not device.is_gpu:
        if caches.llc_source != "/sys":
            yield warn(
                "caches",
                f"this CPU does not report its cache sizes: cold evicts {mib(caches.llc_bytes)}, which may be too "
                "little; give rooflens run the size with --set llc_bytes",
            )
        return
    if device.spec is None:
        yield warn(
            "caches",
            f"{device.name} ({device.arch}) is not in the device table: cold evicts {mib(caches.llc_bytes)} (4x what "
            "torch calls the L2) and no published peak bounds the measured ceilings; give rooflens run the size of the "
            "last-level cache with --set llc_bytes",
        )
        return
    if caches.torch_l2_bytes is not None and caches.torch_l2_bytes != caches.llc_bytes:
        yield ok(
            "caches",
            f"torch reports {mib(caches.torch_l2_bytes)} of L2, the device table {mib(caches.llc_bytes)} in the last "
            "level: cold evicts the latter",
        )
    if device.spec.status != "verified":
        yield ok("device", f"the published peaks of {device.spec.name} are {device.spec.status.replace('_', ' ')}")


def telemetry_source(survey: "Survey") -> Iterator[Advice]:
    """Without telemetry, hot samples and foreign processes go unnoticed."""
    if not survey.telemetry.available:
        yield warn(
            "telemetry",
            f"{survey.telemetry.reason}; until then throttled samples and other processes go unnoticed",
        )


def clocks(survey: "Survey") -> Iterator[Advice]:
    """A slowdown now would be one in the samples; a low clock of an idle GPU would not."""
    reading, board = survey.reading, survey.board
    words = set(reading.slowdown)
    if bad := words & INVALIDATING:
        yield problem(
            "clocks",
            f"the device is slowed down right now ({', '.join(sorted(bad))}): samples would be discarded; let it cool, "
            "and look at its fans, air flow and power supply",
        )
    if "power_cap" in words:
        yield warn(
            "clocks",
            "the device is at its power limit before anything is measured: something else is working on it",
        )
    if "cpu_quota" in words:
        yield warn("clocks", "the container's CPU quota ran out while it was watched: give it more cores")
    if "application_clocks" in words:
        yield ok(
            "clocks",
            "the device's clocks are locked: timings repeat well, but compare only runs with the same clocks",
        )
    if survey.device.is_gpu and not bad and reading.clock_hz and board.max_clock_hz:
        idle = reading.clock_hz < board.max_clock_hz / 2
        yield ok(
            "clocks",
            f"clock is {reading.clock_hz / 1e6:.0f} of {board.max_clock_hz / 1e6:.0f} MHz"
            + (": idle, it rises under load" if idle else ""),
        )


def temperature(survey: "Survey") -> Iterator[Advice]:
    """Close to its limit, a device slows down as soon as it works."""
    now, limit = survey.reading.temperature_c, survey.board.slowdown_temperature_c
    if now is None or now < (limit - MARGIN_C if limit else HOT_C):
        return
    where = f", and slows down at {limit:.0f}" if limit else ""
    yield warn(
        "temperature",
        f"the device has {now:.0f} °C before any work{where}: it will slow down under load; let it cool first",
    )


def power_limit(survey: "Survey") -> Iterator[Advice]:
    """A lowered limit lowers the clock under large GEMMs."""
    limit, usual = survey.board.power_limit_w, survey.board.default_power_limit_w
    if limit and usual and limit < 0.99 * usual:
        yield warn(
            "power",
            f"the power limit is {limit:.0f} W instead of {usual:.0f} W: large GEMMs clock lower than on other boards "
            "of this name; say so beside the numbers, or have it raised",
        )


def neighbours(survey: "Survey") -> Iterator[Advice]:
    """Other processes on a GPU take turns with ours and share its bandwidth."""
    count = survey.reading.other_processes
    if not count:
        return
    shown = survey.others if len(survey.others) == count else ()
    held = sum(one.memory_bytes or 0 for one in shown)
    who = ", ".join(f"{one.pid} {one.name}".strip() for one in shown[:3]) + (", ..." if len(shown) > 3 else "")
    detail = (f" ({who})" if who else "") + (f", holding {held / (1 << 30):.1f} GiB" if held else "")
    yield shared_device(count, detail, survey.siblings[0] if survey.siblings else "")


def shared_device(count: int, detail: str = "", sibling: str = "") -> Advice:
    """Warn of `count` other processes; `sibling` is a device to go to."""
    return warn(
        "processes",
        ("another process is" if count == 1 else f"{count} other processes are")
        + f" on the device{detail}: its work disturbs timings; stop it"
        + (f", or choose --device {sibling}" if sibling else ""),
    )


def partitions(survey: "Survey") -> Iterator[Advice]:
    """A slice of a chip does not reach the chip's peaks."""
    if survey.board.mig:
        text = "MIG is on: this is a slice of the GPU, and the table's peaks and caches are those of the whole"
        yield warn("partition", f"{text}; switch MIG off, or set llc_bytes and read rooflines with care")
    partition = survey.board.partition or ""
    if partition and not partition.startswith("SPX"):
        yield warn(
            "partition",
            f"the package is split ({partition}): this is one part, and the table's peaks are those of the whole",
        )

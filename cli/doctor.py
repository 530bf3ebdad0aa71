"""`rooflens doctor`: what this machine offers, and what to fix before its numbers are trusted."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import click

from ..reports.formatting import bytes_size
from ..reports.listing import listing
from ..reports.model import Section
from ..shapes.gpu_architectures import architecture
from ..shapes.verdict import reason_groups
from .shared.options import parameters
from .shared.output import print_json
from .shared.tables import show

if TYPE_CHECKING:
    from ..harness.machine.advice_values import Advice
    from ..harness.machine.survey import Offer, ProviderOffer, Survey
    from ..shapes.device import Device

Row = tuple[str, str]

LABEL_WIDTH = 20
"""Characters of the left column, the same in every section."""

NAMED = 3
"""Up to so many providers are named with the reason that they share; more are counted."""


@click.command("doctor", params=parameters("doctor"))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(device: str | None, as_json: bool) -> int:
    """Report what this machine offers for measuring, and what to fix.

    Checks the device and its clocks, who else uses it, caches, host, software, timers and providers, and ends with
    advice: "problem" makes numbers wrong or impossible, "warn" may shift them, "ok" is good to know. Exits with 1 if
    nothing can be measured at all.

    \b
    Examples:
      rooflens doctor
      rooflens doctor --device cuda:1
      rooflens doctor --json
    """
    from ..api.run_folders import RUNS
    from ..harness.machine.advice import advice, can_measure
    from ..harness.machine.survey import survey

    found = survey(device or "auto", _providers, RUNS)
    findings = advice(found)
    if as_json:
        print_json({"survey": found, "advice": findings})
    else:
        show(section(found, findings))
    return 0 if can_measure(found) else 1


def _providers(device: "Device") -> Iterator["ProviderOffer"]:
    from ..harness.machine.survey import ProviderOffer
    from .listing.availability import rows_on

    for row in rows_on(device):
        yield ProviderOffer(row.name, row.supported, row.reason, row.family)


def section(survey: "Survey", findings: "list[Advice]") -> Section:
    """List what was found, a part per subject, then the advice."""
    parts = {
        "device": _device(survey),
        "now": _now(survey),
        "caches": _caches(survey),
        "host": _host(survey),
        "software": _software(survey),
        "timers": _offers(survey.timers),
        "providers": _by_family(survey.providers),
        "room": _room(survey),
    }
    tables = {
        name: listing((name.ljust(LABEL_WIDTH), ""), [row for row in rows if row[1]], long=("",))
        for name, rows in parts.items()
    }
    tables["advice"] = listing(("advice", ""), [(one.level, one.text) for one in findings], long=("",))
    return Section("doctor", "Doctor", (), tuple(Section(name, name, (table,)) for name, table in tables.items()))


def _device(survey: "Survey") -> Iterator[Row]:
    device, board = survey.device, survey.board
    yield "name", f"{device.torch_name}: {device.name}"
    yield "architecture", f"{device.arch}, {device.compute_units} {_units(survey)}"
    yield "memory", _size(device.memory_bytes)
    spec = device.spec
    if device.is_gpu:
        yield "device table", f"{spec.name} ({spec.status.replace('_', ' ')})" if spec else "no row for this device"
    yield "driver", board.driver or ""
    switches = {"ECC": board.ecc, "MIG": board.mig, "persistence mode": board.persistence}
    yield (
        "modes",
        ", ".join(f"{name} {'on' if value else 'off'}" for name, value in switches.items() if value is not None),
    )
    yield "partition", board.partition or ""
    yield "other GPUs", " ".join(survey.siblings)


def _units(survey: "Survey") -> str:
    device = survey.device
    if not device.is_gpu:
        return "threads"
    return ("WGPs" if architecture(device.arch).family == "rdna" else "CUs") if device.is_rocm else "SMs"


def _now(survey: "Survey") -> Iterator[Row]:
    reading, board = survey.reading, survey.board
    source = survey.telemetry
    yield "telemetry", source.name if source.available else f"unknown: {source.reason}"
    yield "clock", _of(reading.clock_hz, board.max_clock_hz, 1e6, "MHz")
    yield "memory clock", _of(reading.memory_clock_hz, board.max_memory_clock_hz, 1e6, "MHz")
    yield "temperature", _of(reading.temperature_c, None, 1, "°C")
    yield "power", _of(reading.power_w, board.power_limit_w, 1, "W")
    yield "slowed down", " ".join(reading.slowdown)
    if reading.other_processes is not None:
        yield "other processes", str(reading.other_processes)
    for one in survey.others:
        held = f", {_size(one.memory_bytes)}" if one.memory_bytes else ""
        yield f"process {one.pid}", (one.name or "name unknown") + held
    if reading.busy_elsewhere is not None:
        yield "used by others", f"{100 * reading.busy_elsewhere:.0f} % of the cores"


def _caches(survey: "Survey") -> Iterator[Row]:
    caches = survey.caches
    if caches.l2_bytes:
        yield "L2", f"{_size(caches.l2_bytes)} ({caches.l2_source})"
    yield "last level", f"{_size(caches.llc_bytes)} ({caches.llc_source}); cold evicts this much"
    if caches.torch_l2_bytes is not None:
        yield "torch's L2", _size(caches.torch_l2_bytes)


def _host(survey: "Survey") -> Iterator[Row]:
    host = survey.host
    yield "cores", f"{host.usable_cores} of {host.cores}" if host.usable_cores < host.cores else str(host.cores)
    yield "quota", "" if host.quota_cores is None else f"{host.quota_cores:g} cores"
    yield "load (1 min)", "" if host.load_1min is None else f"{host.load_1min:.2f}"
    yield "governor", host.governor or "unknown"
    yield "boost", "unknown" if host.boost is None else "on" if host.boost else "off"
    yield "virtual machine", "unknown" if host.is_virtual is None else "yes" if host.is_virtual else "no"


def _software(survey: "Survey") -> Iterator[Row]:
    software = survey.software
    yield "python", software.python
    yield "rooflens", software.rooflens
    yield "torch", f"{software.torch} ({software.torch_build})"
    owners = ", ".join(f"{one.name} {one.version}" for one in software.triton_owners)
    yield "triton", f"{software.triton or 'missing'}" + (f" (from {owners})" if owners else "")
    yield "bitsandbytes", software.bitsandbytes or "missing"
    yield "ray", software.ray or "missing: needed for a fleet only"
    yield "C++ compiler", software.compiler or "missing"
    yield from software.variables.items()


def _offers(offers: "Iterable[Offer]") -> Iterator[Row]:
    """Those that are available in one row, the others by their reason."""
    listed = list(offers)
    yield "yes", " ".join(one.name for one in listed if one.available)
    for reason, names, _ in reason_groups((one.name, one.reason) for one in listed if not one.available):
        yield "no", f"{' '.join(names)}: {reason}"


def _by_family(providers: "Iterable[ProviderOffer]") -> Iterator[Row]:
    """Those that run here by family, then each reason once; the command in the last row names all."""
    from ..kernels.registry import ALL

    listed = list(providers)
    for family in dict.fromkeys(one.family for one in listed):
        members = [one for one in listed if one.family == family]
        here = [one.name for one in members if one.available]
        count = f"{len(here)} of {len(members)}:" if here else f"none of {len(members)}"
        yield family or "any family", " ".join([count, *here])
    for reason, names, _ in reason_groups((one.name, one.reason) for one in listed if not one.available):
        yield "no", f"{' '.join(names) if len(names) <= NAMED else f'{len(names)} providers'}: {reason}"
    yield "all", ALL


def _room(survey: "Survey") -> Iterator[Row]:
    yield "free memory", _size(survey.free_bytes)
    yield "free disk", f"{_size(survey.disk_free_bytes)} for {survey.disk}"


def _of(value: float | None, limit: float | None, unit: float, name: str) -> str:
    """Write a figure and its limit; without either, nothing."""
    if value is None:
        return f"unknown, at most {limit / unit:.0f} {name}" if limit else ""
    return f"{value / unit:.0f}" + (f" of {limit / unit:.0f}" if limit else "") + f" {name}"


def _size(size: int | None) -> str:
    return "unknown" if size is None else bytes_size(size)

"""Which providers can run on this machine, and why the others cannot.

Where there is no GPU, the registry answers for what comes with rooflens. All else is imported, and torch with it.
"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ...api.progress import Progress
from ...harness.machine.device import find_device
from ...harness.sweep.in_child import declared
from ...kernels import registry
from ...kernels.provider import AnyProvider, support
from ...shapes.device import Device
from ...shapes.protocol import Protocol
from ...shapes.schemes.probes import probes


@dataclass(frozen=True, slots=True)
class Availability:
    """One provider on one device; `reason` says why not, in one line."""

    name: str
    family: str
    role: str
    supported: bool
    reason: str


def provider_rows(files: Iterable[Path] = ()) -> tuple[str, list[Availability]]:
    """Return the name of the best device here and the availability on it of every provider, those of `files` first.

    Raises UsageError for a file that does not load.
    """
    files = tuple(files)
    if files:
        with Progress(sys.stderr) as progress:  # what an import does to a process, it does elsewhere first
            declared(files, Protocol().build_timeout_s, progress.doing)
    device = find_device("auto")
    own = registry.load((), files).values()
    return f"{device.name} ({device.arch})", [*(_ask(one.name, one, device) for one in own), *rows_on(device)]


def rows_on(device: Device) -> list[Availability]:
    """Ask every registered provider whether it can run on `device`."""
    return [_row(name, device) for name in registry.names()]


def _row(name: str, device: Device) -> Availability:
    """Look a provider up, or import it and ask. One that fails is a row with its reason, not the end of the list."""
    shipped = registry.BUILTIN.get(name)
    if shipped and not device.is_gpu and (reason := shipped.on_cpu(device)) is not None:
        return Availability(name, shipped.family, shipped.role, not reason, reason)
    try:
        provider = registry.load([name])[name]
    except Exception as error:
        return Availability(name, "", "", False, f"{type(error).__name__}: {error}")
    return _ask(name, provider, device)


def _ask(name: str, provider: AnyProvider, device: Device) -> Availability:
    """Put the problems of its family to a provider: it can run when it can compute one of them."""
    try:
        role, family = provider.role.value, provider.family
        answers = [support(provider, problem, scheme, device) for scheme, problem in probes(family)]
    except Exception as error:
        return Availability(name, "", "", False, f"{type(error).__name__}: {error}")
    able = any(answer.ok for answer in answers)
    # What is no operation of its own says the least.
    reasons = sorted((answer.reason for answer in answers), key=lambda reason: "; this is a" in reason)
    return Availability(name, family, role, able, "" if able else reasons[0])

"""What a worker reports before its first task, and whether its run can compare anything on this device."""

from collections.abc import Iterable, Mapping

import torch

from ...kernels.provider import AnyProvider, Config, support
from ...kernels.source_hash import source_hash
from ...shapes.device import Device
from ...shapes.problem import Problem
from ...shapes.run_folder.manifest import StoredProvider
from ...shapes.scheme import Scheme
from ..machine.environment import environment
from ..plan.plan import Cell
from .bench import Bench
from .code_origin import provider_file
from .messages import Ready, Setup

OURS = "rooflens."
"""Modules whose providers are asked. Others may hang or end the process: they are asked when they are measured."""


def without_rival(
    providers: Mapping[str, AnyProvider],
    contests: Iterable[tuple[Problem, Scheme, tuple[str, ...]]],
    device: Device,
) -> str:
    """Say that no problem is computed by two providers on `device`; "" where one is, or where none should be.

    `contests` name for each problem and its storage the providers that are to be compared on it.
    """
    able: dict[str, None] = {}
    declined: dict[str, str] = {}
    for problem, scheme, names in contests:
        if len(names) < 2:
            continue
        reasons = {name: _declined(providers[name], problem, scheme, device) for name in names}
        takers = [name for name, reason in reasons.items() if not reason]
        if len(takers) > 1:
            return ""
        able |= dict.fromkeys(takers)
        declined |= {name: reason for name, reason in reasons.items() if reason}
    others = [name for name in declined if name not in able]
    if not others:
        return ""
    why = "; ".join(dict.fromkeys(declined[name] for name in others[:1]))
    who = f"only {', '.join(able)} can run" if able else "no provider can run"
    return f"nothing to compare on {device.name}: {who}, not {', '.join(others)} ({why})"


def _declined(provider: AnyProvider, problem: Problem, scheme: Scheme, device: Device) -> str:
    """Return why `provider` cannot, "" where it can or is not asked."""
    if not type(provider).__module__.startswith(OURS):
        return ""
    try:
        answer = support(provider, problem, scheme, device)
    except Exception:  # it fails again where it is measured, and becomes a verdict there
        return ""
    return "" if answer.ok else answer.reason


def _default(cell: Cell, provider: AnyProvider, bench: Bench) -> Config | None:
    can = support(provider, cell.problem, cell.scheme, bench.device).ok
    candidates = bench.candidates(provider, cell) if can else ()
    return candidates[0] if candidates else None


def ready(setup: Setup, device: Device, providers: Mapping[str, AnyProvider], bench: Bench) -> Ready:
    """Describe the device, the software, the providers and how they will be timed."""
    ours = bool(setup.origin and setup.origin.ours)
    return Ready(
        device=device,
        environment=environment(device),
        providers={
            name: StoredProvider(
                role=provider.role.value,
                source=source_hash(provider),
                file=provider_file(type(provider).__module__, ours),
            )
            for name, provider in providers.items()
        },
        timer=bench.timer,
        cold_by=bench.cold_by,
        tuning=setup.protocol.tuning,
        telemetry=bench.telemetry.name,
        threads=torch.get_num_threads(),
        remark=without_rival(providers, setup.contests, device),
        defaults=tuple(_default(cell, providers[cell.provider], bench) for cell in setup.asked),
    )

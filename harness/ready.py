"""What a worker says of itself before its first task."""

from collections.abc import Mapping

import torch

from ..kernels.provider import AnyProvider
from ..kernels.source_hash import source_hash
from ..shapes.device import Device
from .bench import Bench
from .environment import environment
from .messages import ProviderInfo, Ready, Setup
from .origin import told
from .rivals import without_rival


def ready(setup: Setup, device: Device, providers: Mapping[str, AnyProvider], bench: Bench) -> Ready:
    """Describe the device, the software, the providers and how they will be timed."""
    ours = bool(setup.origin and setup.origin.ours)
    return Ready(
        device=device,
        environment=environment(device),
        providers={
            name: ProviderInfo(provider.role.value, source_hash(provider), told(type(provider).__module__, ours))
            for name, provider in providers.items()
        },
        timer=bench.timer,
        cold_by=bench.cold_by,
        tuning=setup.protocol.tuning,
        telemetry=bench.telemetry.name,
        threads=torch.get_num_threads(),
        remark=without_rival(providers, setup.contests, device),
    )

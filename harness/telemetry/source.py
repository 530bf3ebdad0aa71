"""Telemetry: what a device says of itself while it is measured, through NVML, amdsmi or Linux.

`telemetry(device)` picks the source and never fails: without a library, a driver or a permission the source is
`Unknown`, and its `why` says what to install. `read()` is called once per batch of samples, so it is cheap; a question
that the driver does not answer becomes None once and for all.
"""

import importlib
from typing import Any
from typing import Protocol as Interface

from ...shapes.device import Device
from ...shapes.errors import RooflensError
from .amdsmi import AmdSmi, import_amdsmi
from .host import HostTelemetry
from .nvml import Nvml
from .reading import INVALIDATING, SLOWDOWNS, Board, DeviceProcess, Reading

__all__ = ["INVALIDATING", "SLOWDOWNS", "Board", "DeviceProcess", "Reading", "Telemetry", "Unknown", "telemetry"]


class Telemetry(Interface):
    """One source of readings of one device."""

    name: str
    """nvml, amdsmi, host or unknown."""
    why: str
    """Why the source is unknown and what to do about it; empty when it is known."""

    def read(self) -> Reading:
        """Return the state of now; slowdowns may cover the time since the reading before."""

    def board(self) -> Board:
        """Return what does not change during a run. Not cheap: ask once."""

    def processes(self) -> tuple[DeviceProcess, ...] | None:
        """List the compute processes on the device, this one included; None when unknown. Not cheap."""


class Unknown:
    """No source: every figure is None."""

    name = "unknown"

    def __init__(self, why: str) -> None:
        self.why = why

    def read(self) -> Reading:
        """Return a reading without figures."""
        return Reading()

    def board(self) -> Board:
        """Return a board without figures."""
        return Board()

    def processes(self) -> tuple[DeviceProcess, ...] | None:
        """Say that the processes are unknown."""
        return None


def telemetry(device: Device) -> Telemetry:
    """Return the source of readings for `device`: NVML for NVIDIA, amdsmi for AMD, Linux for the CPU; never raises."""
    try:
        if not device.is_gpu:
            return HostTelemetry()
        if device.is_rocm:
            return AmdSmi(device, import_amdsmi(), lambda: pci_address(device), lambda: holds_context(device))
        return Nvml(device, _import_nvml(), lambda: pci_address(device), lambda: holds_context(device))
    except RooflensError as error:
        return Unknown(str(error))
    except Exception as error:  # a measurement is worth more than its telemetry
        return Unknown(f"{type(error).__name__}: {' '.join(str(error).split())}")


def _import_nvml() -> Any:
    try:
        return importlib.import_module("pynvml")
    except ImportError as error:
        raise RooflensError("nvidia-ml-py is missing: pip install rooflens[nvidia]") from error


def pci_address(device: Device) -> str | None:
    """PCI address of a GPU as "0000:c1:00.0"; None when this torch does not tell."""
    import torch

    properties = torch.cuda.get_device_properties(device.index)
    try:
        domain, bus, slot = (getattr(properties, f"pci_{part}_id") for part in ("domain", "bus", "device"))
    except AttributeError:  # older versions of torch
        return None
    return f"{domain:04x}:{bus:02x}:{slot:02x}.0"


def holds_context(device: Device) -> bool:
    """Tell whether this process has a context on the GPU, and therefore an entry in the driver's process list."""
    import torch

    if not torch.cuda.is_initialized():
        return False
    ask = getattr(torch._C, "_cuda_hasPrimaryContext", None)
    return bool(ask(device.index)) if ask else True

"""Telemetry of NVIDIA GPUs through NVML (the PyPI package nvidia-ml-py, imported as `pynvml`).

One reading takes some microseconds on an idle H200 and 8 to 30 us per query on a busy one; the process list, the
dearest, is asked for at most once a second.
"""

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

from ...shapes.device import Device
from ...shapes.errors import RooflensError
from .reading import Board, DeviceProcess, OtherProcesses, Query, Reading, in_order, query, scaled

REASONS = {
    0x002: "application_clocks",
    0x004: "power_cap",
    0x008: "hardware",
    0x010: "sync_boost",
    0x020: "thermal",
    0x040: "thermal",
    0x080: "hardware",
    0x100: "display_clocks",
    0x200: "board_limit",
    0x400: "reliability",
}
"""Bits of nvmlDeviceGetCurrentClocksEventReasons (nvml.h, nvmlClocksEventReason*); 0x1 is an idle GPU."""

REFUSALS = frozenset(
    f"NVMLError_{name}" for name in ("NotSupported", "FunctionNotFound", "NoPermission", "InvalidArgument")
)
"""Errors that the same question will meet again."""

SETUP_ERRORS = {
    "NVMLError_LibraryNotFound": "libnvidia-ml.so is not installed: it comes with the NVIDIA driver, and into a "
    "container with the NVIDIA runtime and NVIDIA_DRIVER_CAPABILITIES=compute,utility",
    "NVMLError_DriverNotLoaded": "the NVIDIA driver is not loaded",
    "NVMLError_NoPermission": "NVML may not be used by this user",
}
"""What stands behind the errors that nvmlInit is known for."""

SM_CLOCK, MEMORY_CLOCK = 1, 2
GPU_SENSOR, SLOWDOWN_THRESHOLD = 0, 1


class Nvml:
    """One NVIDIA GPU. Raises RooflensError when NVML cannot be used or does not know the GPU.

    `nvml` is the module `pynvml`; `pci_address` and `holds_context` are asked for when they are needed.
    """

    name = "nvml"
    why = ""

    def __init__(
        self,
        device: Device,
        nvml: Any,
        pci_address: Callable[[], str | None],
        holds_context: Callable[[], bool],
    ) -> None:
        self._nvml = nvml
        try:
            nvml.nvmlInit()
        except Exception as error:
            raise RooflensError(SETUP_ERRORS.get(type(error).__name__, f"NVML: {error}")) from error
        self._handle = _find(nvml, device.uuid, pci_address)
        self._clock = self._query("nvmlDeviceGetClockInfo", SM_CLOCK)
        self._memory_clock = self._query("nvmlDeviceGetClockInfo", MEMORY_CLOCK)
        self._temperature = self._query("nvmlDeviceGetTemperature", GPU_SENSOR)
        self._power = self._query("nvmlDeviceGetPowerUsage")
        self._reasons = self._query("nvmlDeviceGetCurrentClocksEventReasons")
        if self._reasons() is None:  # the name before driver 535
            self._reasons = self._query("nvmlDeviceGetCurrentClocksThrottleReasons")
        self._running = self._query("nvmlDeviceGetComputeRunningProcesses")
        self._others = OtherProcesses(self._running, attrgetter("pid"), holds_context)

    def read(self) -> Reading:
        """Ask for the state of now."""
        reasons = self._reasons() or 0
        return Reading(
            clock_hz=scaled(self._clock(), 1e6),
            memory_clock_hz=scaled(self._memory_clock(), 1e6),
            temperature_c=scaled(self._temperature(), 1.0),
            power_w=scaled(self._power(), 1e-3),
            slowdown=in_order(word for bit, word in REASONS.items() if reasons & bit),
            other_processes=self._others.count(),
        )

    def board(self) -> Board:
        """Ask for what does not change during a run."""
        driver = self._query_system("nvmlSystemGetDriverVersion")()
        ecc, mig = (self._query(f"nvmlDeviceGet{name}Mode")() for name in ("Ecc", "Mig"))
        persistence = self._query("nvmlDeviceGetPersistenceMode")()
        return Board(
            driver=_text(driver) or None,
            max_clock_hz=scaled(self._query("nvmlDeviceGetMaxClockInfo", SM_CLOCK)(), 1e6),
            max_memory_clock_hz=scaled(self._query("nvmlDeviceGetMaxClockInfo", MEMORY_CLOCK)(), 1e6),
            power_limit_w=scaled(self._query("nvmlDeviceGetEnforcedPowerLimit")(), 1e-3),
            default_power_limit_w=scaled(self._query("nvmlDeviceGetPowerManagementDefaultLimit")(), 1e-3),
            slowdown_temperature_c=scaled(self._query("nvmlDeviceGetTemperatureThreshold", SLOWDOWN_THRESHOLD)(), 1.0),
            ecc=None if ecc is None else bool(ecc[0]),
            mig=None if mig is None else bool(mig[0]),
            persistence=None if persistence is None else bool(persistence),
        )

    def processes(self) -> tuple[DeviceProcess, ...] | None:
        """List the compute processes on the GPU, this one included once it has a context; None when unknown."""
        running = self._running()
        if running is None:
            return None
        return tuple(DeviceProcess(one.pid, self._name_of(one.pid), one.usedGpuMemory) for one in running)

    def _name_of(self, pid: int) -> str:
        # By the driver, not by /proc: the pid may be one of the host, and another process here.
        return _text(query(lambda: self._nvml.nvmlSystemGetProcessName(pid), _is_refusal)())

    def _query(self, function: str, *arguments: int) -> Query:
        return query(lambda: getattr(self._nvml, function)(self._handle, *arguments), _is_refusal)

    def _query_system(self, function: str) -> Query:
        return query(lambda: getattr(self._nvml, function)(), _is_refusal)


def _find(nvml: Any, uuid: str, pci_address: Callable[[], str | None]) -> Any:
    """Find the GPU by what it is, never by torch's index: CUDA_VISIBLE_DEVICES renumbers torch's GPUs, not NVML's."""
    bare = uuid.removeprefix("GPU-").removeprefix("MIG-")  # torch leaves the prefix out
    attempts = [partial(nvml.nvmlDeviceGetHandleByUUID, f"{kind}-{bare}") for kind in ("GPU", "MIG") if bare]
    attempts.append(partial(_by_address, nvml, pci_address))
    for attempt in attempts:
        handle = query(attempt, _is_refusal)()
        if handle is not None:
            return handle
    if query(nvml.nvmlDeviceGetCount, _is_refusal)() == 1:
        return nvml.nvmlDeviceGetHandleByIndex(0)
    raise RooflensError("NVML knows no GPU of this UUID or PCI address")


def _by_address(nvml: Any, pci_address: Callable[[], str | None]) -> Any:
    address = pci_address()
    return nvml.nvmlDeviceGetHandleByPciBusId(address) if address else None


def _is_refusal(error: Exception) -> bool:
    """True where asking again is of no use. AttributeError: this pynvml is too old for the function."""
    return isinstance(error, AttributeError) or type(error).__name__ in REFUSALS


def _text(value: object) -> str:
    """Old versions of pynvml return bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value or "")

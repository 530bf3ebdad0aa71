"""Telemetry of AMD GPUs through amdsmi, which comes with ROCm.

Written against the documented Python interface of amdsmi 6.2 to 7.2 and tested with a stand-in that has its
signatures: it was NOT run on an AMD GPU.

Everything comes from one call, `amdsmi_get_gpu_metrics_info`, where it answers. Slowdowns follow from its counters of
the time spent under each limit (MI300 and newer): a counter that grew since the reading before names the reason. That
covers the whole interval, and `amdsmi_get_violation_status`, the other way to learn it, sleeps 100 ms. Older chips only
say that they are slowed down, not why.
"""

import contextlib
import importlib
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import Any

from ...shapes.device import Device
from ...shapes.errors import RooflensError
from .reading import Board, DeviceProcess, OtherProcesses, Query, Reading, in_order, query, scaled
from .silence import silenced

COUNTERS = {
    "prochot_residency_acc": "hardware",
    "ppt_residency_acc": "power_cap",
    "socket_thm_residency_acc": "thermal",
    "vr_thm_residency_acc": "thermal",
    "hbm_thm_residency_acc": "thermal",
}
"""Counters of the metrics table that grow while a limit holds the clock down, and our word for it."""

REFUSALS = frozenset({1, 2, 3, 5, 10, 19})
"""Status codes that will come again (amdsmi.h): INVAL, NOT_SUPPORTED, NOT_YET_IMPLEMENTED, FAIL_LOAD_SYMBOL, NO_PERM,
DIRECTORY_NOT_FOUND."""

NOT_USABLE = "amdsmi cannot be used ({}): it needs libamd_smi.so, which is ROCm's package amd-smi-lib"


class AmdSmi:
    """One AMD GPU. Raises RooflensError when amdsmi cannot be used or does not know the GPU.

    `smi` is the module `amdsmi`; `pci_address` and `holds_context` are asked for when they are needed.
    """

    name = "amdsmi"
    why = ""

    def __init__(
        self,
        device: Device,
        smi: Any,
        pci_address: Callable[[], str | None],
        holds_context: Callable[[], bool],
    ) -> None:
        self._smi = smi
        try:
            smi.amdsmi_init()
            self._handle = _find(smi, device.uuid, pci_address)
        except RooflensError:
            raise
        except Exception as error:
            raise RooflensError(NOT_USABLE.format(_one_line(error))) from error
        self._metrics = self._query("amdsmi_get_gpu_metrics_info")
        self._engine, self._memory = (
            self._query("amdsmi_get_clock_info", partial(_member, smi, "AmdSmiClkType", kind))
            for kind in ("GFX", "MEM")
        )
        self._temperature = self._sensor("CURRENT")
        self._power = self._query("amdsmi_get_power_info")
        self._running = self._query("amdsmi_get_gpu_process_list")
        self._others = OtherProcesses(self._running, itemgetter("pid"), holds_context)
        self._counters = _counters(self._metrics() or {})

    def read(self) -> Reading:
        """Ask for the state of now; the slowdowns are those since the reading before."""
        metrics = self._metrics() or {}
        return Reading(
            clock_hz=scaled(_engine_mhz(metrics) or self._clock_mhz(self._engine, "clk", "cur_clk"), 1e6),
            memory_clock_hz=scaled(
                _number(metrics.get("current_uclk")) or self._clock_mhz(self._memory, "clk", "cur_clk"), 1e6
            ),
            temperature_c=_first(metrics, "temperature_hotspot", "temperature_edge") or _number(self._temperature()),
            power_w=_first(metrics, "current_socket_power", "average_socket_power")
            or _first(self._power() or {}, "current_socket_power", "average_socket_power"),
            slowdown=self._slowdown(metrics),
            other_processes=self._others.count(),
        )

    def board(self) -> Board:
        """Ask for what does not change during a run."""
        driver = (self._query("amdsmi_get_gpu_driver_info")() or {}).get("driver_version")
        cap = self._query("amdsmi_get_power_cap_info")() or {}
        ecc = self._query("amdsmi_get_gpu_ecc_enabled")()
        partitions = (self._query(f"amdsmi_get_gpu_{kind}_partition")() for kind in ("compute", "memory"))
        return Board(
            driver=str(driver) if driver not in (None, "N/A") else None,
            max_clock_hz=scaled(self._clock_mhz(self._engine, "max_clk"), 1e6),
            max_memory_clock_hz=scaled(self._clock_mhz(self._memory, "max_clk"), 1e6),
            power_limit_w=_watts(cap.get("power_cap")),
            default_power_limit_w=_watts(cap.get("default_power_cap")),
            slowdown_temperature_c=_number(self._sensor("CRITICAL")()),
            ecc=None if ecc is None else bool(ecc),
            partition=", ".join(str(part) for part in partitions if part not in (None, "", "N/A")) or None,
        )

    def processes(self) -> tuple[DeviceProcess, ...] | None:
        """List the compute processes on the GPU, this one included once it has a context; None when unknown."""
        running = self._running()
        if running is None:
            return None
        found = []
        for one in running:
            name, memory = str(one.get("name") or ""), _number(one.get("mem"))
            found.append(
                DeviceProcess(one["pid"], "" if name == "N/A" else name, None if memory is None else int(memory))
            )
        return tuple(found)

    def _slowdown(self, metrics: dict[str, Any]) -> tuple[str, ...]:
        before, now = self._counters, _counters(metrics)
        self._counters = before | now
        if not now:
            return ("unspecified",) if metrics.get("throttle_status") is True else ()
        return in_order(COUNTERS[name] for name, value in now.items() if value > before.get(name, value))

    def _clock_mhz(self, query: Query, *keys: str) -> float | None:
        return _first(query() or {}, *keys)

    def _sensor(self, metric: str) -> Query:
        kinds = (("AmdSmiTemperatureType", "HOTSPOT"), ("AmdSmiTemperatureMetric", metric))
        return self._query("amdsmi_get_temp_metric", *(partial(_member, self._smi, *kind) for kind in kinds))

    def _query(self, function: str, *arguments: Callable[[], Any]) -> Query:
        return query(
            lambda: getattr(self._smi, function)(self._handle, *(argument() for argument in arguments)), _is_refusal
        )


def import_amdsmi() -> Any:
    """Import amdsmi; without ROCm it prints to stdout and raises KeyError, which becomes a RooflensError."""
    try:
        with silenced():
            return importlib.import_module("amdsmi")
    except ModuleNotFoundError as error:
        raise RooflensError("amdsmi is missing: pip install rooflens[amd]") from error
    except Exception as error:
        raise RooflensError(NOT_USABLE.format(_one_line(error))) from error


def _find(smi: Any, uuid: str, pci_address: Callable[[], str | None]) -> Any:
    """Find the GPU by what it is, never by torch's index: HIP_VISIBLE_DEVICES renumbers torch's GPUs, not amdsmi's."""
    handles = list(smi.amdsmi_get_processor_handles())
    address, serials = query(pci_address, _is_refusal)(), _serials(uuid)
    for handle in handles:
        bdf = query(partial(smi.amdsmi_get_gpu_device_bdf, handle), _is_refusal)()
        if address and bdf and str(bdf).lower() == address:
            return handle
    for handle in handles:
        info = query(partial(smi.amdsmi_get_gpu_asic_info, handle), _is_refusal)() or {}
        serial = str(info.get("asic_serial") or "").lower().removeprefix("0x").lstrip("0")
        if serial and serial in serials:
            return handle
    if len(handles) == 1:
        return handles[0]
    raise RooflensError("amdsmi knows no GPU of this PCI address or serial number")


def _member(smi: Any, enumeration: str, name: str) -> Any:
    return getattr(getattr(smi, enumeration), name)


def _serials(uuid: str) -> set[str]:
    """Serial numbers that torch's UUID may stand for: HIP puts the 16 hex digits of the serial there as ASCII."""
    digits = uuid.lower().removeprefix("gpu-").replace("-", "")
    found = {digits}
    with contextlib.suppress(ValueError):
        found.add(bytes.fromhex(digits).decode("ascii").lower())
    return {serial.lstrip("0") for serial in found} - {""}


def _engine_mhz(metrics: dict[str, Any]) -> float | None:
    """Mean clock over the dies that have one (MI300 reports each), else the only one there is."""
    dies = [clock for clock in map(_number, metrics.get("current_gfxclks") or ()) if clock]
    if dies:
        return sum(dies) / len(dies)
    return _first(metrics, "current_gfxclk", "average_gfxclk_frequency")


def _counters(metrics: dict[str, Any]) -> dict[str, float]:
    return {name: value for name in COUNTERS if (value := _number(metrics.get(name))) is not None}


def _first(values: dict[str, Any], *keys: str) -> float | None:
    return next((number for key in keys if (number := _number(values.get(key)))), None)


def _number(value: object) -> float | None:
    """What amdsmi does not know is "N/A", or all ones in versions before 6.4."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value in (0xFFFF, 0xFFFFFFFF, (1 << 64) - 1):
        return None
    return float(value)


def _watts(cap: object) -> float | None:
    """Power caps come in microwatts on Linux and in watts from a hypervisor's host."""
    value = _number(cap)
    return value * 1e-6 if value and value > 1e5 else value or None


def _is_refusal(error: Exception) -> bool:
    """True where asking again is of no use; missing functions and keys mean another version of amdsmi."""
    return isinstance(error, AttributeError | KeyError | TypeError) or getattr(error, "err_code", None) in REFUSALS


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"

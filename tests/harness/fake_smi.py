"""Stand-ins for the modules `pynvml` and `amdsmi`: their signatures, scripted figures, and a log of the calls."""

from types import SimpleNamespace

GPU_0, GPU_1 = "GPU-6a1c0d7e-0000-4000-8000-00000000000a", "GPU-9b2f41aa-1111-4111-8111-11111111111b"


class NVMLError(Exception):
    pass


def _error(name):
    return type(f"NVMLError_{name}", (NVMLError,), {})


class FakeNvml:
    """Two GPUs (or one) with figures that tell them apart: GPU i has i added to each.

    `broken` maps a function to the exception that it raises; `pids` are the compute processes of each GPU.
    """

    NVMLError = NVMLError
    NVMLError_NotSupported = _error("NotSupported")
    NVMLError_NotFound = _error("NotFound")
    NVMLError_FunctionNotFound = _error("FunctionNotFound")
    NVMLError_LibraryNotFound = _error("LibraryNotFound")
    NVMLError_DriverNotLoaded = _error("DriverNotLoaded")
    NVMLError_Timeout = _error("Timeout")

    def __init__(self, uuids=(GPU_0, GPU_1), pids=((), ()), reasons=0, broken=None):
        addresses = [f"0000:{10 + index:02d}:00.0" for index in range(len(uuids))]
        self.broken = broken or {}
        self.calls = []
        self._answers = {
            "Init": lambda: None,
            "DeviceGetCount": lambda: len(uuids),
            "DeviceGetHandleByIndex": lambda index: index,
            "DeviceGetHandleByUUID": lambda uuid: self._place(uuids, uuid),
            "DeviceGetHandleByPciBusId": lambda address: self._place(addresses, address),
            "DeviceGetClockInfo": lambda handle, kind: {1: 1500, 2: 3201}[kind] + handle,  # MHz
            "DeviceGetMaxClockInfo": lambda handle, kind: {1: 1980, 2: 3201}[kind] + handle,
            "DeviceGetTemperature": lambda handle, sensor: {0: 41}[sensor] + handle,
            "DeviceGetTemperatureThreshold": lambda handle, slowdown: {1: 92}[slowdown] + handle,
            "DeviceGetPowerUsage": lambda handle: 254_000 + 1000 * handle,  # mW
            "DeviceGetEnforcedPowerLimit": lambda handle: 700_000,
            "DeviceGetPowerManagementDefaultLimit": lambda handle: 700_000,
            "DeviceGetCurrentClocksEventReasons": lambda handle: reasons,
            "DeviceGetCurrentClocksThrottleReasons": lambda handle: reasons,
            "DeviceGetComputeRunningProcesses": lambda handle: [
                SimpleNamespace(pid=pid, usedGpuMemory=5 << 30) for pid in pids[handle]
            ],
            "SystemGetProcessName": lambda pid: f"program{pid}".encode(),
            "SystemGetDriverVersion": lambda: b"580.159.03",
            "DeviceGetEccMode": lambda handle: [1, 1],
            "DeviceGetMigMode": lambda handle: [0, 0],
            "DeviceGetPersistenceMode": lambda handle: 1,
        }

    def __getattr__(self, name):
        """Log every call, and raise where the script says so."""
        if (answer := self._answers.get(name.removeprefix("nvml"))) is None:
            raise AttributeError(name)

        def call(*arguments):
            self.calls.append(name)
            if name in self.broken:
                raise self.broken[name]
            return answer(*arguments)

        return call

    def _place(self, known, name):
        if name not in known:
            raise self.NVMLError_NotFound
        return known.index(name)


class AmdSmiLibraryException(Exception):
    def __init__(self, code):
        super().__init__(f"Error code:\n\t{code} | AMDSMI_STATUS")
        self.err_code = code


NOT_SUPPORTED = AmdSmiLibraryException(2)

MI300X_METRICS = {
    "temperature_edge": "N/A",
    "temperature_hotspot": 52,
    "average_socket_power": "N/A",
    "current_socket_power": 310,
    "current_gfxclk": "N/A",
    "current_gfxclks": [2000, 2100, 1900, 2000, 2000, 2000, 2000, 2000],
    "current_uclk": 1300,
    "throttle_status": "N/A",
    "prochot_residency_acc": 5,
    "ppt_residency_acc": 100,
    "socket_thm_residency_acc": 7,
    "vr_thm_residency_acc": 0,
    "hbm_thm_residency_acc": "N/A",
}

NAVI_METRICS = {
    "temperature_edge": 44,
    "temperature_hotspot": 58,
    "average_socket_power": 120,
    "current_socket_power": "N/A",
    "current_gfxclk": 2400,
    "current_gfxclks": ["N/A"] * 8,
    "current_uclk": 1249,
    "throttle_status": False,
    "ppt_residency_acc": "N/A",
}


class FakeAmdSmi:
    """Two AMD GPUs; `metrics` is the table that both report, None when the call is not supported."""

    AmdSmiClkType = SimpleNamespace(GFX="gfx", MEM="mem")
    AmdSmiTemperatureType = SimpleNamespace(HOTSPOT="hotspot")
    AmdSmiTemperatureMetric = SimpleNamespace(CURRENT="current", CRITICAL="critical")

    def __init__(self, metrics=None, pids=((), ()), serials=("0xA1B2C3D4E5F60718", "0x0BADC0DE12345678")):
        self.metrics = metrics
        self.calls = []
        clocks = {"gfx": {"clk": 1700, "max_clk": 2100}, "mem": {"clk": 900, "max_clk": 1300}}
        temperatures = {("hotspot", "current"): 61, ("hotspot", "critical"): 100}
        self.answers = {
            "init": lambda: None,
            "get_processor_handles": lambda: list(range(len(serials))),
            "get_gpu_device_bdf": lambda handle: f"0000:C{handle}:00.0",
            "get_gpu_asic_info": lambda handle: {"asic_serial": serials[handle]},
            "get_gpu_metrics_info": self._metrics,
            "get_clock_info": lambda handle, kind: clocks[kind],
            "get_temp_metric": lambda handle, sensor, metric: temperatures[sensor, metric],
            "get_power_info": lambda handle: {
                "current_socket_power": "N/A",
                "average_socket_power": 95,
                "power_limit": 300,
            },
            "get_power_cap_info": lambda handle: {"power_cap": 600_000_000, "default_power_cap": 750_000_000},  # uW
            "get_gpu_driver_info": lambda handle: {"driver_name": "amdgpu", "driver_version": "6.12.12"},
            "get_gpu_ecc_enabled": lambda handle: 0x7,
            "get_gpu_compute_partition": lambda handle: "SPX",
            "get_gpu_memory_partition": lambda handle: "NPS1",
            "get_gpu_process_list": lambda handle: [
                {"name": "N/A", "pid": pid, "mem": 3 << 30} for pid in pids[handle]
            ],
        }

    def __getattr__(self, name):
        if (answer := self.answers.get(name.removeprefix("amdsmi_"))) is None:
            raise AttributeError(name)
        return answer

    def _metrics(self, handle):
        self.calls.append("metrics")
        if self.metrics is None:
            raise NOT_SUPPORTED
        return dict(self.metrics)

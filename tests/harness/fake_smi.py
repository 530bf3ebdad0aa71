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
        self.uuids, self.pids, self.reasons = list(uuids), list(pids), reasons
        self.broken = broken or {}
        self.calls = []

    def __getattribute__(self, name):
        """Log every call, and raise where the script says so."""
        found = object.__getattribute__(self, name)
        if not name.startswith("nvml"):
            return found

        def call(*arguments):
            self.calls.append(name)
            if name in self.broken:
                raise self.broken[name]
            return found(*arguments)

        return call

    def nvmlInit(self):
        return None

    def nvmlDeviceGetCount(self):
        return len(self.uuids)

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid):
        if uuid not in self.uuids:
            raise self.NVMLError_NotFound
        return self.uuids.index(uuid)

    def nvmlDeviceGetHandleByPciBusId(self, address):
        known = [f"0000:{10 + index:02d}:00.0" for index in range(len(self.uuids))]
        if address not in known:
            raise self.NVMLError_NotFound
        return known.index(address)

    def nvmlDeviceGetClockInfo(self, handle, kind):
        return {1: 1500, 2: 3201}[kind] + handle  # MHz

    def nvmlDeviceGetMaxClockInfo(self, handle, kind):
        return {1: 1980, 2: 3201}[kind] + handle

    def nvmlDeviceGetTemperature(self, handle, sensor):
        assert sensor == 0
        return 41 + handle

    def nvmlDeviceGetTemperatureThreshold(self, handle, threshold):
        assert threshold == 1  # NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
        return 92 + handle

    def nvmlDeviceGetPowerUsage(self, handle):
        return 254_000 + 1000 * handle  # mW

    def nvmlDeviceGetEnforcedPowerLimit(self, handle):
        return 700_000

    def nvmlDeviceGetPowerManagementDefaultLimit(self, handle):
        return 700_000

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle):
        return self.reasons

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle):
        return self.reasons

    def nvmlDeviceGetComputeRunningProcesses(self, handle):
        return [SimpleNamespace(pid=pid, usedGpuMemory=5 << 30) for pid in self.pids[handle]]

    def nvmlSystemGetProcessName(self, pid):
        return f"program{pid}".encode()

    def nvmlSystemGetDriverVersion(self):
        return b"580.159.03"

    def nvmlDeviceGetEccMode(self, handle):
        return [1, 1]

    def nvmlDeviceGetMigMode(self, handle):
        return [0, 0]

    def nvmlDeviceGetPersistenceMode(self, handle):
        return 1


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
        self.metrics, self.pids, self.serials = metrics, pids, serials
        self.calls = []

    def amdsmi_init(self):
        return None

    def amdsmi_get_processor_handles(self):
        return list(range(len(self.serials)))

    def amdsmi_get_gpu_device_bdf(self, handle):
        return f"0000:C{handle}:00.0"

    def amdsmi_get_gpu_asic_info(self, handle):
        return {"asic_serial": self.serials[handle]}

    def amdsmi_get_gpu_metrics_info(self, handle):
        self.calls.append("metrics")
        if self.metrics is None:
            raise NOT_SUPPORTED
        return dict(self.metrics)

    def amdsmi_get_clock_info(self, handle, kind):
        clocks = {"gfx": {"clk": 1700, "max_clk": 2100}, "mem": {"clk": 900, "max_clk": 1300}}
        return clocks[kind]

    def amdsmi_get_temp_metric(self, handle, sensor, metric):
        assert sensor == "hotspot"
        return {"current": 61, "critical": 100}[metric]

    def amdsmi_get_power_info(self, handle):
        return {"current_socket_power": "N/A", "average_socket_power": 95, "power_limit": 300}

    def amdsmi_get_power_cap_info(self, handle):
        return {"power_cap": 600_000_000, "default_power_cap": 750_000_000}  # microwatts

    def amdsmi_get_gpu_driver_info(self, handle):
        return {"driver_name": "amdgpu", "driver_version": "6.12.12", "driver_date": "N/A"}

    def amdsmi_get_gpu_ecc_enabled(self, handle):
        return 0x7

    def amdsmi_get_gpu_compute_partition(self, handle):
        return "SPX"

    def amdsmi_get_gpu_memory_partition(self, handle):
        return "NPS1"

    def amdsmi_get_gpu_process_list(self, handle):
        return [{"name": "N/A", "pid": pid, "mem": 3 << 30} for pid in self.pids[handle]]

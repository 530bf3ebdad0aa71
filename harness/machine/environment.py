"""What a reader must know of the machine and its software to repeat a run: flat text, stored in run.json."""

import os
import platform

import torch

from ...shapes.device import Device
from ..telemetry import linux
from ..telemetry.source import Board, telemetry
from .software import SHOWN_VARIABLES, version

PACKAGES = ("rooflens", "torch", "triton", "numpy", "bitsandbytes")

VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", *SHOWN_VARIABLES, "NVIDIA_TF32_OVERRIDE")
"""Environment variables that change timings, recorded when they are set."""


def environment(device: Device) -> dict[str, str]:
    """Collect versions, driver, clocks, load and the variables that matter, each as text; unknown ones are omitted."""
    record = {
        "os": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        **{name: found for name in PACKAGES if (found := version(name))},
        "host load (1 min)": f"{os.getloadavg()[0]:.2f}",
        "cpu threads": str(torch.get_num_threads()),
    }
    if torch.version.cuda:
        record["CUDA"] = torch.version.cuda
    if torch.version.hip:
        record["HIP"] = torch.version.hip
    if device.is_gpu:
        record["TF32"] = f"matmul precision {torch.get_float32_matmul_precision()}"
    source = telemetry(device)
    record["telemetry"] = source.name
    record |= board_text(source.board(), device)
    record |= host_text(linux.describe())
    record |= {name: os.environ[name] for name in VARIABLES if name in os.environ}
    return record


def board_text(board: Board, device: Device) -> dict[str, str]:
    """Write what is known of a board for a reader."""
    engine = "SM clock" if device.vendor == "NVIDIA" else "engine clock" if device.is_gpu else "CPU clock"
    known = {
        "driver": board.driver,
        f"max {engine}": _with_unit(board.max_clock_hz, 1e6, "MHz"),
        "max memory clock": _with_unit(board.max_memory_clock_hz, 1e6, "MHz"),
        "power limit": _with_unit(board.power_limit_w, 1, "W"),
        "default power limit": _with_unit(board.default_power_limit_w, 1, "W"),
        "ECC": _switch(board.ecc),
        "MIG": _switch(board.mig),
        "persistence mode": _switch(board.persistence),
        "partition": board.partition,
    }
    return {key: value for key, value in known.items() if value}


def host_text(host: linux.HostFacts) -> dict[str, str]:
    """Write what is known of the host's clocks and of the limits on this process for a reader."""
    known = {
        "CPU governor": host.governor,
        "CPU boost": _switch(host.boost),
        "CPU quota": None if host.quota_cores is None else f"{host.quota_cores:g} of {host.usable_cores} cores",
        "CPU affinity": f"{host.usable_cores} of {host.cores} cores" if host.usable_cores < host.cores else None,
    }
    return {key: value for key, value in known.items() if value}


def _with_unit(value: float | None, unit: float, name: str) -> str | None:
    return None if value is None else f"{value / unit:g} {name}"


def _switch(value: bool | None) -> str | None:
    return None if value is None else "on" if value else "off"

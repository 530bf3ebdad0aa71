"""Find the device that a run is measured on, and describe it."""

import os
import platform
import re
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ...kernels import cpu_info
from ...shapes.device import Device, match_spec
from ...shapes.errors import RooflensError, UsageError, quote
from ..telemetry import linux

FALLBACK_LLC_BYTES = 64 << 20
"""Last-level cache of a CPU that does not say: more than most have, so that cold stays cold."""


def find_device(name: str = "auto", llc_bytes: int | None = None) -> Device:
    """Describe "auto" (a GPU if there is one, else the CPU), "cpu", "cuda" or "cuda:N".

    `llc_bytes` overrides the last-level cache size. Raises RooflensError when there is no such device. Imports torch
    where there may be a GPU.
    """
    match = re.fullmatch(r"(auto|cpu|cuda)(?::(\d+))?", name)
    if not match or (match[2] and match[1] != "cuda"):
        raise UsageError(f"--device {quote(name)}: write cpu, cuda or cuda:N (cuda also means ROCm)")
    if match[1] == "cpu" or (match[1] == "auto" and not gpu_possible()):
        return _cpu(llc_bytes)
    import torch

    if match[1] == "auto" and not torch.cuda.is_available():
        return _cpu(llc_bytes)
    if not torch.cuda.is_available():
        built = "ROCm" if torch.version.hip else "CUDA" if torch.version.cuda else "CPU only"
        raise RooflensError(
            f"--device {name}: torch {torch.__version__} (built for {built}) sees no GPU here: "
            "check the driver and the visible-device variables, or use --device cpu"
        )
    index = int(match[2] or 0)
    if index >= torch.cuda.device_count():
        raise RooflensError(f"--device {name}: there are {torch.cuda.device_count()} GPUs, counted from 0")
    return _gpu(index, llc_bytes)


_GPU_FILES = ("nvidia*", "nvhost*", "nvmap", "kfd", "dxg")
"""Below /dev: NVIDIA's driver, on Jetson too, AMD's, and that of Windows inside of WSL."""

_GPU_TOOLS = ("nvidia-smi", "rocminfo")


def gpu_possible(root: Path = linux.ROOT) -> bool:
    """Return whether torch may find a GPU; without any sign of a driver, torch is not imported to find out.

    Importing it takes seconds; in a process that has done so already, it is always asked.
    """
    if "torch" in sys.modules or platform.system() != "Linux":
        return True
    return any(map(shutil.which, _GPU_TOOLS)) or any(any((root / "dev").glob(name)) for name in _GPU_FILES)


def _gpu(index: int, llc_bytes: int | None) -> Device:
    import torch

    properties = torch.cuda.get_device_properties(index)
    if torch.version.hip:
        vendor, arch = "AMD", properties.gcnArchName.split(":")[0]
    else:
        vendor, arch = "NVIDIA", f"sm{properties.major}{properties.minor}"
    whole = match_spec(properties.name, arch)
    spec = match_spec(properties.name, arch, properties.multi_processor_count)
    # torch reports the L2 of one XCD on MI300X, and knows nothing of a cache behind L2: the table comes first.
    l2 = (spec.l2_bytes if spec else None) or properties.L2_cache_size
    return Device(
        kind="cuda",
        index=index,
        name=properties.name,
        vendor=vendor,
        arch=arch,
        compute_units=properties.multi_processor_count,
        llc_bytes=llc_bytes or next((row.last_level_bytes for row in (spec, whole) if row), None) or 4 * l2,
        l2_bytes=l2,
        memory_bytes=properties.total_memory,
        uuid=str(getattr(properties, "uuid", "")),
        spec=spec,
        reported_chiplets=_chiplets(properties) if vendor == "AMD" else 0,
    )


def _chiplets(properties: Any, nodes: Path = Path("/sys/class/kfd/kfd/topology/nodes")) -> int:
    """XCDs of a GPU, or of the partition of one, as AMD's driver reports them; 0 where it does not."""
    place = tuple(getattr(properties, f"pci_{part}_id", None) for part in ("domain", "bus", "device"))
    for file in sorted(nodes.glob("*/properties")):
        try:
            found = dict(line.split() for line in file.read_text().splitlines())
            location = int(found["location_id"])
            if (int(found["domain"]), location >> 8, location >> 3 & 31) == place:
                return int(found["num_xcc"])
        except (OSError, ValueError, KeyError):
            continue
    return 0


def _cpu(llc_bytes: int | None) -> Device:
    caches = _cpu_caches()
    return Device(
        kind="cpu",
        index=0,
        name=_cpu_name(),
        vendor=cpu_info.entry("vendor_id"),
        arch=f"{platform.machine()}-{_features()}",
        compute_units=_threads(),
        llc_bytes=llc_bytes or max(caches.values(), default=FALLBACK_LLC_BYTES),
        l2_bytes=caches.get(2, 0),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    )


def _cpu_caches(root: Path = Path("/sys/devices/system/cpu")) -> dict[int, int]:
    """Bytes per cache level, as Linux tells them; empty elsewhere.

    The last level counts every instance that the cores of this process use: a chip of eight dies has eight, and a flush
    that all threads share must evict them all. A lower level counts once, as the cache of one core.
    """
    sizes: dict[int, dict[str, int]] = {}
    for core in sorted(os.sched_getaffinity(0)):
        for entry in (root / f"cpu{core}/cache").glob("index*"):
            try:
                kind, level, size, shared = (
                    (entry / part).read_text().strip() for part in ("type", "level", "size", "shared_cpu_list")
                )
            except OSError:
                continue
            if kind != "Instruction":
                sizes.setdefault(int(level), {})[shared] = int(size.rstrip("K")) << 10
    last = max(sizes, default=0)
    return {level: sum(each.values()) if level == last else max(each.values()) for level, each in sizes.items()}


def _features() -> str:
    """Instruction set that torch's kernels are chosen for."""
    known = "" if "torch" in sys.modules or not find_spec("torch") else cpu_info.torch_capability()
    if not known:
        import torch

        known = torch.backends.cpu.get_cpu_capability()
    return known.lower().replace("_", "")


def _threads() -> int:
    """Threads that torch computes with; where it is not loaded yet, those that a run gives it."""
    if "torch" not in sys.modules:
        return linux.usable_cores()
    import torch

    return int(torch.get_num_threads())


def _cpu_name() -> str:
    return cpu_info.entry("model name") or platform.processor() or platform.machine()

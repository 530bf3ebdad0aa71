"""Rules about the host, its software and its room: each takes a Survey and yields findings."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .advice_values import Advice, mib, ok, problem, warn

if TYPE_CHECKING:  # it imports torch, and a run asks `busy_host` where there is none
    from ..telemetry.linux import HostFacts
    from .survey import Survey

BUSY_SHARE = 0.05
"""Share of the cores in use by others from which on a CPU's timings scatter visibly."""

LOAD_PER_CORE = 0.5
"""Load from which on a CPU counts as shared; the launches of a GPU need one core only, so there it may be 1."""

LEAST_DISK_BYTES = 1 << 30
"""Room for some large sweeps: one with 4,680 cells and every sample took 20 MB."""

LEAST_FREE_BYTES = 4 << 30
"""The widest problems of the suites hold 8192 x 28672 weights: 0.5 GB in bf16, 1.9 GB in fp64."""


def host_load(survey: "Survey") -> Iterator[Advice]:
    """On a CPU everybody shares the cores that are measured; a GPU needs one of them for its launches."""
    return busy_host(survey.host, survey.reading.busy_elsewhere, survey.device.is_gpu)


def busy_host(host: "HostFacts", elsewhere: float | None, is_gpu: bool) -> Iterator[Advice]:
    """Warn of a busy host: `elsewhere` is the share of the cores that they use, None where it was not watched."""
    if elsewhere is not None and elsewhere > BUSY_SHARE:
        yield warn(
            "host",
            f"others use {100 * elsewhere:.0f} % of the cores: timings scatter and intervals stay wide; stop them, or "
            "wait",
        )
        return
    per_core = (host.load_1min or 0) / host.usable_cores
    if per_core > (1.0 if is_gpu else LOAD_PER_CORE):
        cores = f"{host.usable_cores} core{'s' * (host.usable_cores > 1)}"
        what = "launches wait for a core" if is_gpu else "timings scatter"
        yield warn(
            "host",
            f"load {host.load_1min:.1f} on {cores} over the last minute: {what}; wait until it falls",
        )


def host_limits(survey: "Survey") -> Iterator[Advice]:
    """Threads beyond the quota are stopped for whole slices of time, which looks like a slow kernel."""
    host = survey.host
    if host.quota_cores is not None:
        yield warn(
            "host",
            f"the container may use the time of {host.quota_cores:g} cores, but sees {host.usable_cores}: threads "
            "beyond that are stopped in the middle of samples; give rooflens run "
            f"--set threads={max(1, int(host.quota_cores))}, or raise the quota",
        )
    if host.usable_cores < host.cores:
        yield ok(
            "host",
            f"this process may run on {host.usable_cores} of {host.cores} cores: that many threads are used",
        )


def host_clock(survey: "Survey") -> Iterator[Advice]:
    """A governor that follows the load measures its own reaction time; a virtual machine hides its neighbours."""
    host = survey.host
    if survey.device.is_gpu:
        return
    if host.governor not in (None, "performance"):
        yield warn(
            "host",
            f"the frequency governor is {host.governor}: the clock follows the load, and short kernels are timed while "
            "it rises; use cpupower frequency-set -g performance",
        )
    if host.is_virtual:
        yield ok(
            "host",
            "this is a virtual machine: its neighbours share caches and memory unseen; trust ratios within one run "
            "rather than absolute times",
        )


def compiler(survey: "Survey") -> Iterator[Advice]:
    """The CPU kernels are built on the machine."""
    if not survey.device.is_gpu and not survey.software.compiler:
        yield warn(
            "compiler",
            "no C++ compiler: our CPU kernels cannot be built; apt install g++, or set CXX to one",
        )


def triton(survey: "Survey") -> Iterator[Advice]:
    """Two distributions own one module: the one that was installed last overwrote the other's files."""
    found = survey.software
    owners = [one.name for one in found.triton_owners]
    rocm = found.torch_build.startswith("ROCm")
    if len(owners) > 1 or (rocm and owners == ["triton"]):
        who = " and ".join(f"{one.name} {one.version}" for one in found.triton_owners)
        cure = (
            "reinstall the one that came with torch, and install rooflens with --no-deps"
            if rocm
            else "uninstall both and install one"
        )
        yield problem(
            "triton",
            f"the module triton belongs to {who}"
            + (", while this torch brings its own" if len(owners) == 1 else ": the last one overwrote the other")
            + f"; {cure}",
        )
    elif not found.triton and survey.device.is_gpu:
        yield problem("triton", "triton is missing: none of our GPU kernels can run; pip install triton")


def fleet(survey: "Survey") -> Iterator[Advice]:
    """Ray counts AMD GPUs with the package amdsmi, and without it finds none on a node."""
    source = survey.telemetry
    if survey.software.ray and survey.device.is_rocm and not (source.name == "amdsmi" and source.available):
        yield warn(
            "ray",
            "Ray finds no AMD GPU without the package amdsmi: install the one of this ROCm, or give ray start "
            "--num-gpus before a run with --address",
        )


def variables(survey: "Survey") -> Iterator[Advice]:
    """Some variables change what is measured, others which device it is."""
    values = survey.software.variables
    on = {name for name, value in values.items() if value not in ("", "0")}
    gpu = survey.device.is_gpu
    if "TRITON_INTERPRET" in on:
        text = (
            "TRITON_INTERPRET is set: Triton kernels run in its interpreter, which is no timing of anything; unset it"
        )
        yield (problem if gpu else warn)("variables", text)
    for name in ("CUDA_LAUNCH_BLOCKING", "HIP_LAUNCH_BLOCKING", "AMD_SERIALIZE_KERNEL", "AMD_SERIALIZE_COPY"):
        if name in on and gpu:
            yield problem("variables", f"{name} is set: every launch waits for the one before; unset it")
    if "NVIDIA_TF32_OVERRIDE" in on and gpu:
        yield problem("variables", "NVIDIA_TF32_OVERRIDE is set: fp32 baselines are not fp32; unset it")
    if "ROCR_VISIBLE_DEVICES" in values:
        yield warn(
            "variables",
            "ROCR_VISIBLE_DEVICES is set: it applies before HIP_VISIBLE_DEVICES, and Ray refuses to start with it; use "
            "HIP_VISIBLE_DEVICES alone",
        )
    hip, cuda = (values.get(f"{kind}_VISIBLE_DEVICES") for kind in ("HIP", "CUDA"))
    if survey.device.is_rocm and hip is not None and cuda is not None and hip != cuda:
        yield warn(
            "variables",
            f"HIP_VISIBLE_DEVICES={hip} and CUDA_VISIBLE_DEVICES={cuda} disagree: which GPU is cuda:0 depends on the "
            "library; keep HIP_VISIBLE_DEVICES alone",
        )
    elif gpu and (shown := hip or cuda):
        yield ok(
            "variables",
            f"visible devices are {shown}: {survey.device.torch_name} is counted among these",
        )


def room(survey: "Survey") -> Iterator[Advice]:
    """A run without room for its operands or samples fails."""
    free, evict = survey.free_bytes, 3 * survey.device.llc_bytes
    if free is not None and free < max(LEAST_FREE_BYTES, 2 * evict):
        whose = "of device memory" if survey.device.is_gpu else "of memory"
        worst = free < 2 * evict
        yield (problem if worst else warn)(
            "memory",
            f"{free / (1 << 30):.1f} GiB {whose} free: "
            + ("the buffers that make samples cold barely fit" if worst else "the widest problems may run out of it")
            + "; stop what holds the rest, or exclude shapes with --filter",
        )
    disk = survey.disk_free_bytes
    if disk is not None and disk < LEAST_DISK_BYTES:
        yield (problem if disk < LEAST_DISK_BYTES // 10 else warn)(
            "disk",
            f"{mib(disk)} free for {survey.disk}: a sweep stores every sample; free some, or store elsewhere with -o",
        )

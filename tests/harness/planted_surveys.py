"""Surveys of three machines on which nothing is wrong: an NVIDIA GPU, an AMD GPU, a CPU. Figures are made up."""

from dataclasses import replace

from rooflens.harness.machine.software import Distribution, Software
from rooflens.harness.machine.survey import Caches, Offer, ProviderOffer, Survey
from rooflens.harness.telemetry.linux import HostFacts
from rooflens.harness.telemetry.source import Board, Reading
from rooflens.shapes.device import Device, spec

MIB, GIB = 1 << 20, 1 << 30

H200 = Device(
    "cuda", 0, "NVIDIA H200", "NVIDIA", "sm90", 132, 60 * MIB, 60 * MIB, 141 * GIB, spec=spec("NVIDIA H200 SXM")
)
MI300X = Device(
    "cuda", 0, "MI300X", "AMD", "gfx942", 304, 256 * MIB, 32 * MIB, 192 * GIB, spec=spec("AMD Instinct MI300X")
)
CPU = Device("cpu", 0, "EPYC", "AuthenticAMD", "x86_64-avx512", 2, 32 * MIB, MIB, 24 * GIB)

SOFTWARE = Software(
    python="3.12.3",
    rooflens="0.1.0",
    torch="2.11.0",
    torch_build="CUDA 13.0",
    triton="3.6.0",
    bitsandbytes="0.50.2",
    triton_owners=(Distribution("triton", "3.6.0"),),
    compiler="g++ 13",
    variables={},
)

GPU = Survey(
    device=H200,
    caches=Caches(60 * MIB, "device table", 60 * MIB, "device table", 60 * MIB),
    free_bytes=140 * GIB,
    telemetry=Offer("nvml", True),
    reading=Reading(clock_hz=345e6, temperature_c=31.0, power_w=76.0, other_processes=0),
    board=Board(
        "580.159.03", 1980e6, 3201e6, 700.0, 700.0, slowdown_temperature_c=92.0, ecc=True, mig=False, persistence=True
    ),
    others=(),
    siblings=(),
    driver_gpus=("NVIDIA",),
    host=HostFacts(16, 16, None, 0.4, None, None, True, 120 * GIB),
    software=SOFTWARE,
    timers=(Offer("event", True), Offer("host", True)),
    providers=(ProviderOffer("blas", True), ProviderOffer("simd_4bit_cpu", False, "needs a CPU")),
    disk="/data/runs",
    disk_free_bytes=100 * GIB,
)

HOST = replace(
    GPU,
    device=CPU,
    caches=Caches(MIB, "/sys", 32 * MIB, "/sys", None),
    free_bytes=20 * GIB,
    telemetry=Offer("host", True),
    reading=Reading(busy_elsewhere=0.01),
    board=Board(),
    driver_gpus=(),
    host=HostFacts(2, 2, None, 0.2, "performance", True, False, 20 * GIB),
    software=replace(SOFTWARE, torch="2.13.0+cpu", torch_build="CPU only"),
    timers=(Offer("event", False, "cpu has no events"), Offer("host", True)),
)

ROCM = replace(
    GPU,
    device=MI300X,
    caches=Caches(32 * MIB, "device table", 256 * MIB, "device table", 4 * MIB),
    telemetry=Offer("amdsmi", True),
    board=Board("6.12", 2100e6, 1300e6, 750.0, 750.0, partition="SPX, NPS1"),
    driver_gpus=("AMD",),
    software=replace(
        SOFTWARE,
        torch="2.11.0+rocm7.1",
        torch_build="ROCm 7.1",
        triton_owners=(Distribution("pytorch-triton-rocm", "3.6.0"),),
    ),
)

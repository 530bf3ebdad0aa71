"""Each rule of the doctor on a survey that calls for it, and its silence on one that does not."""

import re
from dataclasses import replace

import pytest
from rooflens.harness.machine.advice import RULES, advice, can_measure
from rooflens.harness.machine.software import Distribution
from rooflens.harness.machine.survey import Caches, Offer
from rooflens.harness.telemetry.linux import HostFacts
from rooflens.harness.telemetry.source import Board, DeviceProcess, Reading
from rooflens.shapes.device import spec

from ..planted_surveys import GIB, GPU, H200, HOST, MIB, ROCM


def on_host(survey=HOST, **changes):
    return replace(survey, host=replace(survey.host, **changes))


def reading(survey=GPU, **changes):
    return replace(survey, reading=replace(survey.reading, **changes))


def board(survey=GPU, **changes):
    return replace(survey, board=replace(survey.board, **changes))


def software(survey=GPU, **changes):
    return replace(survey, software=replace(survey.software, **changes))


def variables(survey=GPU, **values):
    return software(survey, variables=values)


UNKNOWN_GPU = replace(
    GPU,
    device=replace(H200, name="NVIDIA H300", spec=None, llc_bytes=240 * MIB),
    caches=Caches(60 * MIB, "torch", 240 * MIB, "assumed: 4x what torch calls the L2", 60 * MIB),
)

PYPI = Distribution("triton", "3.9.0")

CASES = {
    "no provider": (
        replace(GPU, providers=(Offer("blas", False, "why"),)),
        "problem providers: nothing can be measured",
    ),
    "some providers": (GPU, "ok providers: 1 of 2 providers"),
    "GPU but a CPU build": (
        replace(HOST, driver_gpus=("NVIDIA", "NVIDIA")),
        "warn device: the CPU is surveyed; torch 2.13.0+cpu is built for CPU only: install a CUDA",
    ),
    "GPU that the right build does not see": (
        replace(software(HOST, torch_build="ROCm 7.1"), driver_gpus=("AMD",)),
        "warn device: 1 AMD device file here, but the CPU is surveyed; torch cannot use it: check the driver",
    ),
    "GPU not in the table": (
        UNKNOWN_GPU,
        "warn caches: NVIDIA H300 (sm90) is not in the device table: cold evicts 240 MiB (4x what",
    ),
    "CPU without cache sizes": (
        replace(HOST, caches=Caches(0, "assumed", 64 * MIB, "assumed: this CPU does not tell", None)),
        "warn caches: cold evicts 64 MiB",
    ),
    "torch's L2 is that of one die": (ROCM, "ok caches: torch reports 4 MiB of L2, the device table 256 MiB"),
    "peaks not verified": (replace(GPU, device=replace(H200, spec=spec("NVIDIA L40S"))), "ok device: partly"),
    "no telemetry": (
        replace(GPU, telemetry=Offer("unknown", False, "pip install it")),
        "warn telemetry: pip install it; until",
    ),
    "idle clock": (GPU, "ok clocks: clock is 345 of 1980 MHz: idle"),
    "full clock": (reading(clock_hz=1980e6), "ok clocks: clock is 1980 of 1980 MHz"),
    "too hot now": (reading(slowdown=("thermal", "hardware")), "problem clocks: (hardware, thermal)"),
    "power cap at rest": (reading(slowdown=("power_cap",)), "warn clocks: at its power limit before anything"),
    "clocks set": (reading(slowdown=("application_clocks",)), "ok clocks: the device's clocks are locked"),
    "quota ran out": (reading(HOST, slowdown=("cpu_quota",)), "warn clocks: CPU quota ran out"),
    "hot": (reading(temperature_c=88.0), "warn temperature: 88 °C before any work, and slows down at 92"),
    "hot, limit unknown": (
        board(reading(temperature_c=88.0), slowdown_temperature_c=None),
        "warn temperature: any work: it will",
    ),
    "power limit lowered": (board(power_limit_w=400.0), "warn power: 400 W instead of 700 W"),
    "one neighbour": (
        replace(
            reading(other_processes=1), others=(DeviceProcess(4711, "train", 20 * GIB),), siblings=("cuda:1", "cuda:2")
        ),
        "warn processes: (4711 train), holding 20.0 GiB: its work disturbs timings; stop it, or choose --device cuda:1",
    ),
    "neighbours unseen": (reading(other_processes=3), "warn processes: 3 other processes are on the device: "),
    "MIG": (board(mig=True), "warn partition: MIG is on"),
    "AMD partition": (board(ROCM, partition="CPX, NPS4"), "warn partition: split (CPX, NPS4)"),
    "busy CPU": (reading(HOST, busy_elsewhere=0.3), "warn host: others use 30 % of the cores"),
    "load on a CPU": (on_host(load_1min=3.1), "warn host: load 3.1 on 2 cores"),
    "load beside a GPU": (on_host(GPU, load_1min=20.0), "warn host: load 20.0 on 16 cores"),
    "quota": (on_host(quota_cores=1.5), "warn host: the time of 1.5 cores, but sees 2"),
    "affinity": (on_host(usable_cores=2, cores=8), "ok host: 2 of 8 cores"),
    "governor": (on_host(governor="powersave"), "warn host: governor is powersave"),
    "virtual machine": (on_host(is_virtual=True), "ok host: virtual machine"),
    "no compiler": (software(HOST, compiler=""), "warn compiler: apt install g++"),
    "PyPI's triton beside ROCm's": (
        software(ROCM, triton_owners=(Distribution("pytorch-triton-rocm", "3.6.0"), PYPI)),
        "problem triton: pytorch-triton-rocm 3.6.0 and triton 3.9.0: the last one overwrote the other",
    ),
    "PyPI's triton alone under ROCm": (software(ROCM, triton_owners=(PYPI,)), "problem triton: --no-deps"),
    "two tritons under CUDA": (
        software(triton_owners=(PYPI, Distribution("nightly", "3.9.0"))),
        "problem triton: uninstall both",
    ),
    "no triton": (software(triton="", triton_owners=()), "problem triton: pip install triton"),
    "interpreter": (variables(TRITON_INTERPRET="1"), "problem variables: TRITON_INTERPRET"),
    "interpreter on a CPU": (variables(HOST, TRITON_INTERPRET="1"), "warn variables: TRITON_INTERPRET"),
    "blocking launches": (variables(CUDA_LAUNCH_BLOCKING="1"), "problem variables: CUDA_LAUNCH_BLOCKING"),
    "serialized kernels": (variables(ROCM, AMD_SERIALIZE_KERNEL="3"), "problem variables: AMD_SERIALIZE_KERNEL"),
    "TF32 forced": (variables(NVIDIA_TF32_OVERRIDE="1"), "problem variables: fp32 baselines are not fp32"),
    "ROCR": (variables(ROCM, ROCR_VISIBLE_DEVICES="0"), "warn variables: Ray refuses"),
    "Ray without amdsmi": (
        replace(software(ROCM, ray="2.60.0"), telemetry=Offer("unknown", False, "none")),
        "warn ray: --num-gpus",
    ),
    "HIP against CUDA": (
        variables(ROCM, HIP_VISIBLE_DEVICES="1", CUDA_VISIBLE_DEVICES="0"),
        "warn variables: disagree",
    ),
    "visible devices": (variables(CUDA_VISIBLE_DEVICES="3"), "ok variables: are 3: cuda:0 is counted among these"),
    "little device memory": (replace(GPU, free_bytes=3 * GIB), "warn memory: 3.0 GiB of device memory free"),
    "no room for a flush": (replace(ROCM, free_bytes=GIB), "problem memory: barely fit"),
    "little disk": (replace(GPU, disk_free_bytes=500 * MIB), "warn disk: 500 MiB free for /data/runs"),
    "no disk": (replace(GPU, disk_free_bytes=20 * MIB), "problem disk: 20 MiB free"),
}


def heard(advised, told):
    """Pieces of advice that say so: "level topic: words"."""
    level, topic, words = re.fullmatch(r"(\w+) (\w+): (.*)", told).groups()
    return [one for one in advised if (one.level, one.topic) == (level, topic) and words in one.text]


@pytest.mark.parametrize("survey, told", CASES.values(), ids=CASES)
def test_a_rule_says_what_was_seen_and_what_to_do(survey, told):
    (found,) = heard(advice(survey), told)
    assert "\n" not in found.text


def test_every_rule_has_a_case_that_only_it_speaks_of():
    """With one rule switched off, some case lacks its words."""
    for silent in RULES:
        kept = [rule for rule in RULES if rule is not silent]
        assert any(
            not heard([one for rule in kept for one in rule(survey)], told) for survey, told in CASES.values()
        ), f"no case needs {silent.__name__}"


QUIET = {
    "a GPU of NVIDIA": GPU,
    "a CPU": HOST,
    "a GPU of AMD": ROCM,
    "switched off": variables(TRITON_INTERPRET="0", CUDA_LAUNCH_BLOCKING="0", NVIDIA_TF32_OVERRIDE="0"),
    "agreeing variables": variables(ROCM, HIP_VISIBLE_DEVICES="1", CUDA_VISIBLE_DEVICES="1"),
    "warm": reading(temperature_c=80.0),
    "neighbours unknown": reading(other_processes=None),
    "governor beside a GPU": on_host(GPU, governor="powersave"),
    "the CPU asked for beside a GPU": replace(HOST, driver_gpus=("NVIDIA",), siblings=("cuda:0",)),
    "unknown room": replace(GPU, free_bytes=None, disk_free_bytes=None),
    "nothing known": replace(
        GPU, reading=Reading(), board=Board(), host=HostFacts(4, 4, None, None, None, None, None, None)
    ),
}


@pytest.mark.parametrize("survey", QUIET.values(), ids=QUIET)
def test_a_rule_keeps_quiet_where_nothing_is_wrong(survey):
    assert {one.level for one in advice(survey)} == {"ok"}
    assert can_measure(survey)


def test_the_worst_comes_first():
    survey = replace(reading(temperature_c=90.0), providers=())
    levels = [one.level for one in advice(survey)]
    assert levels == sorted(levels, key=["problem", "warn", "ok"].index)
    assert levels[0] == "problem"
    assert "warn" in levels


def test_nothing_can_be_measured_without_a_provider_or_a_timer():
    assert not can_measure(replace(GPU, providers=()))
    assert not can_measure(replace(GPU, timers=(Offer("event", False, "why"),)))

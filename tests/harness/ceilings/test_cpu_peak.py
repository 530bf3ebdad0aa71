"""The derived peak of a CPU against figures that vendors publish, and its clock from made-up trees of files."""

import os

import pytest
from rooflens.harness.ceilings.cpu_peak import derived_peaks, maximum_clock_hz

SSE, AVX2 = frozenset({"sse2"}), frozenset({"sse2", "avx", "avx2", "fma"})
AVX512 = AVX2 | {"avx512f", "avx512bw", "avx512_vnni"}
ZEN4 = AVX512 | {"avx512_bf16"}
SAPPHIRE_RAPIDS = ZEN4 | {"avx512_fp16", "amx_tile", "amx_bf16", "amx_int8"}
GRANITE_RAPIDS = SAPPHIRE_RAPIDS | {"amx_fp16"}


@pytest.mark.parametrize(
    ("flags", "per_cycle"),
    [
        (SSE, {"fp32": 16, "bf16": 16, "fp16": 16, "fp8": 16, "int8": 64}),
        (AVX2, {"fp32": 32, "bf16": 32, "fp16": 32, "fp8": 32, "int8": 128}),
        (AVX512, {"fp32": 64, "bf16": 64, "fp16": 64, "fp8": 64, "int8": 256}),
        (ZEN4, {"fp32": 64, "bf16": 128, "fp16": 64, "fp8": 128, "int8": 256}),
        # Intel prints 1024 BF16 and 2048 INT8 operations per cycle and core for AMX.
        (SAPPHIRE_RAPIDS, {"fp32": 64, "bf16": 1024, "fp16": 128, "fp8": 1024, "int8": 2048}),
        (GRANITE_RAPIDS, {"fp32": 64, "bf16": 1024, "fp16": 1024, "fp8": 1024, "int8": 2048}),
    ],
    ids=["sse", "avx2", "avx512", "zen4", "sapphire-rapids", "granite-rapids"],
)
def test_operations_per_cycle_of_known_cores(flags, per_cycle):
    found = derived_peaks(per_cycle, 3, 2e9, flags)
    assert {name: value / (3 * 2e9) for name, (value, _) in found.items()} == per_cycle


def test_the_source_names_the_instructions():
    found = derived_peaks(["bf16", "fp16"], 1, 3.8e9, SAPPHIRE_RAPIDS)
    assert found["bf16"][1] == "1 core x 3.8 GHz at most x 1024 FLOP per cycle: AMX tiles (amx_bf16) in bf16"
    widened = derived_peaks(["fp16"], 1, 3.8e9, ZEN4)["fp16"][1]
    assert widened.endswith("64 FLOP per cycle: 2 multiply-adds of 512-bit vectors (avx512f) in fp32")


def test_without_a_clock_or_known_instructions_there_is_no_limit():
    assert derived_peaks(["fp32"], 2, None, AVX2) == {}
    assert derived_peaks(["fp32"], 2, 3e9, frozenset()) == {}  # not an x86 CPU
    assert derived_peaks(["fp32"], 2, 3e9, frozenset({"asimd"})) == {}


@pytest.fixture
def cpufreq(tmp_path):
    def write(driver, *khz):
        for core, told in zip(sorted(os.sched_getaffinity(0)), khz, strict=False):
            folder = tmp_path / f"sys/devices/system/cpu/cpu{core}/cpufreq"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "scaling_driver").write_text(f"{driver}\n")
            (folder / "cpuinfo_max_freq").write_text(f"{told}\n")
        return maximum_clock_hz(tmp_path)

    return write


def test_the_clock_is_the_highest_of_our_cores(cpufreq):
    cores = len(os.sched_getaffinity(0))
    assert cpufreq("intel_pstate", 3_800_000, *[3_500_000] * (cores - 1)) == 3.8e9
    assert cpufreq("amd-pstate-epp", *[5_100_000] * cores) == 5.1e9


def test_a_clock_that_leaves_turbo_out_or_is_not_told_is_unknown(cpufreq, tmp_path):
    assert maximum_clock_hz(tmp_path) is None  # as in most virtual machines
    cores = len(os.sched_getaffinity(0))
    assert cpufreq("acpi-cpufreq", *[2_600_000] * cores) is None
    assert cpufreq("intel_pstate", "", *[3_500_000] * (cores - 1)) is None

"""Ceilings against closed forms: with a timer that says 1 ms for everything, each is its bytes or FLOPs times 1,000."""

import dataclasses
import functools
import re
from types import SimpleNamespace

import pytest
import torch
from rooflens.harness.ceilings import known_limits
from rooflens.harness.ceilings import probe as module
from rooflens.harness.ceilings.probe import footprints
from rooflens.harness.timing.accelerator import TorchHost, accelerator
from rooflens.harness.timing.samples import Samples
from rooflens.kernels.probes.probe import Pattern, Probe
from rooflens.kernels.probes.triton import latency, vector
from rooflens.kernels.probes.triton.streams import BLOCK_BYTES, SLICES
from rooflens.shapes import device as devices
from rooflens.shapes.device import Device
from rooflens.shapes.errors import UsageError
from rooflens.shapes.run_folder.columns import CEILINGS
from rooflens.shapes.scheme import DType

MIB = 1 << 20
LLC = MIB
CPU = Device("cpu", 0, "test", "", "x86-64", 2, LLC, 1 << 18, 1 << 34)


def millisecond(subject, count):
    """Take 1 ms at best; a sample that is faster does not count."""
    return Samples((3e-3,) * count + (1e-3, 1e-6), ("",) * (count + 1) + ("negative time",))


@pytest.fixture
def timed_by(monkeypatch):
    """Return `timed_by(batch)`: samples are what `batch(subject, count)` returns, whatever the timer."""

    def use(batch):
        def make_timer(name, machine, subject, device):
            return SimpleNamespace(
                name="fake", resolution_s=0.0, launches_per_sample=1,
                batch=lambda count, meanwhile=None: batch(subject, count),
            )  # fmt: skip

        monkeypatch.setattr(module, "make_timer", make_timer)

    return use


@pytest.fixture
def clock(monkeypatch):
    """Return a list with the time, which passes only where a test says so."""
    now = [0.0]
    monkeypatch.setattr(module.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(module.time, "sleep", lambda seconds: None)
    return now


@pytest.fixture
def measured(monkeypatch, timed_by):
    monkeypatch.setattr(module, "BUDGET_S", {"cpu": 1e-9})
    monkeypatch.setattr(module, "CPU_DRAM_BYTES_PER_THREAD", 0)
    monkeypatch.setattr(known_limits, "maximum_clock_hz", lambda: None)
    timed_by(millisecond)

    def run(device=CPU, dtypes=(DType.FP32,), timer="auto"):
        rows, remarks = module.calibrate(device, TorchHost(), dtypes, timer)
        found = {(row["ceiling"], row["level"], row["pattern"], row["kind"]): row for row in rows}
        return found, list(remarks.values())

    return run


def test_each_ceiling_is_its_work_over_the_fastest_valid_time(measured):
    rows, remarks = measured()
    assert remarks == []
    floors = {("launch", "", f"{name} {cache}", "measured") for name in ("empty", "tile") for cache in ("warm", "cold")}
    bandwidths = {("bandwidth", level, pattern.value, "measured") for level in ("dram", "llc") for pattern in Pattern}
    assert set(rows) == floors | bandwidths | {("peak", "", "gemm", "measured")}
    assert {rows[key]["value"] for key in floors} == {1e-3}
    assert rows["peak", "", "gemm", "measured"]["value"] == pytest.approx(2 * 512 * 4096 * 4096 / 1e-3)
    for pattern in Pattern:
        assert rows["bandwidth", "dram", pattern.value, "measured"]["value"] == pytest.approx(4 * LLC / 1e-3)
        inside = rows["bandwidth", "llc", pattern.value, "measured"]
        passes = int(re.search(r"(\d+) times in one call", inside["source"])[1])
        assert inside["value"] == pytest.approx(passes * footprints(CPU)["llc"] / 1e-3)
    assert {row["source"].rpartition(", ")[2] for row in rows.values()} == {"fake timer"}


def spec(peak_flops, bandwidth_bytes_per_s):
    h200 = devices.spec("NVIDIA H200 SXM")
    return dataclasses.replace(h200, peak_flops=peak_flops, bandwidth_bytes_per_s=bandwidth_bytes_per_s)


def with_spec(peak_flops, bandwidth_bytes_per_s):
    return dataclasses.replace(CPU, spec=spec(peak_flops, bandwidth_bytes_per_s))


GEMM_FLOPS = 2 * 512 * 4096 * 4096 / 1e-3
DRAM_BYTES_PER_S = 4 * LLC / 1e-3


@pytest.mark.parametrize("limit", ["published", "derived"])
@pytest.mark.parametrize(("share", "refused"), [(1.021, True), (1.019, False)])
def test_a_measurement_above_what_can_be_is_refused(measured, monkeypatch, limit, share, refused):
    """A CPU is held against its clock and ports: 2 cores x 2 ports x 8 lanes of AVX x 2 FLOP = 64 per cycle."""
    monkeypatch.setattr(known_limits.cpu_info, "flags", lambda: frozenset({"sse2", "avx", "fma"}))
    if limit == "derived":
        monkeypatch.setattr(known_limits, "maximum_clock_hz", lambda: GEMM_FLOPS / share / 64)
        rows, remarks = measured()
    else:
        rows, remarks = measured(with_spec({"fp32": GEMM_FLOPS / share}, DRAM_BYTES_PER_S))
    most = rows["peak", "", "gemm", "spec" if limit == "published" else "derived"]
    assert most["value"] == pytest.approx(GEMM_FLOPS / share)
    assert set(most) == set(CEILINGS.names)
    assert (("peak", "", "gemm", "measured") not in rows) is refused
    assert ("bandwidth", "dram", "read", "measured") in rows
    told = f"measured fp32 gemm peak of 17.18 TFLOPS is above the {limit} 16.83 TFLOPS: not stored"
    assert remarks == [told] * refused


def test_the_peak_is_that_of_the_fastest_product_and_names_it(measured, monkeypatch, timed_by):
    timed_by(lambda subject, count: Samples((subject.launch() or 1e-3,) * count))
    planted = (lambda: 4e-3, "slow"), (lambda: 2e-3, "fast"), (lambda: 3e-3, "middling")
    monkeypatch.setattr(module, "products", lambda *asked: iter(planted))
    row = measured()[0]["peak", "", "gemm", "measured"]
    assert row["value"] == pytest.approx(GEMM_FLOPS / 2)
    assert row["source"] == "fast 512x4096x4096, random normal, best, fake timer"


def test_the_clock_and_the_vector_rate_follow_from_the_table(measured):
    rows, _ = measured(with_spec({"fp32": 67e12}, DRAM_BYTES_PER_S))
    clock = rows["clock", "", "boost", "spec"]
    assert (clock["value"], clock["unit"]) == (1.83e9, "Hz")
    rate = rows["vector", "", "fma", "derived"]
    assert (rate["value"], rate["unit"]) == (33.5e12, "op/s")
    assert rate["source"].startswith("fp32 peak / 2 FLOP per lane and instruction: ")
    unknown = dataclasses.replace(spec({}, None), clock_hz=None)
    rows, _ = measured(dataclasses.replace(CPU, spec=unknown))
    assert {row["kind"] for row in rows.values()} == {"measured"}


@pytest.mark.parametrize(("operations", "refused"), [(1.021, True), (1.019, False)])
def test_the_vector_rate_of_a_gpu_is_its_instructions_over_the_time(measured, monkeypatch, operations, refused):
    per_launch = {"fma": int(operations * 33.5e9), "integer": int(20e9)}
    monkeypatch.setattr(module, "BUDGET_S", {"cuda": 1e-9})
    monkeypatch.setattr(module, "footprints", lambda device: {})
    monkeypatch.setattr(module, "floors", lambda device: ())
    monkeypatch.setattr(vector, "chains", lambda device, what: Probe(int, 0, what, lane_operations=per_launch[what]))
    monkeypatch.setattr(latency, "chase", lambda device, level: Probe(int, 0, level))
    gpu = dataclasses.replace(CPU, kind="cuda", spec=spec({"fp32": 67e12}, None))
    rows, remarks = measured(gpu, (), "graph")
    assert rows["vector", "", "integer", "measured"]["value"] == 20e12
    assert (("vector", "", "fma", "measured") not in rows) is refused
    waits = [rows["latency", level, "", "measured"]["value"] for level in ("llc", "dram")]
    assert waits == [pytest.approx(1e-3 / latency.STEPS)] * 2
    assert remarks == ["measured fma vector of 34.2 Top/s is above the derived 33.5 Top/s: not stored"] * refused


@pytest.mark.parametrize(("share", "low"), [(0.84, True), (0.86, False)])
def test_what_misses_all_known_measurements_is_kept_with_a_remark(measured, monkeypatch, share, low):
    """The least that is known of an H200: 50.8 TFLOPS of fp32, and copies at 4199 GB/s."""
    moved = int(share * 4199e9 * 1e-3)
    monkeypatch.setattr(module, "sweeps", lambda *asked: [Probe(lambda: None, moved, "planted")])
    rows, remarks = measured(with_spec({"fp32": 67e12}, 4.8e12))
    assert ("peak", "", "gemm", "measured") in rows
    memory = [remark for remark in remarks if remark.startswith("measured dram")]
    assert [remark.partition(": was")[0] for remark in memory] == [
        "measured dram read bandwidth is 16% below the least that is known of this device, 4199 GB/s "
        "(rooflens calibrate on two H200 (not stored))"
    ] * low  # once, not per pattern
    (peak,) = (remark for remark in remarks if remark.startswith("measured fp32"))  # 17.2 of 50.8 TFLOPS
    assert peak.startswith("measured fp32 gemm peak is 66% below the least that is known of this device, 50.8 TFLOPS (")


def test_a_cache_slower_than_memory_gets_a_remark(measured, monkeypatch):
    def sweeps(device, level, pattern, data):
        slow = level == "llc" and pattern is Pattern.COPY
        yield Probe(lambda: None, 999 if slow else 1000, "planted")

    monkeypatch.setattr(module, "sweeps", sweeps)
    _, remarks = measured(dtypes=[])
    assert remarks == [
        "measured bandwidth of a cache is below that of memory (llc copy 0.000999 GB/s, memory 0.001 GB/s): "
        "was the device busy?"
    ]


def test_steps_are_told_before_they_begin(monkeypatch, measured):
    steps = []
    monkeypatch.setattr(module, "calibrate", functools.partial(module.calibrate, step=lambda *told: steps.append(told)))
    measured(dtypes=[DType.FP32, DType.BF16, "fp8"])
    total = 2 * len(Pattern) + 2 + 1
    assert [step[:2] for step in steps] == [(number, total) for number in range(1, total + 1)]
    assert [what for _, _, what in steps[3:6]] == ["fp32 GEMM peak", "bf16 GEMM peak", "launch floors"]
    assert steps[0][2].startswith("dram ")
    assert steps[6][2].startswith("llc ")


def test_a_probe_that_fails_costs_its_own_ceiling(measured, monkeypatch):
    def sweeps(device, level, pattern, data):
        yield Probe(lambda: None, 1000, "first")
        if pattern is Pattern.WRITE:
            raise RuntimeError("no such instruction\nat line 3")
        if level == "llc":
            yield Probe(lambda: None, 2000, "second")

    monkeypatch.setattr(module, "sweeps", sweeps)
    rows, remarks = measured(dtypes=[])
    found = {key[1:3]: row for key, row in rows.items() if key[0] == "bandwidth"}
    assert found["llc", "read"]["value"] == pytest.approx(2e6)
    assert found["llc", "read"]["source"] == "second, best, fake timer"
    assert found["llc", "write"]["value"] == pytest.approx(1e6)  # what was measured before the failure stands
    assert remarks == [
        f"not measured: {level} write bandwidth: RuntimeError: no such instruction" for level in ("dram", "llc")
    ]


def test_graphs_have_no_cold_floor(measured):
    rows, remarks = measured(dtypes=[], timer="graph")
    assert [key[2] for key in rows if key[0] == "launch"] == ["empty warm", "tile warm"]
    assert remarks == []


def test_a_timer_that_the_device_does_not_have_is_a_usage_error():
    with pytest.raises(UsageError, match="cpu has no events"):
        module.calibrate(CPU, TorchHost(), [], "event")


def test_after_its_time_nothing_is_measured_and_one_remark_says_what(clock, timed_by):
    def slow(subject, count):
        clock[0] += 1.0
        return millisecond(subject, count)

    timed_by(slow)
    rows, remarks = module.calibrate(CPU, TorchHost(), [DType.FP32], "auto", within_s=7.0)
    assert clock[0] <= 7.0 + 1.0
    assert {row["level"] for row in rows if row["ceiling"] == "bandwidth"} == {"dram"}
    assert rows[0]["pattern"] == "read"
    (remark,) = [remark for remark in remarks.values() if "were over" in remark]
    assert remark.startswith("the 7 s for the ceilings were over before: ")
    assert "llc copy bandwidth" in remark


def test_a_slow_launch_gets_few_samples_and_a_fast_one_fills_its_budget(clock, timed_by):
    def samples_of(seconds):
        taken = []

        def batch(subject, count):
            taken.append(count)
            clock[0] += count * seconds
            return Samples((seconds,) * count)

        timed_by(batch)
        begin = clock[0]
        assert module._fastest("host", TorchHost(), CPU, module.FEWEST, module.warm(lambda: None)) == (seconds, "fake")
        return sum(taken), clock[0] - begin

    budget = module.BUDGET_S["cpu"]
    assert samples_of(10 * budget)[0] == 1
    count, elapsed = samples_of(0.6 * budget)
    assert 2 <= count <= module.FEWEST
    assert elapsed <= (module.OVERRUN + 1) * budget
    count, elapsed = samples_of(1e-4)
    assert count >= 100
    assert elapsed <= 1.1 * budget


def gpu(name):
    row = devices.spec(name)
    return Device(
        "cuda", 0, name, row.vendor, row.arch, row.compute_units or 100, row.last_level_bytes, row.l2_bytes or 0,
        row.memory_bytes or 1 << 36, spec=row,
    )  # fmt: skip


GPUS = [row.name for row in devices.specs() if row.reported_as and row.l2_bytes]


@pytest.mark.parametrize("name", GPUS)
def test_footprints_lie_in_their_level_and_in_no_other(name):
    device = gpu(name)
    found = footprints(device)
    assert found["dram"] >= 8 * device.llc_bytes
    assert found["dram"] <= device.memory_bytes / 4
    assert found["llc"] <= device.llc_bytes / 2
    if device.l2_bytes < device.llc_bytes:
        assert found["llc"] >= 4 * device.l2_bytes
        assert found["llc"] >= 4 * BLOCK_BYTES * SLICES
    if "l2" in found:
        assert BLOCK_BYTES * SLICES <= found["l2"] <= device.l2_bytes / 2


def test_levels_of_known_devices():
    assert list(footprints(gpu("NVIDIA H200 SXM"))) == ["dram", "llc"]
    assert footprints(gpu("NVIDIA H200 SXM"))["llc"] == 15 * MIB
    assert list(footprints(gpu("AMD Instinct MI300X"))) == ["dram", "llc"]  # its L2 does not outlive a launch
    assert list(footprints(gpu("AMD Instinct MI355X"))) == ["dram", "llc", "l2"]


def test_footprints_of_a_cpu_grow_with_its_threads(monkeypatch):
    big = dataclasses.replace(CPU, llc_bytes=32 * MIB, l2_bytes=MIB, memory_bytes=1 << 40)
    for threads, dram, llc in ((2, 128, 8), (6, 384, 12), (64, 4096, 16)):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        assert footprints(big) == {"dram": dram * MIB, "llc": llc * MIB}
    small = dataclasses.replace(big, memory_bytes=1 << 33)
    assert footprints(small)["dram"] == 1024 * MIB  # an eighth of the memory


@pytest.mark.exclusive
def test_the_cpu_itself(monkeypatch):
    monkeypatch.setattr(module, "BUDGET_S", {"cpu": 0.05})
    monkeypatch.setattr(module, "CPU_DRAM_BYTES_PER_THREAD", 0)
    rows, remarks = module.calibrate(dataclasses.replace(CPU, llc_bytes=4 * MIB), TorchHost(), [], "auto")
    values = {(row["level"] or row["ceiling"], row["pattern"]): row["value"] for row in rows}
    assert not [
        remark for remark in remarks.values() if "below that of memory" not in remark
    ]  # others use this machine too
    assert 1e8 < values["llc", "read"] < 1e13
    assert values["launch", "empty warm"] < values["launch", "tile warm"]
    assert values["launch", "empty warm"] < values["launch", "empty cold"]
    assert values["launch", "empty warm"] < 1e-4


@pytest.mark.gpu
@pytest.mark.exclusive
@pytest.mark.parametrize(
    "timer", ["profiler", *(pytest.param(timer, marks=pytest.mark.slow) for timer in ("event", "graph"))]
)
def test_a_gpu_itself(timer):
    from rooflens.harness.machine.device import find_device

    device = find_device("cuda")
    torch.set_float32_matmul_precision("highest")
    rows, remarks = module.calibrate(device, accelerator(device), list(DType), timer)
    values = {
        (row["level"] or row["ceiling"], row["pattern"] or row["dtype"], row["kind"]): row["value"] for row in rows
    }
    assert not [remark for remark in remarks.values() if "not measured" in remark or "above" in remark]
    for pattern in Pattern:
        assert values["llc", pattern.value, "measured"] > 0
    assert values["llc", "read", "measured"] > values["dram", "read", "measured"]
    assert values["launch", "empty warm", "measured"] <= 1.1 * values["launch", "tile warm", "measured"]
    if timer != "graph":
        step = accelerator(device).resolution_s
        assert values["launch", "empty warm", "measured"] <= values["launch", "empty cold", "measured"] + 2 * step
        assert values["launch", "empty cold", "measured"] <= 1.1 * values["launch", "tile cold", "measured"]
    if device.spec and device.spec.bandwidth_bytes_per_s:
        assert 0.6 <= values["dram", "read", "measured"] / device.spec.bandwidth_bytes_per_s <= 1.02

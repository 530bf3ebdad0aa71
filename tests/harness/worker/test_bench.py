"""How many copies of its operands a cell rotates among, and how many cores a launch may use."""

import dataclasses
from contextlib import nullcontext

import pytest
import torch
from rooflens.harness.isolation.faults import ProviderError
from rooflens.harness.machine.device import find_device
from rooflens.harness.plan.plan import Cell
from rooflens.harness.timing.samples import Measurement
from rooflens.harness.worker import bench as bench_module
from rooflens.harness.worker.bench import Bench
from rooflens.harness.worker.messages import PREPARE_PHASE, TRY_PHASE
from rooflens.harness.worker.operands import Operands
from rooflens.kernels import registry
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.provider import Launch
from rooflens.shapes.problem import Op, Pass, Problem
from rooflens.shapes.protocol import Protocol
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme
from rooflens.shapes.shapeset import Shape
from rooflens.shapes.suite import Cache

LLC = 60 << 20
DEVICE = dataclasses.replace(find_device("cpu"), llc_bytes=LLC, memory_bytes=1 << 40)

MOE = Problem(4, 1536, 6144, op=Op.MOE_GEMM, E=32, top_k=4)


def cell(problem, scheme, cache=Cache.COLD):
    shape = Shape("model", "layer", problem.N, problem.K)
    return Cell("suite", shape, problem, parse_scheme(scheme, DType.BF16), "provider", cache)


@pytest.mark.parametrize(
    ("problem", "scheme", "bytes_each"),
    [
        (Problem(1, 4096, 4096), "mxfp8-rceil", 4096 * 4096 + 4097 * 128),
        (Problem(256, 1, 4096, op=Op.QUANTIZE), "mxfp8-quant-rceil", 2 * 256 * 4096),
        # X by columns in FP8, and dY in bf16: there is no weight to read, and scales are the least of it
        (Problem(8192, 4096, 4096, pass_=Pass.WGRAD), "fp8-blockwise", 3 * 8192 * 4096),
        (Problem(8192, 4096, 4096, pass_=Pass.WGRAD), "fp8-blockwise-prequantized", 2 * 8192 * 4096),
        (Problem(8192, 4096, 4096, pass_=Pass.DGRAD), "fp8-blockwise", 4096 * 4096 + 4 * 32 * 32),
        # 13 of 32 experts, whatever the seed; scales of theirs and of X
        (MOE, "mxfp8-moe-rceil", 13 * 1536 * 6144 * 33 // 32 + 4 * 6144 // 32),
    ],
)
def test_rotation_counts_what_every_launch_reads(problem, scheme, bytes_each):
    bench = Bench(DEVICE, Protocol(cold_by="rotation"))
    assert bench.copies(cell(problem, scheme)) == 1 + -(-2 * LLC // bytes_each)
    assert bench.copies(cell(problem, scheme, Cache.WARM)) == 1


@pytest.fixture
def busy(monkeypatch):
    """Return `busy(processor_s, allowed)`: look at a launch of 100 us, by when so much was used of 4 cores."""

    def look(processor_s, allowed):
        now, calls = [0.0], []
        monkeypatch.setattr(bench_module.time, "perf_counter", lambda: now[0])
        monkeypatch.setattr(bench_module.time, "process_time", lambda: processor_s(now[0]))
        monkeypatch.setattr(bench_module.os, "sched_getaffinity", lambda pid: range(4))
        monkeypatch.setattr(bench_module.torch, "get_num_threads", lambda: allowed)

        def run():
            calls.append(None)
            now[0] += 1e-4

        Bench(DEVICE, Protocol(cold_by="rotation"))._require_threads(Launch(run, torch.empty(0)))
        return len(calls)

    return look


@pytest.mark.parametrize(("used", "allowed"), [(1.0, 1), (1.9, 2), (1.9, 1), (4.0, 2), (4.0, 4)])
def test_a_launch_uses_no_more_cores_than_others_may(busy, used, allowed):
    """It could have threads of its own, or give torch more for the time of a call."""
    refused = pytest.raises(ProviderError, match=f"{used} cores busy, and threads is {allowed}")
    with refused if used > allowed + 0.5 else nullcontext():
        busy(lambda now: used * now, allowed)


def test_a_thread_that_is_busy_now_and_then_is_none_of_the_launch(busy):
    """It keeps a second core busy for as long as 30 launches take."""
    calls = busy(lambda now: now + min(now, 30e-4), 1)
    assert 30 < calls < 100, "it is looked at again until only the launch is busy, and no longer"


def test_a_search_leaves_out_samples_under_a_slowdown_and_checks_every_pass(monkeypatch):
    (provider,) = registry.load(["dequant_blas"]).values()
    device = find_device("cpu", 1 << 20)
    bench, busy = Bench(device, Protocol()), "other processes used 20% of the cores"
    begun, checked = [], []
    taken = Measurement((9e-6, 1e-6), ("thermal slowdown", ""), disturbed=busy)
    monkeypatch.setattr(bench_module, "measure", lambda subject, timer, rule, *_: taken)
    one = cell(Problem(1, 64, 128), "nf4-g64", Cache.WARM)
    operands = Operands(make_inputs(one.problem, one.scheme, device, seed=0))
    operands.draw(0)
    monkeypatch.setattr(bench, "_check_watched", lambda watch, taken: checked.append(taken) or operands.recall())
    found = bench.search(provider, one, operands, lambda *what: begun.append(what), nullcontext, "")
    assert {(row.reason, row.time_s, row.disturbed) for row in found.rows} == {("", 1e-6, busy)}
    assert begun[:3] == [(0, PREPARE_PHASE), (0, TRY_PHASE), (0, TRY_PHASE)]
    assert checked == [taken] * (sum(phase == TRY_PHASE for _, phase in begun) - len(found.rows))

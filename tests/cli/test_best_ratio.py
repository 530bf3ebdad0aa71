"""The best ratio so far: of geometric means, at its cell, and none before there is something to compare with."""

from types import SimpleNamespace

import pytest
from rooflens.cli.run.best_ratio import BestRatio, LeastTime
from rooflens.harness.ceilings import known_limits
from rooflens.harness.plan.plan import Cell
from rooflens.shapes.device import Device
from rooflens.shapes.problem import Problem as Gemm
from rooflens.shapes.run_folder.manifest import Manifest
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme
from rooflens.shapes.suite import Cache

from ..analysis.synthetic import CPU, H200


def told(*times, challengers=("a", "b")):
    best = BestRatio("base", challengers)
    for provider, M, time_s in times:
        best.add(cell(provider, M), time_s)
    return str(best)


class Scheme:
    dtype = "bf16"


SCHEME = Scheme()


class Problem:
    """Equal by its sizes, as the real one."""

    def __init__(self, M):
        self.M, self.N, self.K = M, 512, 2048

    def __eq__(self, other):
        return self.M == other.M

    def __hash__(self):
        return hash(self.M)


def cell(provider, M):
    return SimpleNamespace(provider=provider, shape="s", problem=Problem(M), scheme=SCHEME, cache="cold")


def test_there_is_none_before_both_sides_are_timed():
    assert told(("a", 1, 1.0), ("base", 2, 1.0)) == ""
    assert told(("base", 1, 2.0), ("other", 1, 1.0)) == ""
    assert told(("base", 1, 2.0), ("base", 1, 1.0), challengers=("base",)) == ""


def test_the_best_cell_of_the_best_challenger():
    times = [("base", 1, 6e-3), ("a", 1, 3e-3), ("b", 1, 2e-3), ("base", 8, 4e-3), ("a", 8, 1e-3)]
    assert told(*times) == "a ~4.00× over base at M=8 N=512 K=2048 bf16 cold"


def test_a_further_round_counts_by_the_geometric_mean_as_in_the_report():
    first = [("base", 1, 6e-3), ("a", 1, 1e-3)]
    assert told(*first) == "a ~6.00× over base at M=1 N=512 K=2048 bf16 cold"
    assert told(*first, ("a", 1, 8e-3), ("a", 1, 1e-3)) == "a ~3.00× over base at M=1 N=512 K=2048 bf16 cold"
    assert told(*first, ("base", 1, 1.5e-3)) == "a ~3.00× over base at M=1 N=512 K=2048 bf16 cold"


def test_a_kernel_that_turns_out_wrong_is_forgotten():
    best = BestRatio("base", ("a", "b"))
    for provider, time_s in (("base", 6e-3), ("a", 1e-3), ("b", 3e-3)):
        best.add(cell(provider, 1), time_s)
    best.drop(cell("a", 1))
    assert str(best) == "b ~2.00× over base at M=1 N=512 K=2048 bf16 cold"
    best.drop(cell("base", 1))
    assert str(best) == ""


def test_a_time_that_the_device_does_not_allow_is_left_out_and_counted():
    best = BestRatio("base", ("a",), least_time=lambda cell: 2e-3)
    for provider, M, time_s in (("base", 1, 6e-3), ("a", 1, 1.9e-3), ("base", 8, 4e-3), ("a", 8, 2e-3)):
        best.add(cell(provider, M), time_s)
    told = "a ~2.00× over base at M=8 N=512 K=2048 bf16 cold; 1 rounds excluded, faster than the device allows"
    assert str(best) == told.replace("1 rounds", "1 round")


@pytest.mark.parametrize(
    ("M", "device", "least_s"),
    [
        (1, H200, (4096 * 4096 // 2 + 4 * (4096 * 4096 // 64) + 2 * 4096) / 4.8e12),  # W, its absmax and X are read
        (8192, H200, 2 * 8192 * 4096 * 4096 / 989.4e12),
        (1, CPU, 2 * 4096 * 4096 / (2 * 4e9 * 64)),  # no bandwidth is published
        (8192, CPU, 2 * 8192 * 4096 * 4096 / (2 * 4e9 * 64)),  # 2 cores at 4 GHz, two ports of 512 bits
    ],
)
def test_the_least_time_of_a_device_follows_from_what_is_published_or_derived(monkeypatch, M, device, least_s):
    monkeypatch.setattr(known_limits, "maximum_clock_hz", lambda: 4e9)
    monkeypatch.setattr(known_limits.cpu_info, "flags", lambda: frozenset({"sse2", "avx", "avx512f"}))
    one = Cell("s", None, Gemm(M=M, N=4096, K=4096), parse_scheme("nf4-g64", DType.BF16), "p", Cache.COLD)
    least = LeastTime(Manifest(device=Device(**device.device)))
    assert least(one) == pytest.approx(0.98 * least_s)
    assert least(one) == least(one)
    monkeypatch.setattr(known_limits, "maximum_clock_hz", lambda: None)
    unknown = LeastTime(Manifest(device=Device(**device.device | {"name": "a device that no table has"})))
    assert unknown(one) == 0

"""Probes: do they touch what they say, in the order they say; compiled for every GPU, and run in the interpreter."""

import collections
import itertools
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rooflens.kernels import aot
from rooflens.kernels.fourbit import cpu_library
from rooflens.kernels.fourbit.cpu import SIMD_CPU
from rooflens.kernels.probes import cpu_probes
from rooflens.kernels.probes.floors import floors
from rooflens.kernels.probes.probe import Pattern
from rooflens.kernels.probes.products import products
from rooflens.kernels.probes.sweeps import sweeps, torch_sweep
from rooflens.kernels.probes.triton import floors as triton_floors
from rooflens.kernels.probes.triton import streams as triton_streams
from rooflens.kernels.probes.triton.streams import BLOCK_BYTES, BLOCK_WORDS, SLICES, again_and_again, once
from rooflens.shapes.device import Device
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes.fourbit import FourBit

from .ahead_of_time import check_build, mostly_slow, text
from .devices import CPU
from .interpreter import interpreted


def visited(order, program):
    """Blocks of one program, in order."""
    return [(program + visit * order.step) % order.blocks for visit in range(order.visits)]


# ---- the order of the visits ----------------------------------------------------------------------------------------


@given(st.integers(1, 400), st.integers(0, 1 << 26))
def test_once_visits_every_block_exactly_once(programs, footprint):
    order = once(footprint, programs)
    counts = collections.Counter(block for program in range(programs) for block in visited(order, program))
    assert set(counts) == set(range(order.blocks))
    assert set(counts.values()) == {1}
    assert order.passes == 1
    assert order.visited_bytes == order.blocks * BLOCK_BYTES
    if footprint >= programs * BLOCK_BYTES:
        assert footprint - programs * BLOCK_BYTES < order.visited_bytes <= footprint


@given(st.integers(1, 3000), st.integers(SLICES * BLOCK_BYTES, 1 << 26), st.booleans())
def test_again_and_again_comes_back_to_a_block_last(programs, footprint, stay):
    order = again_and_again(footprint, programs, least_bytes=1, stay=stay)
    assert order.blocks * BLOCK_BYTES <= footprint < (order.blocks + SLICES) * BLOCK_BYTES
    assert 0 < order.step <= order.blocks
    mine = order.blocks // SLICES if stay else order.blocks
    ring = list(itertools.islice(itertools.accumulate(itertools.repeat(order.step), initial=0), mine))
    seen = {block % order.blocks for block in ring}
    assert len(seen) == mine  # no block twice before all of them
    if stay:
        assert {block % SLICES for block in seen} == {0}  # on whichever of 1, 2, 3, 4, 6 or 8 chiplets: its own part


@given(st.integers(1, 3000), st.integers(1, 1 << 34))
def test_again_and_again_moves_what_was_asked_for(programs, least_bytes):
    order = again_and_again(1 << 24, programs, least_bytes, stay=False)
    assert least_bytes <= order.visited_bytes < least_bytes + programs * BLOCK_BYTES


def test_all_blocks_are_visited_about_equally_often():
    for stay in (False, True):
        order = again_and_again(15 << 20, 8 * 132, 1 << 30, stay)
        counts = collections.Counter(b for program in range(order.programs) for b in visited(order, program))
        assert len(counts) == order.blocks
        assert max(counts.values()) <= 1.1 * min(counts.values())
        assert sum(counts.values()) * BLOCK_BYTES == order.visited_bytes


# ---- the kernels in the interpreter ---------------------------------------------------------------------------------


ORDERS = (
    triton_streams.VisitOrder(blocks=6, programs=3, step=3, visits=2),
    triton_streams.VisitOrder(blocks=5, programs=3, step=2, visits=7),
    triton_streams.VisitOrder(blocks=4, programs=6, step=3, visits=3),
    triton_streams.VisitOrder(blocks=7, programs=2, step=1, visits=2),
)


def paths(order):
    return [visited(order, program) for program in range(order.programs)]


def ramp(blocks):
    """Odd numbers, which differ from block to block."""
    return torch.arange(1, 2 * blocks * BLOCK_WORDS, 2, dtype=torch.int64).mul(987654321).to(torch.int32)


def sweep(pattern, order, halves=1):
    """Memory before and after a sweep, by block."""
    data = ramp(halves * order.blocks)
    before = data.clone()
    probe = triton_streams.sweep(pattern, data, order, ".cg")
    probe.run()
    assert probe.moved_bytes == halves * order.programs * order.visits * BLOCK_BYTES
    return before.view(halves, order.blocks, -1), data.view(halves, order.blocks, -1)


@interpreted
def test_read_sums_exactly_the_blocks_that_it_visits():
    for order in ORDERS:
        before, after = sweep(Pattern.READ, order)
        assert torch.equal(before, after)
        sums = torch.zeros(order.programs, dtype=torch.int32)
        triton_streams.read_kernel[(order.programs,)](
            after.view(-1), sums, order.blocks, order.step, order.visits, BLOCK=BLOCK_WORDS, MODIFIER=".cg"
        )
        of_block = before[0].to(torch.int64).sum(1).tolist()
        expected = [sum(of_block[block] for block in path) % 2**32 for path in paths(order)]
        assert [total % 2**32 for total in sums.tolist()] == expected


@interpreted
def test_write_leaves_the_number_of_the_last_visit():
    for order in ORDERS[:3]:
        _, after = sweep(Pattern.WRITE, order)
        last = {}
        for path in paths(order):  # the interpreter runs one program after another
            last |= {block: visit for visit, block in enumerate(path)}
        offset = after[0] - torch.arange(BLOCK_WORDS, dtype=torch.int32)
        expected = torch.tensor([[1 + last[block]] for block in range(order.blocks)])
        assert (offset == expected).all()


@interpreted
def test_copy_copies_the_blocks_that_it_visits_and_no_others():
    for order in (ORDERS[0], ORDERS[3]):
        before, (source, target) = sweep(Pattern.COPY, order, halves=2)
        reached = {block for path in paths(order) for block in path}
        assert torch.equal(source, before[0])
        assert [torch.equal(*pair) for pair in zip(source, target, strict=True)] == [
            block in reached for block in range(order.blocks)
        ]
    assert len(reached) < order.blocks


def check_tile(device):
    x, w, y = triton_floors.tile_operands(device)
    tile = triton_floors.tile_launch(x, w, y)
    tile.run()
    exact = x.double() @ w.double().t()
    assert (y.double() - exact).abs().max() < 2**-11 * exact.abs().max()  # fp16 rounds once
    assert tile.moved_bytes == 2 * (16 * 64 + 64 * 64 + 16 * 64)


@interpreted
def test_tile_is_a_product_and_empty_is_nothing():
    torch.manual_seed(1)
    check_tile(CPU)
    empty = triton_floors.empty_launch(CPU)
    empty.run()
    assert empty.moved_bytes == 0


# ---- the kernels compiled -------------------------------------------------------------------------------------------

PATH = {"blocks": 1920, "step": 1057, "visits": 100}


def modifier(arch):
    vendor = "AMD" if arch.startswith("gfx") else "NVIDIA"
    return triton_streams.cache_modifier(Device("cuda", 0, arch, vendor, arch, 132, 1 << 26, 1 << 26, 1 << 36))


def requests(arch):
    streams, tiles = "rooflens.kernels.probes.triton.streams", "rooflens.kernels.probes.triton.floors"
    block = {"BLOCK": BLOCK_WORDS}
    loads = block | {"MODIFIER": modifier(arch)}
    sizes = {"M": triton_floors.TILE_M, "N": triton_floors.TILE_N, "K": triton_floors.TILE_K}
    options = triton_streams.OPTIONS
    return {
        "read": aot.BuildRequest(f"{streams}:read_kernel", {"data": "*i32", "out": "*i32", **PATH}, loads, options),
        "write": aot.BuildRequest(f"{streams}:write_kernel", {"data": "*i32", **PATH}, block, options),
        "copy": aot.BuildRequest(
            f"{streams}:copy_kernel", {"source": "*i32", "target": "*i32", **PATH}, loads, options
        ),
        "empty": aot.BuildRequest(f"{tiles}:empty_kernel", {"unused": "*i32"}, {}, triton_floors.OPTIONS),
        "tile": aot.BuildRequest(
            f"{tiles}:tile_kernel", {"x": "*fp16", "w": "*fp16", "y": "*fp16"}, sizes, triton_floors.OPTIONS
        ),
    }


LOAD = {"sm": r"LDG\.E\.128\.STRONG\.GPU", "gf": r"(?:buffer|global)_load_(?:dwordx4|b128)"}
STORE = {"sm": r"STG\.E\.128", "gf": r"(?:buffer|global)_store_(?:dwordx4|b128)"}
LOOP = {
    "sm": r"\.?(L_x_\d+):(?:(?!\1\b).)*?%s.*?BRA[^\n]*\1\b",
    "gf": r"(\.LBB0_\d+):(?:(?!\1\b).)*?%s.*?s_cbranch\w*\s+\1\b",
}


@pytest.mark.parametrize("arch", mostly_slow("sm90 gfx942"))
def test_kernels_compile_without_spills(builds, arch):
    for build in builds[arch].values():
        check_build(build, arch)
    assert builds[arch]["empty"].registers <= 8


@pytest.mark.parametrize("arch", mostly_slow("sm90 gfx942"))
def test_sweeps_load_and_store_16_bytes_at_a_time_in_their_loop(builds, arch):
    family = arch[:2]
    for name, patterns in (("read", [LOAD]), ("write", [STORE]), ("copy", [LOAD, STORE])):
        for pattern in patterns:
            assert re.search(LOOP[family] % pattern[family], text(builds[arch][name]), re.DOTALL), (name, pattern)


@pytest.mark.parametrize("arch", mostly_slow("gfx942", [arch for arch in aot.ARCHES if arch.startswith("gfx")]))
def test_loads_on_amd_do_not_say_that_a_line_is_used_once(builds, arch):
    for name in ("read", "copy"):
        assert not re.search(r"(?:buffer|global)_load_[^\n]*\b(?:nt|slc|glc|sc0|th:|scope:)", text(builds[arch][name]))


@pytest.mark.parametrize("arch", mostly_slow("sm90 gfx942"))
def test_the_tile_is_one_product_on_the_matrix_units(builds, arch):
    assert re.search(r"HMMA|HGMMA|UTC\w*MMA|v_mfma|v_wmma", text(builds[arch]["tile"]))


# ---- the probes of the CPU ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("streaming", [False, True])
def test_cpu_fill_and_copy_reach_every_byte(threads, streaming):
    for words in (16, 512 * 3 + 16, 40_000):
        room = torch.zeros(words + 16, dtype=torch.int64)
        data, beyond = room[:words], room[words:]
        cpu_probes.sweep(Pattern.WRITE, data, threads, passes=3, streaming=streaming).run()
        assert (data == data[0]).all()
        assert data[0] != 0
        data[: words // 2] = torch.arange(words // 2)
        cpu_probes.sweep(Pattern.COPY, data, threads, streaming=streaming).run()
        assert torch.equal(*data.view(2, -1))
        assert not beyond.any()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_cpu_passes_read_every_word_and_leave_the_data_alone(threads):
    data = torch.randint(0, 1 << 40, (386 * 32,), dtype=torch.int64)
    before = data.clone()
    assert cpu_probes.sweep(Pattern.READ, data, threads, passes=5).run() == 5 * int(data.sum())
    assert torch.equal(data, before)


@pytest.mark.parametrize("pattern", Pattern)
@pytest.mark.parametrize("level", ["dram", "llc"])
def test_sweeps_of_the_cpu_count_the_bytes_they_move(pattern, level):
    data = torch.arange(1 << 14, dtype=torch.int32)
    probes = list(sweeps(CPU, level, pattern, data))
    assert probes
    for probe in probes:
        data.copy_(torch.arange(1 << 14))
        probe.run()
        passes = int(match[1]) if (match := re.search(r"(\d+) times", probe.how)) else 1
        assert probe.moved_bytes == passes * data.nbytes
        if pattern is Pattern.COPY:
            assert torch.equal(data[: 1 << 13], data[1 << 13 :]), probe.how
        elif pattern is Pattern.WRITE:
            assert not torch.equal(data, torch.arange(1 << 14, dtype=torch.int32)), probe.how
        else:
            assert torch.equal(data, torch.arange(1 << 14, dtype=torch.int32)), probe.how


def test_without_a_compiler_torch_reads_and_starts(monkeypatch):
    def missing(*_, **__):
        raise cpu_library.BuildError(cpu_library.NO_COMPILER)

    monkeypatch.setattr(cpu_probes, "Call", missing)
    data = torch.ones(1 << 10, dtype=torch.int32)
    assert [probe.how.split(" of ")[0] for probe in sweeps(CPU, "dram", Pattern.READ, data)] == ["torch sum"]
    with pytest.raises(cpu_library.BuildError):
        list(sweeps(CPU, "dram", Pattern.WRITE, data))
    assert [name for name, _ in floors(CPU)] == ["empty"]


def test_floors_of_the_cpu_run():
    found = dict(floors(CPU))
    assert list(found) == ["empty", "tile"]
    for probe in found.values():
        probe.run()
    assert found["tile"].moved_bytes == torch.get_num_threads() * cpu_probes.TILE_BYTES


# ---- on a GPU -------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
def test_sweeps_on_a_gpu_touch_what_they_say():
    from rooflens.harness.machine.device import find_device

    device = find_device("cuda")
    data = torch.randint(-(1 << 31), 1 << 31, (1 << 22,), dtype=torch.int32, device=device.torch_name)
    before = data.clone()
    for stay, per_unit in itertools.product((None, False, True), triton_streams.PROGRAMS_PER_UNIT):
        programs = min(per_unit * device.compute_units, data.numel() // 2 // BLOCK_WORDS)
        half = data.nbytes // 2
        order = once(half, programs) if stay is None else again_and_again(half, programs, 1 << 28, stay)
        sums = torch.zeros(programs, dtype=torch.int32, device=data.device)
        path = (order.blocks, order.step, order.visits)
        modifier = triton_streams.cache_modifier(device)
        triton_streams.read_kernel[(programs,)](data, sums, *path, BLOCK=BLOCK_WORDS, MODIFIER=modifier, num_warps=4)
        block_sums = data[: order.blocks * BLOCK_WORDS].view(order.blocks, -1).sum(dim=1).tolist()
        expected = [sum(block_sums[block] for block in visited(order, program)) for program in range(programs)]
        assert [total % 2**32 for total in sums.tolist()] == [total % 2**32 for total in expected]
        assert torch.equal(data, before)
        triton_streams.sweep(Pattern.COPY, data, order, modifier).run()
        words = order.blocks * BLOCK_WORDS
        assert torch.equal(data[:words], data[words : 2 * words])
        triton_streams.sweep(Pattern.WRITE, data, order, modifier).run()
        offset = data[:words].view(-1, BLOCK_WORDS) - torch.arange(BLOCK_WORDS, dtype=torch.int32, device=data.device)
        assert ((offset >= 1) & (offset <= order.visits)).all()
        data.copy_(before)
    torch.cuda.synchronize()


@pytest.mark.gpu
def test_the_tile_on_a_gpu_is_torchs_product():
    from rooflens.harness.machine.device import find_device

    check_tile(find_device("cuda"))


@pytest.mark.gpu
@pytest.mark.parametrize("pattern", Pattern)
def test_torchs_sweeps_run_on_a_gpu(pattern):
    data = torch.zeros(1 << 20, dtype=torch.int32, device="cuda")
    probe = torch_sweep(pattern, data)
    probe.run()
    torch.cuda.synchronize()
    assert probe.moved_bytes == data.nbytes


@pytest.mark.parametrize("math_dtype", ["bf16", "fp16", "fp32"])
def test_the_peak_of_a_cpu_is_sought_with_our_own_kernel_too(math_dtype):
    found = {words: call for call, words in products(CPU, math_dtype, 8, 64, 128)}
    assert list(found) == ["torch.mm", "simd_4bit_cpu on nf4-g64"]
    for call in found.values():
        call()
    gpu = Device("cuda", 0, "gpu", "NVIDIA", "sm90", 1, 1 << 20, 1 << 20, 1 << 30)
    assert not SIMD_CPU.supports(Problem(M=8, N=64, K=128), FourBit("nf4", 64, DType(math_dtype)), gpu).ok

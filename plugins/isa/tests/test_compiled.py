"""Real compiles: the counts agree with the tile, with what the compiler says of itself, and with a second look."""

import re
from functools import cache
from pathlib import Path

import pytest
from rooflens.kernels import registry
from rooflens.plugins.isa.compiled.account import account, amd_registers
from rooflens.plugins.isa.compiled.compile_all import BuildCache, compile_all
from rooflens.plugins.isa.compiled.occupancy import waves_by_registers
from rooflens.plugins.isa.compiled.scan import Asked, scan
from rooflens.shapes.gpu_architectures import architecture
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme
from rooflens.shapes.verdict import Verdict

from tests.kernels.ahead_of_time import mostly_slow

ARCHES = ("gfx942", "gfx950", "gfx1201", "sm80", "sm90", "sm100")
WHOLE = "gfx942"
"""The one that every change compiles for."""
NF4 = parse_scheme("nf4-g64", DType.BF16)
ASKED = (("simt_4bit", Problem(1, 4096, 4096)), ("mma_4bit", Problem(16, 4096, 4096)))
PROBES = Path(__file__).parent / "isa_probes.py"


def collected(entries, cache, **options):
    """Compile the requests of entries, in order; beside each build whether it came from the cache."""
    found = {}
    tasks = [(entry.arch, entry.request) for entry in entries]
    compile_all(tasks, cache, lambda index, build, cached: found.update({index: (build, cached)}), **options)
    return [found[index] for index in range(len(tasks))]


@pytest.fixture(scope="module")
def compiled(builder):
    """Of an architecture: (entry, build) of the default configurations."""

    @cache
    def of(arch):
        providers = registry.load([name for name, _ in ASKED])
        entries = scan([Asked(providers[name], problem, NF4) for name, problem in ASKED], [arch], defaults_only=True)
        builds = [builder.build(arch, entry.request) for entry in entries]
        assert [build.verdict for build in builds] == [Verdict.PASSED] * len(ASKED)
        return list(zip(entries, builds, strict=True))

    return of


@pytest.mark.parametrize("arch", mostly_slow(WHOLE, ARCHES))
def test_the_main_loop_multiplies_one_tile_of_k(compiled, arch):
    (simt, simt_build), (mma, mma_build) = compiled(arch)
    values = account(simt_build, arch, simt.request.decoded)
    assert values["matrix"] == values["loop_matrix"] == 0
    values = account(mma_build, arch, mma.request.decoded)
    name = values["matrix_instructions"]
    shape = re.search(r"m(\d+)n(\d+)k(\d+)", name) or re.search(r"_(\d+)x(\d+)x(\d+)", name)
    if arch == "sm100":  # tcgen05 has its shape in a descriptor: 128 or 64 rows, 16 deep
        assert shape is None
        return
    m, n, k = map(int, shape.groups())
    together = 4 if "wgmma" in name else 1  # warps that issue one instruction
    tile = mma.config["BLOCK_M"] * mma.config["BLOCK_N"] * mma.config["BLOCK_K"]
    assert values["loop_matrix"] * m * n * k * mma_build.warps // together == tile, name


@pytest.mark.parametrize("arch", mostly_slow(WHOLE, [arch for arch in ARCHES if architecture(arch).is_amd]))
def test_occupancy_by_registers_is_what_the_compiler_writes(compiled, arch):
    for _, build in compiled(arch):
        written = re.search(r"^; Occupancy: (\d+)", build.assembly, re.MULTILINE)
        scalar = amd_registers(build.assembly)["sgprs"]
        assert waves_by_registers(arch, build.registers, scalar) == int(written[1])


@pytest.mark.parametrize("arch", mostly_slow(WHOLE, ARCHES))
def test_weights_of_simt_are_decoded_in_the_loop(compiled, arch):
    """2 to 2.75 permutes per weight (test_triton_compiled), and the multiply-add, unpacking and scale beside them."""
    (entry, build), _ = compiled(arch)
    values = account(build, arch, entry.request.decoded)
    lanes = build.warps * architecture(arch).wave_size
    assert values["decoded"] == entry.config["BLOCK_N"] * entry.config["BLOCK_K"]
    work = values["loop_valu"] + values["loop_convert"]
    assert values["decode_per_weight"] == pytest.approx(work / (values["decoded"] / lanes), rel=1e-3)
    assert 3 < values["decode_per_weight"] < 8
    if arch in ("sm80", "sm90"):  # the permutes; the multiply-add and the conversion are none
        assert 2 < values["decode_integer_per_weight"] < values["decode_per_weight"] - 2
    elif architecture(arch).is_amd:
        assert "decode_integer_per_weight" not in values


@pytest.mark.parametrize("arch", mostly_slow(WHOLE, ARCHES))
def test_registers_of_amd_are_those_of_the_metadata(compiled, arch):
    for _, build in compiled(arch):
        values = account(build, arch)
        if arch.startswith("gfx9"):
            both = -(-values["vgprs"] // 4) * 4 + values["agprs"] if values["agprs"] else values["vgprs"]
            assert both == build.registers
        assert values["vgprs"] > 0
        assert values["scratch_bytes"] == 0
        assert "decode_per_weight" not in values


def probed(*names):
    probes = registry.load((), [PROBES])
    return scan([Asked(probes[name], Problem(64, 64, 64), NF4) for name in names], ["gfx950"], defaults_only=True)


def test_a_damaged_file_in_the_cache_is_compiled_again(tmp_path):
    (entry,), cache = probed("plain"), BuildCache(tmp_path)
    file = tmp_path / f"{cache.key(entry.arch, entry.request)}.json.gz"
    file.write_bytes(b"\x1f\x8b broken")
    ((build, cached),) = collected([entry], cache, files=[PROBES])
    assert (build.verdict, cached) == (Verdict.PASSED, False)
    assert collected([entry], cache) == [(build, True)]


def test_a_hang_costs_one_kernel(tmp_path):
    found = collected(probed("sleeping", "aborting"), BuildCache(tmp_path), timeout_s=4, files=[PROBES])
    assert [build.verdict for build, _ in found] == [Verdict.TIMEOUT, Verdict.CRASHED]
    assert found[0][0].reason == "not compiled after 4 s"


def test_a_death_costs_one_kernel_and_is_tried_again(tmp_path):
    entries, cache = probed("aborting", "plain"), BuildCache(tmp_path)
    found = collected(entries, cache, files=[PROBES])
    assert [build.verdict for build, _ in found] == [Verdict.CRASHED, Verdict.PASSED]
    assert "killed by SIGABRT" in found[0][0].reason
    kept = [cache.load(cache.key(entry.arch, entry.request)) for entry in entries]
    assert kept == [None, found[1][0]]

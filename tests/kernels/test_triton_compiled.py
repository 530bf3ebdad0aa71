"""Every Triton kernel compiled for every GPU architecture, without a GPU: the machine code is as intended."""

import re
import struct
from functools import partial
from typing import NamedTuple

import numpy as np
import pytest
import torch
import triton
from rooflens.kernels import aot, registry
from rooflens.kernels.fourbit.quantize import code_table
from rooflens.kernels.fourbit.triton.dequantize import dequantize_call
from rooflens.kernels.fourbit.triton_codes import exact_planes, half_planes
from rooflens.kernels.fourbit.triton_configs import tile_configs
from rooflens.kernels.fourbit.triton_providers import target_isa
from rooflens.kernels.inputs import placeholders
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes.fourbit import FourBit

from . import emulate_isa
from .ahead_of_time import (
    MATRIX_16,
    WIDE,
    Made,
    announces_after_its_stores,
    check_build,
    every,
    main_loop,
    text,
)
from .devices import gpu
from .synthetic import scheme_of

pytestmark = pytest.mark.slow

WAVE = {arch: 64 if arch in ("gfx90a", "gfx942", "gfx950") else 32 for arch in aot.ARCHES}


class Case(NamedTuple):
    kernel: str
    M: int
    N: int
    K: int
    scheme: str
    dtype: str


EVERYWHERE = (
    Case("simt_4bit", 1, 4096, 4096, "nf4-g64", "bf16"),
    Case("simt_4bit", 8, 4096, 4096, "nf4-g64-nested-bias", "bf16"),
    Case("gemv_4bit", 8, 4096, 4096, "nf4-g64", "bf16"),
    Case("gemv_4bit_opt", 1, 512, 4096, "nf4-g64", "fp16"),
    Case("mma_4bit", 16, 4096, 4096, "nf4-g64", "bf16"),
    Case("mma_4bit", 16, 4096, 4096, "nf4-g64", "fp32"),
    Case("simt_4bit", 1, 4096, 4096, "int4-g128-zp", "bf16"),
    Case("simt_4bit", 8, 4096, 2880, "mxfp4", "fp16"),
    Case("mma_4bit", 16, 4096, 4096, "nvfp4", "bf16"),
)
MORE = (
    Case("simt_4bit", 2, 4096, 2880, "fp4-g128", "fp16"),
    Case("simt_4bit", 8, 4096, 4096, "nf4-g64", "fp32"),
    Case("simt_4bit", 8, 512, 2883, "nf4-g128-nested", "fp32"),
    Case("mma_4bit", 64, 4096, 4096, "fp4-g64-nested-bias", "fp16"),
    Case("mma_4bit", 256, 4096, 4096, "nf4-g64", "bf16"),
    Case("mma_4bit", 16, 512, 2882, "nf4-g64", "fp16"),
)
THOROUGH = ("sm90", "gfx942", "gfx1100")
"""One architecture of each family compiles MORE as well."""
PLANES = {"nf4 fp16": half_planes("nf4"), "nf4 fp32": exact_planes("nf4"), "fp4 fp16": half_planes("fp4")}


def fused_cases(arch):
    return EVERYWHERE + (MORE if arch in THOROUGH else ())


def configured(case, arch):
    problem, scheme = Problem(case.M, case.N, case.K), scheme_of(case.scheme, case.dtype)
    return problem, scheme, tile_configs(case.kernel, problem, scheme, gpu(arch))[0].as_json()


def fused_request(case, arch):
    problem, scheme, config = configured(case, arch)
    (request,) = registry.load([case.kernel])[case.kernel].builds(problem, scheme, gpu(arch), config)
    return request


def stock_request(arch, dtype):
    provider, problem = registry.load(["stock_triton"])["stock_triton"], Problem(64, 4096, 4096)
    scheme = FourBit("nf4", 64, DType(dtype))
    (config,) = provider.candidates(problem, scheme, gpu(arch))
    (request,) = provider.builds(problem, scheme, gpu(arch), config)
    return request


def dequantize_request(arch):
    inputs = placeholders(Problem(1, 4096, 4096), scheme_of("nf4-g64-nested"), gpu(arch))
    return dequantize_call(inputs, torch.empty(4096, 4096, dtype=torch.bfloat16, device="meta")).request()


def decode_request(arch, planes):
    codes = {name: value for name, value in planes.constants().items() if name != "SCALE"}
    constants = {**codes, "BLOCK": 4 * WAVE[arch], "ISA": target_isa(gpu(arch))}
    return aot.BuildRequest(
        "triton_probes:decode_kernel", {"words": "*i32", "out": "*fp32"}, constants, {"num_warps": 4}
    )


def requests(arch):
    """{Case or name: BuildRequest}; each is made when it is looked at: collecting tests needs the names only."""
    chosen = {case: partial(fused_request, case, arch) for case in fused_cases(arch)}
    chosen |= {f"stock {dtype}": partial(stock_request, arch, dtype) for dtype in ("bf16", "fp32")}
    chosen |= {"dequantize": partial(dequantize_request, arch)}
    chosen |= {f"decode {name}": partial(decode_request, arch, planes) for name, planes in PLANES.items()}
    return Made(chosen, lambda name: chosen[name]())


def count(pattern, build):
    return len(re.findall(pattern, text(build), re.MULTILINE))


@pytest.mark.parametrize(("arch", "name"), every(requests))
def test_all_kernels_compile_without_spills(builds, arch, name):
    build = builds[arch][name]
    check_build(build, arch, most_shared=65536 if arch.startswith("gfx") else 163840)
    assert 0 < build.registers <= 512


@pytest.mark.parametrize("arch", aot.ARCHES)
def test_packed_weights_are_loaded_16_bytes_at_a_time(builds, arch):
    for case in fused_cases(arch):
        if case.K % 32 == 0 and case.kernel != "gemv_4bit":
            assert count(WIDE, builds[arch][case]), case
    assert count(WIDE, builds[arch]["dequantize"])


@pytest.mark.parametrize("arch", aot.ARCHES)
def test_mma_uses_matrix_instructions_and_simt_does_not(builds, arch):
    anything = r"HMMA|HGMMA|UTC\w*MMA|v_mfma|v_wmma"
    for case in fused_cases(arch):
        if case.kernel != "mma_4bit":
            assert not count(anything, builds[arch][case]), case
        elif case.dtype != "fp32" and case.K % 8 == 0:
            assert count(MATRIX_16[arch], builds[arch][case]), case
    assert count(MATRIX_16[arch], builds[arch]["stock bf16"])


@pytest.mark.parametrize("arch", aot.ARCHES)
def test_fp32_is_never_multiplied_as_tf32(builds, arch):
    for request in builds[arch]:
        if request == "stock fp32" or (isinstance(request, Case) and request.dtype == "fp32"):
            build = builds[arch][request]
            assert not re.search(r"tf32|xf32", build.assembly + build.machine_code, re.IGNORECASE), request


@pytest.mark.parametrize("arch", aot.ARCHES)
def test_parts_of_k_have_left_every_wave_before_the_program_announces_them(builds, arch):
    case = next(case for case in EVERYWHERE if configured(case, arch)[2]["SPLIT_K"] > 1)
    assert announces_after_its_stores(builds[arch][case], arch)


@pytest.mark.parametrize("arch", aot.ARCHES)
def test_simt_looks_codes_up_in_registers(builds, arch):
    """A table in memory would cost a load per weight or pair of weights: the loop has fewer loads of any kind."""
    case = EVERYWHERE[0]
    *_, config = configured(case, arch)
    weights = config["BLOCK_N"] * config["BLOCK_K"] // (config["num_warps"] * WAVE[arch])
    body = main_loop(builds[arch][case])
    loads = re.findall(
        r"\b(?:LDG|LDS|LDSM|LDGSTS|LDL)\b|\b(?:buffer|global|flat|scratch)_load|\bds_(?:read|load)", body
    )
    assert 0 < len(loads) * 2 < weights
    # 12 permutes look up and 4 interleave the two planes of 8 fp16 codes; converting activations may take a few more.
    permutes = len(re.findall(r"\bPRMT\b|\bv_perm_b32", body))
    assert 2 * weights <= permutes <= 2.75 * weights


@pytest.mark.parametrize("arch", aot.ARCHES)
@pytest.mark.parametrize("table", PLANES)
def test_emitted_decode_has_the_exact_truth_table(builds, arch, table):
    """Execute the compiler's output in numpy: inline assembly, operand order and selectors included."""
    if triton.__version__.split(".")[:2] != ["3", "9"]:
        pytest.skip("the emulator knows the instructions that Triton 3.9 emits here")
    words = np.random.default_rng(4).integers(0, 1 << 32, 128, dtype=np.uint64).astype(np.uint32)
    assembly = builds[arch][f"decode {table}"].assembly
    decoded = (
        emulate_isa.Gcn(words).run(assembly, "decode_kernel")
        if arch.startswith("gfx")
        else emulate_isa.Ptx(words).run(assembly)
    )
    octets = words.view(np.uint8).reshape(-1, 4)
    nibbles = np.stack([octets >> 4, octets & 15], axis=-1).reshape(-1, 8)
    kind, pattern = table.split()
    codes = code_table(kind, "cpu").numpy() * np.float32(12 if kind == "fp4" else 1)
    expected = codes.astype(np.float16).astype(np.float32) if pattern == "fp16" else codes
    assert set(nibbles.reshape(-1).tolist()) == set(range(16))
    assert (decoded == expected[nibbles]).all()


def test_fp4_table_times_twelve_is_exact():
    twelfths = (0, 0.0625, 8, 12, 4, 6, 2, 3)  # published magnitudes of the bitsandbytes FP4 codes 000..111, times 12
    assert half_planes("fp4").values() == (*twelfths, *(-value for value in twelfths))
    assert half_planes("fp4").planes[0] == 0, "one plane is enough"
    assert half_planes("fp4").scale == 1 / 12


@pytest.mark.parametrize("kind", ["nf4", "fp4"])
def test_exact_table_is_the_code_table_to_the_bit(kind):
    values = struct.pack("<16f", *exact_planes(kind).values())
    assert values == code_table(kind, "cpu").numpy().tobytes()

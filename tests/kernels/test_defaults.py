"""What providers of every family begin with: small tiles for few rows, and a grid that fills the device."""

import pytest
from rooflens.kernels import registry
from rooflens.kernels.jit.tiles import MAX_SPLIT
from rooflens.shapes.problem import Problem

from .contract_cases import moe
from .devices import H200, gpu
from .synthetic import scheme_of

NF4, MX, MOE, AO = "nf4-g64", "mxfp8-rceil", "mxfp8-moe-rceil", "ao-1x128-128x128"

DEFAULTS = [
    *(("mma_4bit", NF4, Problem(m, 4096, 4096), gpu(), {"BLOCK_M": block})
      for first, end, block in ((1, 17, 16), (17, 33, 32), (33, 70, 64)) for m in range(first, end)),
    *(("simt_4bit", NF4, Problem(m, 4096, 4096), gpu(), {"BLOCK_M": block})
      for m, block in enumerate((1, 2, 4, 4, 8, 8, 8, 8, 8), start=1)),
    *(("simt_4bit", NF4, Problem(1, n, k), gpu(compute_units=units), {"SPLIT_K": split})
      for n, k, units, split in (
          (512, 4096, 1, 1),  # 64 programs are more than enough for one unit
          (512, 4096, 132, 2),  # 64 programs for 132 units, four tiles of K: two each
          (512, 65536, 132, MAX_SPLIT),
          (28672, 8192, 132, 1),
      )),
    *(("gemv_mx", MX, Problem(m, 2304, 6144), gpu("sm90"), {"BLOCK_M": block, "kernel": "diagonal"})
      for m, block in ((1, 2), (2, 2), (3, 4), (4, 4), (8, 8), (16, 16))),
    *(("gemv_mx", MX, Problem(4, 2304, 6144), gpu(arch), {"kernel": kernel})
      for arch, kernel in (("gfx950", "scaled"), ("gfx942", "vector"))),
    # 36 tiles of N, room for 11 times as many; 24 tiles of K: three each
    ("gemv_mx", MX, Problem(1, 2304, 6144), gpu("sm90"), {"SPLIT_K": 8}),
    ("small_tile_mx", MX, Problem(1, 512, 6144), gpu("gfx950"), {"BLOCK_K": 1024}),
    ("small_tile_mx", MX, Problem(65, 512, 6144), gpu("sm90"), {"BLOCK_M": 64}),
    *(("grouped_moe", MOE, moe(m, 1536, 6144, 32, 4), gpu(), {"BLOCK_M": block})
      for m, block in ((1, 8), (16, 8), (64, 16), (256, 32), (1024, 64))),
    # four experts, twelve tiles of 64 columns each
    ("grouped_moe", MOE, moe(1, 768, 6144, 32, 4), gpu(compute_units=132), {"SPLIT_K": 8}),
    # 50 experts of 24 tiles are two and a half times the target
    *(("grouped_moe", MOE, moe(16, 1536, 6144, 128, 4), gpu(compute_units=units), {"SPLIT_K": split})
      for units, split in ((132, 1), (1000, 4))),
    *(("gemm_ao", AO, Problem(m, n, k), H200, {"BLOCK_M": rows, "BLOCK_N": columns})
      for m, n, k, rows, columns in (
          (16640, 5120, 512, 128, 128),
          (1024, 1792, 512, 64, 128),  # 112 tiles of 128 x 128 on 132 compute units
          (16, 64, 512, 64, 64),
          (16640, 5120, 520, 64, 32),
      )),
]  # fmt: skip


def test_defaults():
    for name, scheme, problem, device, wanted in DEFAULTS:
        default = registry.load([name])[name].candidates(problem, scheme_of(scheme), device)[0]
        assert {key: default[key] for key in wanted} == wanted, f"{name} {problem} on {device}"
    assert len(registry.load(["gemm_ao"])["gemm_ao"].candidates(Problem(16640, 5120, 520), scheme_of(AO), H200)) == 1


@pytest.mark.parametrize(
    ("name", "scheme", "problem", "splits"),
    [("simt_4bit", NF4, Problem(1, 512, 65536), {1, MAX_SPLIT}), ("gemv_mx", MX, Problem(1, 2304, 6144), {1, 8})],
)
def test_an_undivided_kernel_is_always_a_candidate(name, scheme, problem, splits):
    offered = registry.load([name])[name].candidates(problem, scheme_of(scheme), gpu("sm90"))
    assert {config["SPLIT_K"] for config in offered} >= splits

"""What providers refuse, and why; what is next to it they take; the type they multiply in. Nothing is compiled."""

import pytest
from rooflens.kernels import registry
from rooflens.kernels.provider import support
from rooflens.shapes.problem import Op, Pass, Problem

from .contract_cases import moe
from .devices import CPU, H200, MI300X, cpu, gpu
from .synthetic import scheme_of

MX, MOE, FP8, DENSE, LARGEST = "mxfp8-rceil", "mxfp8-moe-rceil", "fp8-blockwise", "ao-1x128-128x128", 1 << 31
SMALL, QKV, GEMM1 = Problem(32, 512, 128, B=16), Problem(4, 2304, 6144), moe(4, 1536, 6144, 128, 4)
WHOLE, QUANT = Problem(256, 256, 512), Problem(256, 1, 512, op=Op.QUANTIZE)
TRITON_4BIT = "simt_4bit gemv_4bit gemv_4bit_opt mma_4bit stock_triton"
TRITON_A16W8 = "tuned_a16w8 kernel_a16w8 wrapper_a16w8"
TRITON_MOE = "grouped_moe gemv_moe guarded_moe dispatch_moe grouped_with_align_moe"
EVERY_GPU = "sm80 sm89 sm90 sm100 sm120 gfx90a gfx942 gfx950 gfx1100 gfx1151 gfx1201"


def grouped(*sizes, E, pass_=Pass.FWD):
    return Problem(*sizes, E=E, op=Op.GROUPED_GEMM, pass_=pass_)


def trained(*sizes, pass_):
    return Problem(*sizes, pass_=Pass(pass_))


def device_of(name):
    return {"cpu": CPU, "x86-64": cpu(), "H200": H200, "MI300X": MI300X}.get(name) or gpu(name)


def answers(providers, scheme, problem, devices):
    name, _, dtype = scheme.partition(":")
    for provider in registry.load(providers.split()).values():
        for device in devices.split():
            yield support(provider, problem, scheme_of(name, dtype or "bf16"), device_of(device))


REFUSED = [
    (TRITON_4BIT, "nf4-g64", Problem(1, 1, 1 << 25), "sm90", "K is limited"),
    (TRITON_4BIT, "nf4-g64", Problem(1, 64, 64, B=2), "sm90", "batched"),
    ("cuda_4bit", "nf4-g64", Problem(1, 64, 256), "sm100", "sm90"),
    ("cuda_4bit", "nf4-g64:fp32", Problem(1, 64, 256), "sm90", "16 bits"),
    ("cuda_4bit", "nf4-g64", Problem(65, 64, 256), "sm90", "64 rows"),
    ("cuda_4bit", "nf4-g64", Problem(1, 64, 96), "sm90", "multiple"),
    ("cuda_4bit", "nf4-g64-nested", Problem(1, 64, 320), "sm90", "multiple of 256"),
    ("cuda_4bit", "nvfp4", Problem(1, 64, 48), "sm90", "multiple of 64"),
    ("cuda_4bit", "nf4-g64", Problem(1, 1 << 20, 1 << 17), "sm90", "more steps than 32 bits"),
    ("simd_4bit_cpu", "nf4-g64", Problem(1, 64, 64), "sm90", "CPU only"),
    ("simd_4bit_cpu", "nf4-g64", Problem(1, 64, 64, B=2), "cpu", "batched"),
    ("simd_4bit_cpu", "nf4-g64", Problem(1, 64, 65), "cpu", "multiple of 8"),
    ("simd_4bit_cpu", "nf4-g64-nested", Problem(1, 64, 64), "cpu", "nested"),
    # torch 2.11: its CUDA kernel checks A.dtype() == kBFloat16, and that scales have 8 columns for each tile
    ("torch_int4", "int4-g32:fp16", Problem(2, 24, 256), "sm90", "takes bf16"),
    ("torch_int4", "int4-g32", Problem(2, 20, 256), "sm90", "multiples of 8"),
    ("torch_int4", "int4-g32", Problem(2, 24, 256), "cpu", "multiples of 16"),
    ("blas_rocblas blas_hipblaslt", "nf4-g64", Problem(1, 64, 64), "cpu H200", "needs an AMD GPU"),
    ("blas_best", "nf4-g64:fp32", Problem(16, 256, 512), "H200", "16 bits"),
    ("blas_best", "nf4-g64", Problem(16, 256, 512), "cpu", "GPU"),
    ("blas_best_mx", MX, Problem(16, 256, 512), "cpu", "GPU"),
    ("bmm_best_a16w8", "a16w8-128x128", Problem(16, 256, 512), "cpu", "GPU"),
    ("cuda_a16w8", "a16w8-128x128", Problem(256, 128, 128), "sm100", "sm90"),
    ("cuda_a16w8", "a16w8-128x128-prequant", Problem(256, 128, 128), "sm90", "16 bits"),
    ("cuda_a16w8", "a16w8-128x128", Problem(64, 128, 128), "sm90", "65 rows"),
    ("cuda_a16w8", "a16w8-128x128", Problem(256, 130, 128), "sm90", "multiple of 8"),
    ("cuda_a16w8", "a16w8-128x128", Problem(256, 128, 136), "sm90", "of 16"),
    (TRITON_A16W8, "a16w8-128x128", SMALL, "sm86", "needs sm89"),
    (f"{TRITON_A16W8} stock_triton_a16w8", "a16w8-128x128", Problem(1, 16, (1 << 22) + 1), "sm90", "to 4194304"),
    (f"{TRITON_A16W8} stock_triton_a16w8", "a16w8-128x128", Problem(1, 1, 1, B=LARGEST), "sm90", "2^31 tiles"),
    (f"{TRITON_A16W8} stock_triton_a16w8", "a16w8-128x128-prequant", SMALL, "gfx90a gfx1100", "multiplies no FP8"),
    ("stock_triton_a16w8", "a16w8-128x128", SMALL, "sm120", "128 KiB"),
    ("cuda_fp8", FP8, Problem(256, 128, 128), "sm100", "sm90"),
    *(("cuda_fp8", FP8, trained(264, 128, 128, pass_=one), "sm90", "of 16") for one in ("wgrad", "bwd", "step")),
    ("cuda_fp8", FP8, Problem(256, 136, 128), "sm90", "multiples of 16"),
    ("cuda_fp8", FP8, Problem(256, 128, 136), "sm90", "multiples of 16"),
    ("cuda_fp8", FP8, Problem(1 << 23, 128, 128), "sm90", "limited to"),
    ("shared_fp8 specialised_fp8", FP8, WHOLE, "sm80 gfx90a gfx1100 gfx1151", "has no FP8"),
    ("triton_quant_fp8", "fp8-quant-row", QUANT, "sm80 gfx90a gfx1100 gfx1151", "has no FP8"),
    ("triton_quant_fp8", "fp8-quant-row", Problem(1, 1, (1 << 23) + 1, op=Op.QUANTIZE), "gfx950", "8388608"),
    ("specialised_fp8 stock_triton_fp8", FP8, Problem(128, 128, (1 << 22) + 128), "gfx950", "4194304"),
    # the largest layer, whose dY and Y have 3.5e9 elements; then each operand and result; 2^31 itself is too much
    *(("shared_fp8", FP8, Problem(32768, 106496, 16384, pass_=one), "gfx950", "use specialised_fp8") for one in Pass),
    ("shared_fp8", FP8, trained(262144, 128, 28672, pass_="dgrad"), "gfx950", "dX[M,K] has 7516192768"),
    ("shared_fp8", FP8, trained(128, 106496, 28672, pass_="wgrad"), "gfx950", "dW[N,K] has 3053453312"),
    ("shared_fp8", FP8, Problem(262144, 28672, 128), "gfx950", "Y[M,N] has 7516192768"),
    ("shared_fp8", FP8, Problem(128, 106496, 28672), "gfx950", "W[N,K] has 3053453312"),
    ("shared_fp8", FP8, trained(65536, 128, 32768, pass_="dgrad"), "gfx950", "2^31"),
    ("torch_scaled_mm_fp8", FP8, WHOLE, "sm100", "sm90 only"),
    ("cuda_mx", MX, Problem(1, 64, 256), "sm100", "sm90"),
    ("cuda_mx", MX, Problem(65, 64, 256), "sm90", "64 rows"),
    ("cuda_mx", MX, Problem(1, 64, 160), "sm90", "multiple of 128"),
    ("cuda_mx", MX, Problem(64, 1824, 785_536), "H200", "32 bits"),  # with its smallest tiles
    ("gemv_mx", MX, Problem(17, 64, 64), EVERY_GPU, "M=17: made for up to 16 rows"),
    ("mma_mx", MX, Problem(65, 64, 64), EVERY_GPU, "M=65: made for up to 64 rows"),
    ("mma_mx", MX, Problem(8, 64, 1 << 25), "sm90", "K is limited to 16777216"),
    ("stock_triton_mx", MX, Problem(8, 64, 160), "sm90", "K=160 is not a multiple of 128"),
    ("stock_triton_mx", MX, Problem(8, 1 << 18, 1 << 13), "sm90", "W has 2147483648 elements"),
    ("stock_triton_mx", MX, Problem(1 << 18, 8, 1 << 13), "sm90", "X has 2147483648 elements"),
    ("stock_triton_mx small_tile_mx", MX, Problem(1 << 16, 1 << 15, 128), "sm90", "Y has 2147483648 elements"),
    ("stock_triton_mx", MX, QKV, "gfx90a", "may abort inside LLVM"),
    ("stock_triton_mx small_tile_mx", MX, QKV, "sm80 sm86 sm87", "needs sm89 or newer"),
    ("torch_scaled_mm_mx", MX, QKV, "sm90", "needs block-scaled FP8 matrix units"),
    ("torch_scaled_mm_mx", MX, Problem(4, 100, 64), "sm100", "N=100 is not a multiple of 16"),
    ("dispatch_mx", MX, Problem(1, 256, 1024), "cpu", "need a GPU"),
    ("gemv_moe", MOE, moe(65, 64, 64, 8, 1), "sm90", "65 routed rows"),
    ("stock_triton_moe", MOE, moe(4, 64, 96, 8, 1), "sm90", "multiple of 128"),
    ("stock_triton_moe", MOE, GEMM1, "sm80", "sm89"),
    ("grouped_moe", MOE, moe(1, 1, 1 << 25, 4, 1), "sm90", "K is limited"),
    # 2.4 GB of weights, none of which are allocated here
    ("guarded_moe", MOE, moe(2, 1536, 6144, 256, 4), "sm90", "E N K = 2415919104 bytes of weights"),
    ("guarded_moe", MOE, moe(2, 1024, 1024, 2048, 4), "sm90", "2147483648"),
    ("guarded_moe", MOE, moe(1 << 21, 64, 1024, 4, 1), "sm90", "M K = 2147483648 bytes"),
    ("gemm_ao", DENSE, Problem(256, 128, 128), "sm80 gfx90a gfx1100 gfx1151", "no FP8"),
    ("grouped_ao loop_ao", "ao-grouped", grouped(256, 128, 128, E=2), "sm80 gfx90a gfx1100 gfx1151", "no FP8"),
    ("triton_quant_ao", "ao-act-lhs", Problem(256, 1, 128, op=Op.QUANTIZE), "sm80 gfx90a gfx1100 gfx1151", "no FP8"),
    ("cuda_ao", DENSE, Problem(256, 128, 128), "sm100", "sm90"),
    ("cuda_ao", "ao-linear", Problem(256, 128, 1 << 24), "sm90", "32-bit offsets"),
    ("cuda_ao", "ao-linear", trained(256, 136, 128, pass_="step"), "sm90", "multiple of 16"),
    ("cuda_ao", f"{DENSE}:fp32", Problem(256, 128, 128), "sm90", "16-bit"),
    ("cuda_ao", DENSE, Problem(256, 132, 128), "sm90", "multiple of 8"),
    ("cuda_ao", DENSE, Problem(256, 128, 136), "sm90", "of 16"),
    ("cuda_ao", "ao-1x128-128x1", Problem(258, 128, 128), "sm90", "of 4"),
    ("cuda_ao", "ao-1x128-128x1", Problem(LARGEST - 252, 8, 16), "sm90", "limited to"),
    ("cuda_ao", DENSE, Problem(1, 8, LARGEST - 16), "sm90", "limited to"),
    ("cuda_ao", DENSE, Problem(LARGEST - 1, 8, 16), "sm90", "limited to"),
    ("cuda_ao", DENSE, Problem(1 << 25, 1 << 25, 16), "sm90", "limited to"),
    ("cuda_grouped_ao", "ao-grouped-linear", grouped(256, 16, 1 << 23, E=256, pass_=Pass.STEP), "sm90", "limited to"),
    ("cuda_grouped_ao", "ao-grouped", grouped(256, 8, 16, E=2049), "sm90", "2048 experts"),
    ("cuda_grouped_ao", "ao-grouped", grouped(256, 1 << 23, 128, E=256), "sm90", "limited to"),
    ("grouped_mm_bf16_ao", "ao-grouped:fp16", grouped(64, 8, 128, E=2), "sm90", "takes bf16"),
    ("grouped_mm_bf16_ao", "ao-grouped", grouped(64, 12, 128, E=2), "sm90", "multiples of 8"),
    ("grouped_mm_bf16_ao", "ao-grouped", grouped(64, 8, 128, E=2), "sm80", "is a loop on sm80"),
    ("stock_triton_ao", "ao-linear", trained(128, 128, 128, pass_="step"), "H200", "forward product only"),
]  # fmt: skip


@pytest.mark.parametrize(("providers", "scheme", "problem", "devices", "words"), REFUSED)
def test_refused(providers, scheme, problem, devices, words):
    for answer in answers(providers, scheme, problem, devices):
        assert not answer.ok
        assert words in answer.reason


WITH_FP8 = "sm90 sm100 gfx942 gfx950 gfx1201"
TAKEN = [
    (TRITON_4BIT, "nf4-g64", Problem(3, 5, 7), "sm90"),
    ("simd_4bit_cpu", "nf4-g64", Problem(1, 64, 64), "cpu"),
    ("torch_int4", "int4-g32", Problem(2, 24, 256), "sm90"),
    ("torch_int4", "int4-g32:fp16", Problem(2, 32, 256), "cpu"),
    ("blas_rocblas blas_hipblaslt", "nf4-g64", Problem(1, 64, 64), "MI300X"),
    ("blas_best", "nf4-g64", Problem(16, 256, 512), "H200"),
    ("blas_best_mx", MX, Problem(16, 256, 512), "H200"),
    ("bmm_best_a16w8", "a16w8-128x128", Problem(16, 256, 512), "H200"),
    (f"{TRITON_A16W8} stock_triton_a16w8", "a16w8-128x128", SMALL, "sm90 gfx90a gfx1100"),
    ("kernel_a16w8", "a16w8-128x128", SMALL, "sm120"),
    ("tuned_a16w8 stock_triton_a16w8", "a16w8-128x128-prequant", SMALL, WITH_FP8),
    ("shared_fp8 specialised_fp8", FP8, WHOLE, WITH_FP8),
    ("triton_quant_fp8", "fp8-quant-row", QUANT, WITH_FP8),
    ("gemm_ao", DENSE, Problem(256, 128, 128), WITH_FP8),
    ("grouped_ao loop_ao", "ao-grouped", grouped(256, 128, 128, E=2), WITH_FP8),
    ("triton_quant_ao", "ao-act-lhs", Problem(256, 1, 128, op=Op.QUANTIZE), WITH_FP8),
    ("stock_triton_fp8", FP8, WHOLE, EVERY_GPU),
    ("stock_triton_ao", DENSE, Problem(256, 128, 128), EVERY_GPU),  # dense operands need no FP8 instructions
    ("stock_triton_mx small_tile_mx", MX, QKV, f"{WITH_FP8} gfx1100 gfx1151"),
    ("gemv_mx mma_mx", MX, QKV, EVERY_GPU),
    ("cuda_fp8", FP8, Problem(1, 16, 16), "sm90"),  # any M where M is not contracted
    ("cuda_fp8", FP8, trained(1, 16, 16, pass_="dgrad"), "sm90"),
    *(("specialised_fp8", FP8, Problem(32768, 106496, 16384, pass_=one), "gfx950") for one in Pass),
    *(("shared_fp8", FP8, Problem(16384, 106496, 16384, pass_=one), "gfx950") for one in Pass),
    ("shared_fp8", FP8, trained(65536, 128, 32767, pass_="dgrad"), "gfx950"),
    *((name, MOE, GEMM1, EVERY_GPU) for name in TRITON_MOE.split()),
    ("stock_triton_moe", MOE, GEMM1, EVERY_GPU.replace("sm80 ", "")),
    ("gemv_moe", MOE, moe(16, 64, 64, 8, 4), "sm90"),
    ("grouped_moe", MOE, moe(2, 1536, 6144, 256, 4), "sm90"),
    ("guarded_moe", MOE, moe(2, 1536, 6144, 227, 4), "sm90"),  # 2,142,240,768 bytes
    ("guarded_moe", MOE, moe((1 << 21) - 1, 64, 1024, 4, 1), "sm90"),
]  # fmt: skip


@pytest.mark.parametrize(("providers", "scheme", "problem", "devices"), TAKEN)
def test_taken(providers, scheme, problem, devices):
    for answer in answers(providers, scheme, problem, devices):
        assert answer.ok, answer.reason


PREQUANT = "a16w8-128x128-prequant:fp16"


@pytest.mark.parametrize(
    ("providers", "scheme", "problem", "arch", "math_dtype"),
    [
        *((name, MX, QKV, "gfx950", "mxfp8") for name in ("stock_triton_mx", "small_tile_mx")),
        ("stock_triton_mx", MX, QKV, "sm90", "bf16"),  # emulated
        ("stock_triton_moe grouped_moe", MOE, GEMM1, "gfx950", "mxfp8"),
        ("stock_triton_moe", MOE, GEMM1, "sm90", "bf16"),
        ("grouped_moe", MOE, GEMM1, "sm90", "fp16"),
        ("gemv_moe", MOE, GEMM1, "gfx950", "fp32"),
        ("tuned_a16w8", PREQUANT, SMALL, "sm90", "fp8"),
        ("bmm_bf16_a16w8 dequant_bmm_a16w8", PREQUANT, SMALL, "sm90", "fp16"),
        ("blas_bf16_ao dequant_blas_ao grouped_mm_bf16_ao stock_triton_ao", DENSE, WHOLE, "H200", "bf16"),
        ("gemm_ao", DENSE, WHOLE, "H200", "fp8"),
    ],
)
def test_the_type_of_products(providers, scheme, problem, arch, math_dtype):
    name, _, dtype = scheme.partition(":")
    for provider in registry.load(providers.split()).values():
        assert provider.math_dtype(problem, scheme_of(name, dtype or "bf16"), device_of(arch)) == math_dtype

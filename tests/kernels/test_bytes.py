"""Bytes that providers of every family say they move and touch, counted by hand.

Each function yields provider, scheme, problem, configuration (or the GPU whose default it is), bytes moved, and those
of the working set, which has every tensor once; None is not asked for.
"""

import pytest
from rooflens.kernels import registry
from rooflens.shapes.problem import Op, Pass, Problem

from .contract_cases import moe
from .devices import gpu
from .synthetic import scheme_of

MM, MM_T = {"gemm": "mm"}, {"gemm": "mm_t"}


def of_4bit():
    problem, tile = Problem(20, 128, 256), {"BLOCK_N": 8, "BLOCK_K": 1024, "num_warps": 4, "num_stages": 3}
    weights, dense = 128 * 256 // 2 + 128 * 256 // 64 * 4, 20 * 256 * 2 + 20 * 128 * 2
    whole, divided = tile | {"BLOCK_M": 8, "SPLIT_K": 1}, tile | {"BLOCK_M": 8, "SPLIT_K": 4}
    yield "simt_4bit", "nf4-g64", problem, whole, 3 * weights + dense, weights + dense
    for name in ("simt_4bit", "mma_4bit", "gemv_4bit"):
        yield name, "nf4-g64", problem, whole, None, weights + dense
        yield name, "nf4-g64", problem, divided, None, weights + dense + 4 * 20 * 128 * 4
    moved = 20 * weights + dense + 2 * 4 * 20 * 128 * 4
    yield "gemv_4bit_opt", "nf4-g64", problem, divided | {"BLOCK_M": 1}, moved, None
    yield "stock_triton", "nf4-g64", problem, whole, 128 * 256 * 2 + dense, 128 * 256 * 2 + dense
    large = Problem(2, 4096, 4096)
    dense, x, y, stored = 2 * 4096 * 4096, 2 * 2 * 4096, 2 * 2 * 4096, 4096 * 4096 // 2 + 4 * 4096 * 4096 // 64
    yield "blas", "nf4-g64", large, MM, dense + x + y, None
    yield "dequant_blas", "nf4-g64", large, MM, stored + 2 * dense + x + y, None
    yield "blas", "nf4-g64", large, MM_T, dense + x + 3 * y, None
    # in fp32: W of four bytes, and fp32 copies of X and Y written and read once each
    yield "blas", "nf4-g64", large, {"gemm": "fp32_mm"}, 2 * dense + x + y + 2 * (2 * x + 2 * y), None
    # nested: a byte of each absmax, fp32 of 256 of them, a table of 256 and a mean; absmax is rebuilt but by Triton
    packed, nested, rest = 64 * 4096 // 2, 4096 + 4 * 16 + 4 * 256 + 4, 2 * 2 * 64 * 4096 + 2 * (4096 + 64)
    for dequantizer, rebuilt in (("cpp", 2 * 4 * 4096), ("torch", 2 * 4 * 4096), ("triton", 0)):
        config = MM | {"dequantize": dequantizer}
        yield "dequant_blas", "nf4-g64-nested", Problem(1, 64, 4096), config, packed + nested + rebuilt + rest, None
        yield "dequant_blas", "nf4-g64", Problem(1, 64, 4096), config, packed + 4 * 4096 + rest, None


def of_a16w8():
    small, plain, bmm = Problem(32, 512, 128, B=16), "a16w8-128x128", {"gemm": "bmm"}
    x, w, s, y = 16 * 32 * 128 * 2, 16 * 512 * 128, 16 * 4 * 4, 16 * 32 * 512 * 2
    once, dense = x + w + s + y, 2 * w
    for name in ("tuned_a16w8", "kernel_a16w8", "stock_triton_a16w8"):
        yield name, plain, small, {}, once, once
    yield "wrapper_a16w8", plain, small, {}, once + 2 * (w + s), x + y + 2 * (w + s)
    yield "bmm_bf16_a16w8", plain, small, bmm, x + dense + y, x + dense + y
    yield "bmm_bf16_a16w8", f"{plain}-bias", small, bmm, x + dense + 3 * y + 16 * 512 * 2, None
    yield "bmm_bf16_a16w8", plain, small, {"gemm": "fp32_bmm"}, x + y + 2 * dense + 2 * 2 * (x + y), None
    config = {"dequantize": "triton", **bmm}
    yield "dequant_bmm_a16w8", plain, small, config, w + s + dense + x + dense + y, w + s + dense + x + y
    yield "dequant_bmm_a16w8", plain, small, config | {"dequantize": "torch"}, w + s + 3 * dense + x + dense + y, None


def of_training():
    """M = 256, N = 384, K = 512: 2, 3 and 4 blocks of 128."""
    quantized, given = "fp8-blockwise", "fp8-blockwise-prequantized"
    x, w, dy = 256 * 512, 384 * 512, 256 * 384
    x_row, x_col, w_scale, dy_row, dy_col = 4 * 256 * 4, 4 * 2 * 512, 4 * 3 * 4, 4 * 256 * 3, 4 * 2 * 384
    gemm = {
        "fwd": x + x_row + w + w_scale + 2 * dy,
        "dgrad": dy + dy_row + w + w_scale + 2 * x,
        "wgrad": dy + dy_col + x + x_col + 2 * w,
    }
    # operands that are transposed in the call, where K must be contiguous, and scales that `shared` transposes
    turned = {"fwd": 0, "dgrad": 2 * w, "wgrad": 2 * x + 2 * dy}
    scales = {"fwd": 2 * x_row, "dgrad": 2 * dy_row + 2 * w_scale, "wgrad": 0}
    products, backward = sum(gemm.values()), gemm["dgrad"] + gemm["wgrad"]
    x_both, dy_both = 4 * x + x_row + x_col, 4 * dy + dy_row + dy_col
    fused = products + x_both + dy_both + 3 * w + w_scale
    single = fused + 2 * x + 2 * dy + 2 * (x_row + dy_row + w_scale)  # X and dY are read twice
    order = 4 * 4 * 4  # of W's scales in the other order, in rows of a multiple of 4: [4, 4]
    weight, filled = 4 * w + w_scale + order, order - w_scale
    forms = 2 * x + 2 * w + 2 * dy + x_row + x_col + dy_row + dy_col + w_scale + order
    dense, results = 2 * (2 * x + 2 * w + 2 * dy) + 2 * (x + w + dy), 2 * (x + w + dy)
    decoded, all_scales = 2 * x + w + 2 * dy, x_row + x_col + w_scale + dy_row + dy_col
    rows = [
        *(("specialised_fp8", given, one, "gfx950", gemm[one], None) for one in gemm),
        *(("specialised_fp8", given, one, "sm90", gemm[one] + turned[one], None) for one in gemm),
        *(("shared_fp8", given, one, "gfx950", gemm[one] + scales[one], None) for one in gemm),
        *(("shared_fp8", given, one, "sm90", gemm[one] + scales[one] + turned[one], None) for one in gemm),
        ("specialised_fp8", quantized, "step", "gfx950", fused, None),
        ("specialised_fp8", quantized, "step", "sm90", fused + w, None),  # W^T is written as well
        ("shared_fp8", quantized, "step", "gfx950", single, None),
        ("shared_fp8", quantized, "step", "sm90", single + w, None),
        # the column form of X is made by the forward pass of `specialised`, by the backward pass of `shared`
        ("specialised_fp8", quantized, "fwd", "gfx950", gemm["fwd"] + x_both + 3 * w + w_scale, None),
        ("specialised_fp8", quantized, "bwd", "gfx950", backward + dy_both, None),
        ("shared_fp8", quantized, "bwd", "gfx950",
         backward + 2 * dy + dy_both + 3 * x + x_col + 2 * (dy_row + w_scale), None),
        # as `specialised_fp8` on sm90; W was quantized by the forward pass
        ("torch_scaled_mm_fp8", quantized, "fwd", {}, x_both + weight + gemm["fwd"], None),
        ("torch_scaled_mm_fp8", quantized, "dgrad", {}, 3 * dy + dy_row + gemm["dgrad"] + filled, None),
        ("torch_scaled_mm_fp8", quantized, "step", {}, x_both + weight + dy_both + products + filled,
         results + forms + results),
        ("torch_scaled_mm_fp8", given, "fwd", {}, gemm["fwd"] + 2 * x_row, None),  # scales of X are transposed
        *((name, quantized, "step", {}, dense, dense - 2 * w) for name in ("blas_bf16_fp8", "stock_triton_fp8")),
        ("dequant_blas_fp8", quantized, "step", {}, dense + 2 * (3 * decoded + all_scales),
         dense - 2 * w + decoded + all_scales + results),
        # each product reads scales that were transposed before it
        ("primus_turbo_fp8", given, "fwd", {}, gemm["fwd"] + 2 * x_row, None),
        ("primus_turbo_fp8", given, "dgrad", {}, gemm["dgrad"] + 2 * (dy_row + w_scale), None),
        ("primus_turbo_fp8", given, "wgrad", {}, gemm["wgrad"], None),
    ]  # fmt: skip
    for name, scheme, pass_, config, moved, touched in rows:
        yield name, scheme, Problem(256, 384, 512, pass_=Pass(pass_)), config, moved, touched


def of_mx():
    def tile(m, n, k, split=1, kernel="vector"):
        sizes = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "num_warps": 4, "num_stages": 4}
        return sizes | {"SPLIT_K": split, "kernel": kernel}

    qkv, mx = Problem(4, 2304, 6144), "mxfp8-rceil"
    # parts of K are written and read as fp32 tiles
    parts = 2 * 4 * 8 * 4 * 2304
    yield "gemv_mx", mx, qkv, tile(4, 64, 256, 8, "diagonal"), 2308 * 6144 * 33 // 32 + 8 * 2304 + parts, None
    operands = 103 * 256 * 33 // 32 + 2 * 3 * 100
    yield "mma_mx", mx, Problem(3, 100, 256), tile(16, 64, 128, 2, "bf16"), None, operands + 4 * 2 * 2 * 64 * 16
    five, weights, x, dense, y = Problem(5, 64, 1024), 64 * 1024 * 33 // 32, 5 * (1024 + 32), 2 * 64 * 1024, 2 * 5 * 64
    product = 2 * 5 * 1024 + dense + y
    yield "gemv_mx", mx, five, tile(4, 8, 1024), 2 * weights + x + y, None
    yield "stock_triton_mx", mx, five, {}, weights + x + y, None
    yield "blas_bf16_mx", mx, five, MM, product, product
    yield "blas_bf16_mx", mx, five, MM_T, product + 2 * y, product + y
    yield "dequant_blas_mx", mx, five, MM, weights + dense + x + 2 * 5 * 1024 + product, weights + x + product
    for split, parts in ((1, 0), (4, 4 * 4 * 8 * 64)):  # 5 rows are two tiles of 4
        for name in ("gemv_mx", "mma_mx", "dispatch_mx"):
            yield name, mx, five, {"route": "gemv_mx", **tile(4, 8, 1024, split)}, None, weights + x + y + parts
    three, cuda = Problem(3, 256, 1024), {"ROWS": 64, "SPLIT": 1, "RESIDENT": 1, "STAGES": 4}
    once = (3 + 256) * (1024 + 32) + 2 * 3 * 256
    yield "cuda_mx", mx, three, cuda | {"BLOCKS": 4}, once, None
    yield "cuda_mx", mx, three, cuda | {"BLOCKS": 8}, once + 2 * 4 * 8 * 256, None  # parts of shared tiles
    small, once = Problem(3, 64, 128), (3 + 64) * (128 + 4) + 2 * 3 * 64
    mfma, gemv = {"kernel": "smallm_mxfp8_mfma", "n_sub": 1}, {"kernel": "smallm_mxfp8_gemv"}
    yield "aiter_mx", mx, small, mfma | {"k_splits": 1}, once, None
    yield "aiter_mx", mx, small, mfma | {"k_splits": 4}, once + 2 * 4 * 3 * 64 * 4, None
    yield "aiter_mx", mx, small, gemv, once + (4 + 3 + 4) * (128 + 4) + 2 * 64 * (4 + 3), None  # padded to four rows
    yield "aiter_mx", mx, Problem(1, 64, 128), gemv, (1 + 64) * (128 + 4) + 2 * 64, None


def of_experts():
    """3 tokens that go to all 4 experts: each is hit, by 3 rows."""
    problem, plain, weighted = moe(3, 64, 128, 4, 4), "mxfp8-moe-rceil", "mxfp8-moe-rceil-weighted"
    config = {"BLOCK_M": 8, "BLOCK_N": 64, "BLOCK_K": 128, "SPLIT_K": 1, "num_warps": 4, "num_stages": 3}
    weights, ids = 4 * (64 * 128 + 64 * 4), 4 * (12 + 4)
    rows = 3 * 128 + 3 * 4 + 12 * 64 * 2  # X and its scales, Y
    grouped, parts = weights + rows + ids + 4 * (32 - 12), 2 * 4 * 2 * 12 * 64
    divided = config | {"SPLIT_K": 2}
    yield "grouped_moe", plain, problem, config, grouped, weights + rows + ids
    two = 2 * weights + rows + ids + 4 * (16 - 12)  # 3 rows are two blocks of 2
    yield "grouped_moe", plain, problem, config | {"BLOCK_M": 2}, two, None
    yield "grouped_moe", plain, problem, divided, grouped + parts, weights + rows + ids + parts / 2
    layout = 4 * (2 * 12 + (12 + 4 * 7) + 5 + 8 * 4)
    yield "grouped_with_align_moe", plain, problem, config, grouped + layout, None
    for name in ("dispatch_moe", "stock_triton_moe"):
        yield name, plain, problem, {"route": "grouped_moe", **config}, None, weights + rows + ids
    dense, x = 4 * 64 * 128, 3 * 128  # elements of the weights, and of X
    gathered, products = 2 * 2 * 12 * 128, 2 * 2 * 12 * 64  # bf16, written and read
    loop = 2 * dense + 2 * x + gathered + products + 2 * 12 * 64 + ids
    yield "loop_bf16_moe", plain, problem, {}, loop, 2 * dense + 2 * x + 2 * 12 * 64 + ids
    yield "loop_bf16_moe", weighted, problem, {}, loop + products + 4 * 12, None
    decoding, buffers = weights + 2 * dense + x + x // 32 + 2 * x, 2 * (64 * 128 + x)
    yield "dequant_loop_moe", plain, problem, {}, decoding + loop, weights + rows + ids + buffers


def of_ao():
    product, linear, grouped = "ao-1x128-128x128", "ao-linear", {"E": 3, "op": Op.GROUPED_GEMM}
    forward, step = Problem(256, 384, 128), Problem(256, 384, 128, pass_=Pass.STEP)
    x, w, y, scales = 256 * 128, 384 * 128, 256 * 384, 4 * (256 + 3)
    yield "gemm_ao", product, forward, {}, x + w + scales + 2 * y, None  # data 1 byte and scales; one pass
    # casts read 2 bytes, write 1 and scales; the product reads those and writes 2 bytes per result
    yield "gemm_ao", linear, forward, {}, 2 * (x + w) + 2 * (x + w + scales) + 2 * y, None
    # two experts of three have rows: the third is cast and not multiplied
    cast, read = (x + 4 * 256 + number * (w + 4 * 3) for number in (3, 2))
    experts = Problem(256, 384, 128, **grouped)
    yield "grouped_ao", "ao-grouped-linear", experts, {}, 2 * (x + 3 * w) + cast + read + 2 * y + 4 * 3, None
    yield "blas_bf16_ao", linear, forward, {}, 2 * (x + w + y), None
    yield "blas_bf16_ao", linear, step, {}, 3 * 2 * (x + w + y), None  # two dense operands and a result each
    blas = "dequant_blas_ao"
    yield blas, product, forward, {}, x + w + scales + 2 * 2 * (x + w) + 2 * y, (1 + 2) * (x + w) + scales + 2 * y
    moved = 2 * (x + w) + 2 * (x + w + scales) + 4 * (x + w) + 2 * y
    yield blas, linear, forward, {}, moved, (2 + 1 + 2) * (x + w) + scales + 2 * y
    # casts of X, dY, X, dY by rows and columns, W once: 10 S read, 5 S written in FP8; those are read, and 10 S of bf16
    # written; three products read 12 S and write 6 S. 6 S come in, 5 S of FP8 with scales, 10 S decoded, 6 S go out
    square, s, scales = Problem(4096, 4096, 4096, pass_=Pass.STEP), 4096 * 4096, 4 * (4 * 4096 * 32 + 32 * 32)
    yield blas, linear, square, {}, 48 * s + 2 * scales, 27 * s + scales
    yield (
        "blas_bf16_ao",
        linear,
        square,
        {},
        18 * s,
        16 * s,
    )  # X and dY twice (their casts differ), one W, three results
    # 16 rows are one group of three: the weights of all are decoded, those of one multiplied; int32 ends
    few, x, y, scales, ends = Problem(16, 384, 128, **grouped), 16 * 128, 16 * 384, 4 * (16 + 3 * 3), 4 * 3
    decoded = (x + 3 * w + scales) + 2 * (x + 3 * w)
    yield "dequant_loop_ao", "ao-grouped", few, {}, decoded + 2 * (x + w) + 2 * y + ends, None
    yield "loop_bf16_ao", "ao-grouped", few, {}, None, 2 * (x + w) + 2 * y + ends


@pytest.mark.parametrize("family", [of_4bit, of_a16w8, of_training, of_mx, of_experts, of_ao])
def test_bytes(family):
    for name, scheme_name, problem, config, moved, touched in family():
        (provider,) = registry.load([name]).values()
        scheme = scheme_of(scheme_name)
        config = provider.candidates(problem, scheme, gpu(config))[0] if isinstance(config, str) else config
        where = f"{name} {scheme_name} {problem} {config}"
        assert moved is None or provider.moved_bytes(problem, scheme, config) == moved, where
        assert touched is None or provider.working_set_bytes(problem, scheme, config) == touched, where


def test_unknown_kernels_have_no_bytes():
    for name, scheme, config in (
        ("aiter_mx", "mxfp8-rceil", {"kernel": "unknown"}), ("primus_turbo_fp8", "fp8-blockwise", {}),
    ):  # fmt: skip
        assert registry.load([name])[name].moved_bytes(Problem(256, 384, 512), scheme_of(scheme), config) is None

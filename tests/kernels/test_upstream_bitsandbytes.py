"""bitsandbytes as providers: right results, honest limits, its dispatch rule, and a quiet import."""

import importlib.util
import sys
import types

import pytest
import torch
from rooflens.kernels import cpu_info
from rooflens.kernels.fourbit import bitsandbytes_dispatch as dispatch
from rooflens.kernels.fourbit import upstream_bitsandbytes as upstream
from rooflens.shapes.device import Device
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType, Scheme
from rooflens.shapes.schemes.fourbit import FourBit

from ..environments import ROOT, printed_by
from .devices import CPU, H200, MI300X
from .synthetic import operands

if importlib.util.find_spec("bitsandbytes") is None:
    pytest.skip("bitsandbytes is not installed: pip install 'rooflens[test]'", allow_module_level=True)

pytestmark = pytest.mark.usefixtures("eager")

ALL = (upstream.GEMM, upstream.GEMV, upstream.DEQUANT_LINEAR)
BF16 = FourBit("nf4", 64, DType.BF16)


def test_problems_whose_scales_the_cpu_kernel_misreads_are_those_that_come_out_wrong() -> None:
    """The op itself is asked, so that a release that repairs it makes this fail and the limit is lifted."""
    upstream.import_quietly()
    for group in (32, 64, 1024, 2048):
        for depth in (32, 40, 48, 96, 100, 45, 64, 4128):
            problem, scheme = Problem(1, 6, depth), FourBit("nf4", group, DType.FP32)
            inputs = operands(problem, scheme.name, "fp32")
            weight = torch.ops.bitsandbytes.dequantize_4bit.default(
                inputs.packed.view(-1, 1), inputs.absmax, group, "nf4", [6, depth], torch.float32
            )
            wrong = not torch.equal(weight, inputs.dequantized())
            assert dispatch.cpu_misreads_absmax(problem, scheme) == wrong, f"K={depth}, block size {group}"


def test_misread_scales_are_unsupported_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_info, "flags", lambda: frozenset({"avx512f"}))
    for provider in ALL:
        support = provider.supports(Problem(1, 64, 96), BF16, CPU)
        assert not support.ok
        assert "wrong absmax when K=96" in support.reason
        assert provider.supports(Problem(1, 64, 96), BF16, H200).ok


def test_gemv_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "cpu_has_gemv", lambda: True)
    gemv = upstream.GEMV
    assert gemv.supports(Problem(1, 100, 96), BF16, H200).ok
    assert "multiple of 32" in gemv.supports(Problem(1, 100, 80), BF16, H200).reason
    assert "M must be 1" in gemv.supports(Problem(2, 64, 64), BF16, H200).reason
    assert gemv.supports(Problem(5, 64, 64), BF16, CPU).ok
    assert "use bf16" in gemv.supports(Problem(1, 64, 64), FourBit("nf4", 64, DType.FP32), CPU).reason
    assert "N % 32" in gemv.supports(Problem(1, 65, 64), BF16, CPU).reason
    monkeypatch.setattr(dispatch, "cpu_has_gemv", lambda: False)
    assert "AVX-512 BF16" in gemv.supports(Problem(1, 64, 64), BF16, CPU).reason


def test_asking_for_support_does_not_import_it_and_importing_it_prints_nothing_and_leaves_its_logger() -> None:
    code = (
        "import logging, sys\n"
        "from tests.kernels.test_refusals import answers, Problem\n"
        "names = 'bitsandbytes_gemm bitsandbytes_gemv bitsandbytes_dequant'\n"
        "list(answers(names, 'nf4-g64', Problem(1, 64, 64), 'cpu'))\n"
        "assert 'bitsandbytes' not in sys.modules\n"
        "from rooflens.kernels.fourbit.upstream_bitsandbytes import import_quietly\n"
        "import_quietly()\n"
        "assert logging.getLogger('bitsandbytes').level == logging.NOTSET\n"
    )
    done = printed_by(sys.executable, "-c", code, timeout=120, cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_on_the_cpu_the_gemm_is_its_fallback() -> None:
    inputs = operands(Problem(1, 64, 128))
    assert upstream.GEMM.prepare(inputs).dispatched == "dequant_linear"
    assert upstream.DEQUANT_LINEAR.prepare(inputs).dispatched == "dequant_linear"


def fake_library(monkeypatch: pytest.MonkeyPatch, version: str = "0.50.2", **names: object) -> None:
    """Put a CUDA backend with these names in the place of the installed one."""
    backend = types.SimpleNamespace(**names)
    modules = {"bitsandbytes.backends.cuda.ops": backend, "bitsandbytes": types.SimpleNamespace(__version__=version)}
    monkeypatch.setattr(importlib, "import_module", modules.__getitem__)


def test_its_python_rule_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def rule(*arguments: object) -> bool:
        asked.append(arguments)
        return bool(arguments[2] != 48)

    fake_library(monkeypatch, _gemm_4bit_use_custom_fn=rule, _gemm_4bit_custom_max_m=1536)

    def kernel(rows: int, depth: int = 4096, device: Device = H200) -> str:
        return dispatch.gemm_kernel(Problem(rows, 4096, depth), BF16, device)

    assert kernel(1) == "simt"
    assert kernel(32) == "mma"
    assert kernel(48) == "dequant_linear"
    assert kernel(32, device=MI300X) == "simt"
    assert asked[0] == (0, torch.bfloat16, 1, 4096, 4096)
    asked.clear()
    assert kernel(1537) == "dequant_linear"
    assert kernel(1, depth=4096 + 32) == "dequant_linear"
    assert not asked


def test_versions_whose_rules_are_not_known_are_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(1, 4096, 4096)
    fake_library(monkeypatch, "0.51.0", _gemm_4bit_use_custom_fn=lambda *_: True, _gemm_4bit_custom_max_m=1536)
    assert dispatch.gemm_kernel(problem, BF16, H200) == "fused"
    fake_library(monkeypatch)
    assert dispatch.gemm_kernel(problem, BF16, H200) == "unknown"


# Worked by hand from csrc/gemm_4bit.cu: (M, N, K, dtype, arch, multiprocessors, kernel)
C_RULE = [
    (3, 65536, 4096, DType.BF16, "sm90", 132, "simt"),  # M <= 3 is always SIMT
    (64, 4096, 4096, DType.FP32, "sm90", 132, "simt"),  # fp32 has no tensor-core kernel
    (64, 4096, 4128, DType.BF16, "sm90", 132, "simt"),  # K % 64 != 0
    (4, 8192, 4096, DType.BF16, "sm90", 132, "simt"),  # 128 tiles <= 132: HBM keeps SIMT at M = 4
    (5, 8192, 4096, DType.BF16, "sm90", 132, "mma"),  # 128 * 3 > 132 * 2
    (8, 5632, 4096, DType.BF16, "sm90", 132, "simt"),  # 88 * 3 <= 132 * 2
    (8, 5696, 4096, DType.BF16, "sm90", 132, "mma"),  # 89 tiles
    (16, 2112, 4096, DType.BF16, "sm90", 132, "simt"),  # 33 * 4 <= 132
    (16, 2176, 4096, DType.BF16, "sm90", 132, "mma"),  # 34 tiles
    (32, 1024, 4096, DType.BF16, "sm90", 132, "simt"),  # 16 * 8 <= 132
    (33, 1024, 4096, DType.BF16, "sm90", 132, "mma"),  # beyond M = 32 only MMA
    (4, 65536, 4096, DType.BF16, "sm89", 128, "simt"),  # GDDR with >= 48 SMs at M = 4
    (6, 65536, 4096, DType.BF16, "sm89", 128, "simt"),  # wide N up to M = 6
    (7, 65536, 4096, DType.BF16, "sm89", 128, "mma"),
    (6, 65536, 4096, DType.BF16, "sm89", 58, "mma"),  # an L4 is too small for that rule
    (17, 2560, 10240, DType.BF16, "sm89", 128, "simt"),  # GDDR, K > N: 40 * 3 < 128
    (18, 2560, 10240, DType.BF16, "sm89", 128, "mma"),
    (64, 4096, 4096, DType.FP16, "sm75", 40, "mma"),  # Turing: fp16 only
    (64, 4096, 4096, DType.BF16, "sm75", 40, "simt"),
    (64, 4096, 4096, DType.FP16, "sm70", 80, "simt"),
    (6, 65536, 4096, DType.BF16, "sm121", 48, "simt"),
    (4, 65536, 4096, DType.BF16, "sm100", 148, "mma"),  # 1024 tiles fill 148 SMs
]


@pytest.mark.parametrize(("M", "N", "K", "dtype", "arch", "multiprocessors", "kernel"), C_RULE)
def test_the_restated_c_rule(M, N, K, dtype, arch, multiprocessors, kernel):
    assert dispatch.fused_kernel(Problem(M, N, K), dtype, arch, multiprocessors) == kernel


def test_moved_bytes_follow_the_kernel_that_ran() -> None:
    problem, nested = Problem(9, 64, 4096), FourBit("nf4", 64, DType.BF16, nested=True)
    elements, rest = 64 * 4096, 2 * (9 * 4096 + 9 * 64)

    def moved(kernel: str, scheme: Scheme = BF16) -> int | None:
        return upstream.GEMM.moved_bytes(problem, scheme, {"kernel": kernel})

    weight = elements // 2 + 4 * elements // 64
    assert moved("simt") == 2 * weight + rest  # nine rows are two passes of eight
    assert moved("dequant_linear") == weight + 4 * elements + rest
    nested_weight = elements // 2 + elements // 64 + 4 * 16 + 1024 + 4
    assert moved("dequant_linear", nested) == nested_weight + 8 * elements // 64 + 4 * elements + rest
    assert moved("mma") is None

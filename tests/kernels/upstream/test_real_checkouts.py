"""The adapters against the real files of their projects, where an environment variable names a checkout.

The packages of the stub folder compute, as in `test_upstream_adapters`, and the signatures of the real functions, read
from the checkout, must accept each call: importing the real packages needs their builds and their GPUs.
"""

import ast
import inspect
import os
from functools import wraps
from pathlib import Path

import pytest
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.upstream.aiter_a16w8 import AITER_A16W8
from rooflens.kernels.upstream.aiter_mx import AITER_MOE, AITER_MX
from rooflens.kernels.upstream.primus_turbo import PRIMUS_TURBO_FP8
from rooflens.shapes.problem import Pass, Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme

from ..devices import CPU, gpu
from .test_upstream_adapters import ADAPTERS, case, forget, installed, modules, run_checked, train_inputs

__all__ = ["installed"]

CHECKOUTS = {"primus_turbo": "ROOFLENS_PRIMUS_TURBO", "aiter": "ROOFLENS_AITER"}

GEMM = "primus_turbo/triton/gemm/gemm_fp8_kernel.py"
QUANTIZERS = "primus_turbo/pytorch/kernels/quantization/quantization_impl.py"
BATCHED = ("aiter/ops/triton/gemm/batched/batched_gemm_a16w8_blockscale.py",
           "aiter/ops/triton/gemm/batched/batched_gemm_a16w8.py")  # fmt: skip
SMALL_M = ("aiter/ops/smallm_gemm_mxfp8.py",)


def real(*files: str) -> Path:
    """Return the first of `files` that the checkout has; skip the test where there is none."""
    variable = CHECKOUTS[files[0].partition("/")[0]]
    if not (checkout := os.environ.get(variable)):
        pytest.skip(f"{variable} does not name a checkout")
    found = [Path(checkout, file) for file in files if Path(checkout, file).is_file()]
    return found[0] if found else pytest.skip(f"{variable}={checkout} has no {files[0]}")


def signature(file: Path, name: str) -> inspect.Signature | None:
    """Read the signature of a function; None where the file has no function of that name."""
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            required = len(node.args.args) - len(node.args.defaults)
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            defaults = [inspect.Parameter.empty] * required + [None] * len(node.args.defaults)
            return inspect.Signature(
                [inspect.Parameter(arg.arg, kind, default=d) for arg, d in zip(node.args.args, defaults, strict=True)]
            )
    return None


def bound(monkeypatch, module, file: Path, *names: str) -> None:
    """Let the functions of a stub take only what the real ones take; remove those that do not exist."""
    for name in names:
        expected = signature(file, name)
        if expected is None:
            monkeypatch.delattr(module, name)
        else:
            monkeypatch.setattr(module, name, checked(getattr(module, name), expected))


def checked(original, expected: inspect.Signature):
    @wraps(original)
    def function(*arguments, **keywords):
        expected.bind(*arguments, **keywords)
        return original(*arguments, **keywords)

    function.__signature__ = expected
    return function


@pytest.mark.parametrize("pass_", list(Pass))
@pytest.mark.parametrize("name", ["fp8-blockwise", "fp8-blockwise-prequantized"])
@pytest.mark.usefixtures("installed")
def test_primus_turbo_is_called_as_it_wants_to_be(monkeypatch, pass_, name):
    gemm, quantizers = real(GEMM), real(QUANTIZERS)
    bound(monkeypatch, modules()[0], gemm, "gemm_fp8_blockwise_triton_kernel")
    kinds = ("quant_fp8_blockwise_impl", "quant_fp8_blockwise_for_weight_impl", "quant_fp8_blockwise_dual_impl")
    bound(monkeypatch, modules()[1], quantizers, *kinds)
    run_checked(PRIMUS_TURBO_FP8, train_inputs(pass_, name))


@pytest.mark.parametrize("name", ["a16w8-128x128", "a16w8-128x128-prequant-bias"])
@pytest.mark.usefixtures("installed")
def test_aiters_a16w8_is_called_as_it_wants_to_be(monkeypatch, name):
    import aiter.ops.triton.gemm.batched.batched_gemm_a16w8 as stub

    bound(monkeypatch, stub, real(*BATCHED), "batched_gemm_a16w8")
    inputs = make_inputs(Problem(3, 130, 140, B=2), parse_scheme(name, DType.BF16), CPU, seed=2)
    run_checked(AITER_A16W8, inputs)


@pytest.mark.parametrize("m", [1, 8])
@pytest.mark.usefixtures("installed")
def test_aiters_mx_gemm_is_called_as_it_wants_to_be(monkeypatch, m):
    import aiter.ops.smallm_gemm_mxfp8 as stub

    file = real(*SMALL_M)
    bound(monkeypatch, stub, file, "mxfp8_gemv", "smallm_mxfp8_gemv", "smallm_mxfp8_mfma")
    run_checked(AITER_MX, make_inputs(Problem(m, 64, 128), parse_scheme("mxfp8-rceil", DType.BF16), CPU, seed=2))
    for name, last in (("smallm_mxfp8_gemv", ["block_n"]), ("smallm_mxfp8_mfma", ["n_sub", "k_splits"])):
        found = signature(file, name)
        assert found is not None
        assert [*found.parameters][-len(last) :] == last, "these values are reported as its configuration"


@pytest.mark.usefixtures("installed")
def test_aiters_moe_gemm_is_called_as_it_wants_to_be(monkeypatch):
    import aiter.ops.smallm_gemm_mxfp8 as stub

    bound(monkeypatch, stub, real(*SMALL_M), "grouped_gemm_mxfp8", "smallm_mxfp8_moe_grouped_gemm")
    problem, scheme = case(AITER_MOE)
    run_checked(AITER_MOE, make_inputs(problem, scheme, CPU, seed=2))


FILES = {AITER_A16W8: BATCHED, AITER_MX: SMALL_M, AITER_MOE: SMALL_M, PRIMUS_TURBO_FP8: (GEMM,)}


@pytest.mark.parametrize("provider", ADAPTERS, ids=lambda provider: provider.name)
def test_the_kernel_is_found_in_a_checkout_and_only_offered_on_its_gpus(monkeypatch, provider):
    files = FILES[provider]
    real(*files)
    forget()
    monkeypatch.syspath_prepend(os.environ[CHECKOUTS[files[0].partition("/")[0]]])
    assert provider.supports(*case(provider), gpu("gfx950")).ok
    assert "only" in provider.supports(*case(provider), gpu("sm90")).reason
    forget()

"""The adapters of aiter and Primus-Turbo, against packages of those names with their signatures (folder stub).

Where an environment variable names a checkout of the project, the stub's functions take only what its real ones take:
importing the real packages needs their builds and their GPUs.
"""

import ast
import importlib
import importlib.util
import inspect
import os
import sys
from functools import wraps
from pathlib import Path

import pytest
import torch
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.provider import DeclinedError, Role
from rooflens.kernels.reference import measure
from rooflens.kernels.upstream import observe
from rooflens.kernels.upstream.aiter_a16w8 import AITER_A16W8
from rooflens.kernels.upstream.aiter_mx import AITER_MOE, AITER_MX
from rooflens.kernels.upstream.primus_turbo import PRIMUS_TURBO_FP8
from rooflens.shapes.problem import Op, Pass, Problem
from rooflens.shapes.scheme import DType

from ..checks import check_launch
from ..devices import CPU, gpu
from ..synthetic import operands, scheme_of

STUB = Path(__file__).parent / "stub"
PACKAGES = ("aiter", "primus_turbo")
ADAPTERS = {
    AITER_A16W8: ("a16w8-128x128", Problem(3, 130, 140, B=2)),
    AITER_MX: ("mxfp8-rceil", Problem(3, 64, 128)),
    AITER_MOE: ("mxfp8-moe-rceil", Problem(3, 64, 128, op=Op.MOE_GEMM, E=4, top_k=2)),
    PRIMUS_TURBO_FP8: ("fp8-blockwise", Problem(130, 140, 150)),
}


def forget():
    for name in [name for name in sys.modules if name.split(".")[0] in PACKAGES]:
        del sys.modules[name]
    importlib.invalidate_caches()


BATCHED, SMALL_M = "aiter/ops/triton/gemm/batched/batched_gemm_a16w8.py", "aiter/ops/smallm_gemm_mxfp8.py"
CALLED = {
    BATCHED: ("batched_gemm_a16w8",),
    SMALL_M: (
        "mxfp8_gemv", "smallm_mxfp8_gemv", "smallm_mxfp8_mfma", "grouped_gemm_mxfp8", "smallm_mxfp8_moe_grouped_gemm",
    ),
    "primus_turbo/triton/gemm/gemm_fp8_kernel.py": ("gemm_fp8_blockwise_triton_kernel",),
    "primus_turbo/pytorch/kernels/quantization/quantization_impl.py": (
        "quant_fp8_blockwise_impl", "quant_fp8_blockwise_for_weight_impl", "quant_fp8_blockwise_dual_impl",
    ),
}  # fmt: skip
"""file -> functions that the adapters call"""
CHECKOUTS = {"primus_turbo": "ROOFLENS_PRIMUS_TURBO", "aiter": "ROOFLENS_AITER"}


def signatures(file):
    """{name: signature} of a file's functions, without importing it."""
    found = {}
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            required = len(node.args.args) - len(node.args.defaults)
            defaults = [inspect.Parameter.empty] * required + [None] * len(node.args.defaults)
            kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
            pairs = zip(node.args.args, defaults, strict=True)
            found[node.name] = inspect.Signature([inspect.Parameter(one.arg, kind, default=d) for one, d in pairs])
    return found


def checked(original, expected):
    @wraps(original)
    def function(*arguments, **keywords):
        expected.bind(*arguments, **keywords)
        return original(*arguments, **keywords)

    function.__signature__ = expected
    return function


@pytest.fixture
def installed(monkeypatch):
    """Put the packages of the stub folder where installed ones would be found."""
    forget()
    monkeypatch.syspath_prepend(str(STUB))
    for place, names in CALLED.items():
        if checkout := os.environ.get(CHECKOUTS[place.partition("/")[0]]):
            module = importlib.import_module(place.removesuffix(".py").replace("/", "."))
            places = (place.replace(".py", "_blockscale.py"), place)
            file = next(file for one in places if (file := Path(checkout, one)).is_file())
            for name, expected in ((name, signatures(file).get(name)) for name in names):
                if expected is None:
                    monkeypatch.delattr(module, name)
                else:
                    monkeypatch.setattr(module, name, checked(getattr(module, name), expected))
    yield
    forget()


@pytest.fixture
def not_installed(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in PACKAGES else find(name))


def case(provider):
    name, problem = ADAPTERS[provider]
    return problem, scheme_of(name)


@pytest.mark.parametrize("provider", ADAPTERS, ids=lambda provider: provider.name)
@pytest.mark.usefixtures("not_installed")
def test_not_installed(provider):
    assert provider.role is Role.UPSTREAM
    for device in (CPU, gpu("gfx950")):
        reason = provider.supports(*case(provider), device).reason
        package = "primus_turbo" if provider is PRIMUS_TURBO_FP8 else "aiter"
        assert reason.startswith(f"{package} is not installed: see https://github.com/")


@pytest.mark.parametrize("provider", ADAPTERS, ids=lambda provider: provider.name)
@pytest.mark.usefixtures("installed")
def test_installed_is_supported_on_its_gpus_without_importing_it(provider):
    assert provider.supports(*case(provider), gpu("gfx950")).ok
    assert provider.supports(*case(provider), gpu("gfx942")).ok == (provider not in (AITER_MX, AITER_MOE))
    for device in (CPU, gpu("sm90"), gpu("gfx1100")):
        assert "only" in provider.supports(*case(provider), device).reason
    assert any(map(os.environ.get, CHECKOUTS.values())) or not set(PACKAGES) & set(sys.modules)


def test_another_project_of_the_name_is_not_taken_for_it(monkeypatch, tmp_path):
    (tmp_path / "aiter").mkdir()
    (tmp_path / "aiter" / "__init__.py").write_text("raise RuntimeError('imported')")
    forget()
    monkeypatch.syspath_prepend(str(tmp_path))
    for provider in (AITER_A16W8, AITER_MX, AITER_MOE):
        reason = provider.supports(*case(provider), gpu("gfx950")).reason
        assert "the installed aiter has no ops/" in reason
        assert "another version or project" in reason
    forget()


@pytest.mark.parametrize("dtype", (DType.BF16, DType.FP16))
@pytest.mark.parametrize("name", ("a16w8-128x128", "a16w8-128x128-bias", "a16w8-128x128-prequant-bias"))
@pytest.mark.usefixtures("installed")
def test_aiter_a16w8(name, dtype):
    problem, scheme = Problem(3, 130, 140, B=2), scheme_of(name, dtype)
    inputs = make_inputs(problem, scheme, CPU, seed=2)
    launch = check_launch(AITER_A16W8, inputs, None)
    module = importlib.import_module("aiter.ops.triton.gemm.batched.batched_gemm_a16w8")
    assert set(module.SEEN) == {((2, 130, 140), scheme.prequant)}, "the native layout, and the scheme's prequantization"
    assert launch.config == {"aiter": "0.0+stub", "function": f"{module.__name__}.batched_gemm_a16w8"}
    weight, scales = 2 * 130 * 140, 2 * 4 * 2 * 2
    moved = AITER_A16W8.moved_bytes(problem, scheme, launch.config)
    assert moved == scheme.compulsory_bytes(problem) + 2 * (weight + scales)


@pytest.mark.usefixtures("installed")
def test_a_function_of_the_same_name_that_does_something_else_is_declined(monkeypatch):
    module = importlib.import_module("aiter.ops.triton.gemm.batched.batched_gemm_a16w8")
    monkeypatch.setattr(module, "batched_gemm_a16w8", lambda X, WQ, w_scale, group_size, YQ=None: None)
    problem, scheme = case(AITER_A16W8)
    with pytest.raises(DeclinedError, match=r"is another function: it takes no x"):
        AITER_A16W8.prepare(make_inputs(problem, scheme, CPU, seed=2))


GEMV, MFMA = "smallm_mxfp8_gemv block_n=8", "smallm_mxfp8_mfma n_sub=1 k_splits=2"


@pytest.mark.parametrize(
    ("m", "n", "dispatched"),
    ((1, 64, GEMV), (3, 64, GEMV), (8, 64, MFMA), (64, 64, MFMA), (16, 160, GEMV)),
    ids=("one row", "padded rows", "matrix units", "64 rows", "fallback of the wrapper"),
)
@pytest.mark.usefixtures("installed")
def test_aiter_mx_says_which_kernel_ran(m, n, dispatched):
    inputs = operands(Problem(m, n, 128), "mxfp8-rceil", seed=2)
    launch = check_launch(AITER_MX, inputs, None)
    assert launch.dispatched == dispatched
    assert launch.kernels == (dispatched.split()[0],)
    module = importlib.import_module("aiter.ops.smallm_gemm_mxfp8")
    assert module.smallm_mxfp8_gemv.__module__ == module.smallm_mxfp8_mfma.__module__ == module.__name__


@pytest.mark.parametrize(
    ("name", "problem"),
    (
        ("mxfp8-moe-rceil", Problem(5, 64, 128, op=Op.MOE_GEMM, E=4, top_k=2)),
        ("mxfp8-moe-rceil-weighted", Problem(9, 64, 128, op=Op.MOE_GEMM, E=4)),
    ),
    ids=("gemm1", "gemm2"),
)
@pytest.mark.usefixtures("installed")
def test_aiter_moe_multiplies_routed_rows(name, problem):
    scheme = scheme_of(name)
    launch = check_launch(AITER_MOE, make_inputs(problem, scheme, CPU, seed=2), None)
    assert launch.kernels == ("smallm_mxfp8_moe_grouped_gemm",)
    assert launch.config == {"aiter": "0.0+stub", "kernel": "smallm_mxfp8_moe_grouped_gemm"}
    zeros = 2 * problem.rows * problem.N
    assert AITER_MOE.moved_bytes(problem, scheme, {}) > scheme.compulsory_bytes(problem) + zeros, "blocks are padded"


HIDDEN = "hid an error and returned None: smallm_mxfp8_"
MOE = {"op": Op.MOE_GEMM, "E": 4, "top_k": 2}


@pytest.mark.parametrize(
    ("m", "n", "message", "more"),
    (
        (1, 48, "returned None for M=1 N=48 K=128: it leaves it to Triton", {}),
        (40, 64, "returned None for M=40 N=64 K=128: it leaves it to Triton", {}),
        (1, 96, HIDDEN + "gemv: RuntimeError: gemv: no kernel image for this device", {}),
        (8, 96, HIDDEN + "mfma: RuntimeError: mfma: k_splits does not divide K; smallm_mxfp8_gemv: RuntimeError", {}),
        (3, 48, "aiter's grouped_gemm_mxfp8 returned None for", MOE),
        (3, 96, f"aiter's grouped_gemm_mxfp8 {HIDDEN}moe_grouped_gemm: Ru", MOE),
    ),
)
@pytest.mark.usefixtures("installed")
def test_none_is_told_apart_from_a_hidden_error(m, n, message, more):
    provider, name = (AITER_MOE, "mxfp8-moe-rceil") if more else (AITER_MX, "mxfp8-rceil")
    inputs = operands(Problem(m, n, 128, **more), name, seed=2)
    with pytest.raises(DeclinedError) as caught:
        provider.prepare(inputs)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("installed")
def test_a_launch_that_turns_none_later_does_not_pass_an_old_output(monkeypatch):
    inputs = operands(Problem(1, 64, 128), "mxfp8-rceil", seed=2)
    launch = AITER_MX.prepare(inputs)

    def broken(*arguments):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(importlib.import_module("aiter.ops.smallm_gemm_mxfp8"), "smallm_mxfp8_gemv", broken)
    with pytest.raises(DeclinedError):
        launch()


NT, NN, TN = (False, True, False), (False, False, False), (True, False, True)
PASSES = {  # layouts of the products; what quantizers write, a fused one first, as its autograd function does
    Pass.FWD: ([NT], ["row+col", "weight"], ["row", "weight"]),
    Pass.DGRAD: ([NN], ["row"], ["row"]),
    Pass.WGRAD: ([TN], ["col"], ["col", "col"]),
    Pass.BWD: ([NN, TN], ["row+col"], ["col", "row", "col"]),
    Pass.STEP: ([NT, NN, TN], ["row+col", "weight", "row+col"], ["row", "weight", "col", "row", "col"]),
}


@pytest.mark.parametrize("pass_", PASSES)
@pytest.mark.parametrize(
    ("name", "fused"),
    [
        ("fp8-blockwise", True),
        ("fp8-blockwise", False),
        ("fp8-blockwise-hybrid", True),
        ("fp8-blockwise-prequantized", True),
    ],
)
@pytest.mark.usefixtures("installed")
def test_primus_turbo_computes_every_pass(pass_, name, fused, monkeypatch):
    gemm = importlib.import_module("primus_turbo.triton.gemm.gemm_fp8_kernel")
    quantizers = importlib.import_module("primus_turbo.pytorch.kernels.quantization.quantization_impl")
    if not fused:
        monkeypatch.delattr(quantizers, "quant_fp8_blockwise_dual_impl")
    launch = check_launch(PRIMUS_TURBO_FP8, operands(Problem(130, 140, 150, pass_=pass_), name, seed=2), None)
    gemm.CALLS.clear()
    quantizers.CALLS.clear()
    launch()
    layouts, together, apart = PASSES[pass_]
    assert layouts == gemm.CALLS
    assert launch.config["primus_turbo"] == "0.0+stub"
    if name == "fp8-blockwise":
        assert (together if fused else apart) == quantizers.CALLS
        assert launch.config["fused_quantizer"] is fused


@pytest.mark.usefixtures("installed")
def test_watching_leaves_the_module_as_it_was():
    module = importlib.import_module("aiter.ops.smallm_gemm_mxfp8")
    before = dict(vars(module))
    with pytest.raises(ZeroDivisionError), observe.watched(module, {"smallm_mxfp8_gemv": (), "absent": ()}):
        raise ZeroDivisionError
    assert dict(vars(module)) == before


@pytest.mark.gpu
def test_launched_triton_kernels_are_seen():
    from rooflens.harness.machine.device import find_device
    from rooflens.kernels.a16w8.triton_providers import TUNED

    device = find_device("cuda")
    scheme = scheme_of("a16w8-128x128")
    if not TUNED.supports(Problem(1, 64, 128), scheme, device).ok:
        pytest.skip(TUNED.supports(Problem(1, 64, 128), scheme, device).reason)
    inputs = make_inputs(Problem(1, 64, 128), scheme, device, seed=2)
    launch = TUNED.prepare(inputs)
    assert observe.triton_kernels(launch) == ("a16w8_kernel",)
    assert observe.triton_kernels(lambda: torch.add(inputs.x, 1)) == ()
    assert not measure(launch.output, inputs.reference()[0]).failure(scheme)

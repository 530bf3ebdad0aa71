"""Library baselines: right results in every form, honest configuration, settings of the process restored."""

import itertools
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from rooflens.kernels import registry
from rooflens.kernels.fourbit import blas
from rooflens.kernels.libraries import blas_forms, library_names
from rooflens.kernels.provider import Role
from rooflens.kernels.reference import measure
from rooflens.shapes.errors import RooflensError
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes.fourbit import FourBit

from .devices import CPU, H200, MI300X
from .synthetic import operands

ONEDNN = torch.backends.mkldnn


@pytest.mark.parametrize("form", blas_forms.FORMS)
@pytest.mark.parametrize("dtype", list(DType))
@pytest.mark.parametrize("bias", ("", "-bias"))
def test_every_form_is_right(form: str, dtype: DType, bias: str) -> None:
    for rows in (1, 3, 20):
        inputs = operands(Problem(rows, 40, 96), "nf4-g64" + bias, dtype)
        for provider in (blas.BLAS, blas.DEQUANT_BLAS):
            launch = provider.prepare(inputs, {"gemm": form})
            launch()
            accuracy = measure(launch.output, inputs.reference()[0])
            assert not (reason := accuracy.failure(inputs.scheme)), f"{provider.name} M={rows}: {reason}"
            assert launch.config["gemm"] == form


@pytest.mark.parametrize("dequantizer", ("cpp", "torch"))
@pytest.mark.parametrize("scheme", ("fp4-g32", "nf4-g64-nested"))
def test_both_dequantizers_give_the_same_bits(dequantizer: str, scheme: str) -> None:
    inputs = operands(Problem(2, 24, 200), scheme)  # blocks straddle rows
    launch = blas.DEQUANT_BLAS.prepare(inputs, {"dequantize": dequantizer, "gemm": "mm"})
    expected = blas.BLAS.prepare(inputs, {"gemm": "mm"})
    launch()
    expected()
    assert launch.config["dequantize"] == dequantizer
    assert torch.equal(launch.output, expected.output)


def test_without_a_compiler_torch_dequantizes_and_the_config_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_compiler(*_: object) -> None:
        raise RooflensError("no C++ compiler")

    monkeypatch.setattr("rooflens.kernels.fourbit.cpu.prepare_dequantize", no_compiler)
    inputs = operands(Problem(1, 16, 64))
    launch = blas.DEQUANT_BLAS.prepare(inputs)
    launch()
    assert launch.config["dequantize"] == "torch"
    assert measure(launch.output, inputs.reference()[0]).passes(inputs.scheme)
    with pytest.raises(RooflensError, match="no C\\+\\+ compiler"):
        blas.DEQUANT_BLAS.prepare(inputs, {"dequantize": "cpp"})


def test_default_forms_follow_the_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    def form(rows: int, dtype: DType, kind: str = "cpu") -> str:
        return blas_forms.default_form(Problem(rows, 64, 64), FourBit("nf4", 64, dtype), kind)

    monkeypatch.setattr(blas_forms, "onednn_has", lambda dtype: dtype is DType.BF16)
    assert [form(rows, DType.BF16) for rows in (1, 2, 256)] == ["native", "mm", "mm"]
    assert [form(rows, DType.FP32) for rows in (1, 2, 4, 8, 256)] == ["mm", "mm_t", "mm_t", "mm", "mm_t"]
    assert [form(rows, DType.FP16) for rows in (1, 7, 8, 64)] == ["mm", "mm", "fp32_mm", "fp32_mm_t"]
    assert {form(rows, dtype, "cuda") for rows in (1, 2, 64) for dtype in DType} == {"mm"}
    for rows, dtype, device in itertools.product((1, 4, 7, 64), DType, (CPU, H200)):
        scheme = FourBit("nf4", 64, dtype)
        offered = [config["gemm"] for config in blas.BLAS.candidates(Problem(rows, 64, 64), scheme, device)]
        assert offered[0] == form(rows, dtype, device.kind)
        assert set(offered) <= set(blas_forms.FORMS)


def test_the_library_of_a_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """oneDNN serves 16 bits where the CPU has what it needs, MKL or another BLAS fp32."""
    monkeypatch.setattr(library_names, "onednn_has", lambda dtype: dtype is DType.BF16)

    def library(form: str, dtype: DType) -> str:
        inputs = operands(Problem(2, 16, 64), dtype=dtype)
        return str(blas.BLAS.prepare(inputs, {"gemm": form}).config["library"]).split(" ")[0]

    blas_of_torch = "MKL" if torch.backends.mkl.is_available() else "BLAS"
    assert [library(form, DType.BF16) for form in ("mm", "native", "fp32_mm")] == ["oneDNN", "torch", blas_of_torch]
    assert library("mm", DType.FP16) == "torch"
    assert library("mm_t", DType.FP32) == blas_of_torch


def test_native_form_switches_onednn_off_during_the_call_only_also_when_it_fails(monkeypatch):
    seen = []
    launch = blas.BLAS.prepare(operands(Problem(1, 16, 64)), {"gemm": "native"})

    def fail(*_, **__):
        seen.append(ONEDNN.enabled)
        raise RuntimeError("no memory")

    monkeypatch.setattr(torch, "mm", fail)
    assert ONEDNN.enabled
    with pytest.raises(RuntimeError, match="no memory"):
        launch()
    assert seen == [False]
    assert ONEDNN.enabled


@pytest.fixture
def lower_precision() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.usefixtures("lower_precision")
def test_fp32_means_fp32_whatever_the_process_had_set() -> None:
    inputs = operands(Problem(4, 64, 512), dtype=DType.FP32)
    launch = blas.BLAS.prepare(inputs)
    launch()
    assert torch.get_float32_matmul_precision() == "highest"
    assert launch.config["fp32_precision"] == "highest"
    assert measure(launch.output, inputs.reference()[0]).snr_db > 110


class FakeTorchBlas:
    """Stands for torch.backends.cuda.preferred_blas_library of a ROCm build."""

    def __init__(self, offers_lt: bool = True) -> None:
        self.current, self.offers_lt = "default", offers_lt

    def __call__(self, library: str | None = None) -> str:
        if library is not None:
            self.current = "cublas" if library == "cublaslt" and not self.offers_lt else library
        return self.current


@pytest.mark.parametrize(("provider", "expected"), [(blas.BLAS_ROCBLAS, "cublas"), (blas.BLAS_HIPBLASLT, "cublaslt")])
def test_rocm_libraries_are_chosen_for_the_call_only(monkeypatch, provider, expected):
    prefer = FakeTorchBlas()
    monkeypatch.setattr(torch.backends.cuda, "preferred_blas_library", prefer)
    launch = provider.prepare(operands(Problem(1, 16, 64)), {"gemm": "mm"})
    assert prefer.current == "default"
    seen = []
    mm = torch.mm
    monkeypatch.setattr(torch, "mm", lambda *a, **k: (seen.append(prefer.current), mm(*a, **k))[1])
    launch()
    assert seen == [expected]
    assert prefer.current == "default"
    assert launch.config["library"] == {"cublas": "rocBLAS", "cublaslt": "hipBLASLt"}[expected]


def test_a_refused_rocm_library_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    prefer = FakeTorchBlas(offers_lt=False)
    monkeypatch.setattr(torch.backends.cuda, "preferred_blas_library", prefer)
    with pytest.raises(RooflensError, match="does not use hipBLASLt on cpu, but rocBLAS for M=1 N=16 K=64"):
        blas.BLAS_HIPBLASLT.prepare(operands(Problem(1, 16, 64)))
    assert prefer.current == "default"


def test_the_library_that_ran_is_not_the_preferred_one_where_torch_falls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch says so in a warning, once in a process unless asked to repeat it."""
    prefer = FakeTorchBlas()
    monkeypatch.setattr(torch.backends.cuda, "preferred_blas_library", prefer)
    mm = torch.mm

    def declining(*operands: torch.Tensor, **options: torch.Tensor) -> torch.Tensor:
        if prefer.current == "cublaslt":
            assert torch.is_warn_always_enabled()
            warnings.warn(
                "gemm_internal_cublaslt error. Will attempt to recover by calling cublas instead.", stacklevel=1
            )
        return mm(*operands, **options)

    monkeypatch.setattr(torch, "mm", declining)
    with pytest.raises(RooflensError, match="does not use hipBLASLt"):
        blas.BLAS_HIPBLASLT.prepare(operands(Problem(1, 16, 64)), {"gemm": "mm"})
    on_amd = replace(operands(Problem(1, 16, 64)), device=MI300X)
    for preferred, library in (("cublas", "rocBLAS"), ("cublaslt", "rocBLAS"), ("ck", "Composable Kernel")):
        prefer(preferred)
        assert blas.BLAS.prepare(on_amd, {"gemm": "mm"}).config["library"] == library
    assert not torch.is_warn_always_enabled()


def test_every_family_has_a_reference_through_each_rocm_library() -> None:
    providers = registry.load(name for name in registry.BUILTIN if "rocblas" in name or "hipblaslt" in name)
    libraries = {"rocblas": "rocBLAS", "hipblaslt": "hipBLASLt"}
    found = Counter((provider.family, provider.library) for provider in providers.values())
    references = {name: one for name, one in registry.BUILTIN.items() if one.role == "reference"}
    families = {one.family for one in references.values()}
    assert found.keys() == {(family, library) for family in families for library in libraries.values()}
    for name, provider in providers.items():
        assert libraries[name.split("_")[1]] == provider.library
        assert type(provider).__module__ == f"rooflens.kernels.{provider.family}.blas"
        assert provider.role is Role.REFERENCE

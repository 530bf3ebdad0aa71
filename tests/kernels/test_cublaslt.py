"""cuBLASLt's algorithms: what is asked of the library, by one that computes on the CPU what the header says."""

import ctypes
import gc
import weakref
from collections.abc import Iterator
from types import SimpleNamespace as Properties
from typing import Any

import pytest
import torch
from rooflens.kernels import registry
from rooflens.kernels.libraries import cublaslt, library_names, shared_libraries
from rooflens.kernels.libraries.cublaslt import Chosen, LtGemm, chosen_gemm
from rooflens.kernels.provider import DeclinedError
from rooflens.shapes.device import Device
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme

TYPES = {2: torch.float16, 14: torch.bfloat16}
H200 = Device("cuda", 0, "NVIDIA H200", "", "sm90", 132, 1 << 37, 50 << 20, 1)


def address(value: Any) -> int:
    return int(value.value if isinstance(value, ctypes.c_void_p) else ctypes.cast(value, ctypes.c_void_p).value)


def read(reference: Any, kind: Any) -> int:
    return int(ctypes.cast(reference, ctypes.POINTER(kind)).contents.value)


class FakeCublasLt:
    """Column-major products of what descriptors and layouts say; algorithm i takes `durations[i]` of its clock."""

    def __init__(self, durations: tuple[int, ...] = (3, 1, 2), broken: tuple[int, ...] = ()) -> None:
        self.made: list[dict[Any, Any]] = [{}]
        self.durations, self.warm, self.broken, self.clock = durations, durations, broken, 0
        self.is_cold = True
        self.operands = [torch.ones(shape, dtype=torch.bfloat16) for shape in ((1, 16), (8, 16), (1, 8))]
        self.ran: list[int] = []
        self.preferences: dict[int, int] = {}
        self.cublasLtGetStatusName = lambda status: b"CUBLAS_STATUS_INVALID_VALUE"
        self.cublasLtGetVersion = lambda: 130102

    def _make(self, out: Any, what: dict[Any, Any]) -> int:
        self.made.append(what)
        ctypes.cast(out, ctypes.POINTER(ctypes.c_void_p)).contents.value = len(self.made) - 1
        return 0

    def cublasLtMatmulDescCreate(self, out: Any, compute: int, scale: int) -> int:
        assert (compute, scale) == (68, 0)  # CUBLAS_COMPUTE_32F, CUDA_R_32F
        return self._make(out, {})

    def cublasLtMatmulDescSetAttribute(self, which: Any, attribute: int, value: Any, size: Any) -> int:
        self.made[which.value][attribute] = read(value, ctypes.c_uint64 if size.value == 8 else ctypes.c_int32)
        return 0

    def cublasLtMatrixLayoutCreate(self, out: Any, kind: int, rows: Any, columns: Any, leading: Any) -> int:
        return self._make(out, {"kind": kind, "shape": (rows.value, columns.value, leading.value), 5: 1, 6: 0})

    cublasLtMatrixLayoutSetAttribute = cublasLtMatmulDescSetAttribute

    def cublasLtMatmulPreferenceCreate(self, out: Any) -> int:
        return self._make(out, self.preferences)

    cublasLtMatmulPreferenceSetAttribute = cublasLtMatmulDescSetAttribute

    def _destroy(self, which: Any) -> int:
        return 0

    cublasLtMatmulDescDestroy = cublasLtMatrixLayoutDestroy = cublasLtMatmulPreferenceDestroy = _destroy

    def cublasLtMatmulAlgoGetHeuristic(self, *arguments: Any) -> int:
        found, count = arguments[-2:]
        for number in range(len(self.durations)):
            found[number].algo[0] = number
            found[number].state = 7 if number in self.broken else 0
        ctypes.cast(count, ctypes.POINTER(ctypes.c_int)).contents.value = len(self.durations)
        return 0

    def cublasLtMatmul(self, handle: Any, operation: Any, one: Any, a: Any, a_layout: Any, b: Any, *rest: Any) -> int:
        b_layout, zero, c, c_layout, d, d_layout, algorithm, *_ = rest
        assert (read(one, ctypes.c_int32), read(zero, ctypes.c_int32)) == (0x3F800000, 0)
        assert (address(c), c_layout.value) == (address(d), d_layout.value)
        settings = self.made[operation.value]
        first, second, result = (self._matrix(*pair) for pair in ((a, a_layout), (b, b_layout), (d, d_layout)))
        first = first.mT if settings.get(3) else first
        product = first.float() @ second.float()
        if settings.get(7) == 4:  # a bias for each row of the column-major result
            product += self._vector(settings[8], result).float()[:, None]
        result.copy_(product)
        number = ctypes.cast(algorithm, ctypes.POINTER(ctypes.c_uint64))[0]
        self.clock += (self.durations if self.is_cold else self.warm)[number]
        self.is_cold = False
        self.ran.append(number)
        return 0

    def _matrix(self, pointer: Any, layout: Any) -> torch.Tensor:
        """[B, rows, columns], a view of the memory."""
        made = self.made[layout.value]
        (rows, columns, leading), batch, step = made["shape"], made[5], made[6]
        size = (batch - 1) * step + leading * columns
        raw = (ctypes.c_char * (2 * size)).from_address(address(pointer))
        flat = torch.frombuffer(raw, dtype=TYPES[made["kind"]])
        return flat.as_strided((batch, rows, columns), (step, 1, leading))

    def _vector(self, pointer: int, like: torch.Tensor) -> torch.Tensor:
        raw = (ctypes.c_char * (2 * like.shape[1])).from_address(pointer)
        return torch.frombuffer(raw, dtype=like.dtype)


class FakeEvent:
    """Reads the clock of the library."""

    def __init__(self, library: FakeCublasLt) -> None:
        self._library, self.at = library, 0

    def record(self) -> None:
        self.at = self._library.clock

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: "FakeEvent") -> float:
        return float(end.at - self.at)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCublasLt]:
    fake = FakeCublasLt()
    monkeypatch.setattr(cublaslt, "_found", {})
    monkeypatch.setattr(cublaslt, "_workspace", lambda device: torch.empty(0))
    for module in (cublaslt, library_names):
        monkeypatch.setattr(module, "cublaslt", lambda: fake)
    library_names.cublas_name.cache_clear()
    monkeypatch.setattr(cublaslt, "_handle", lambda device: ctypes.c_void_p(1))
    monkeypatch.setattr(torch.cuda, "Event", lambda **_: FakeEvent(fake))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Properties(L2_cache_size=1 << 10))
    read = torch.Tensor.max

    def read_all(tensor: torch.Tensor) -> torch.Tensor:
        fake.is_cold |= tensor.nbytes >= 2 << 10
        return read(tensor)

    monkeypatch.setattr(torch.Tensor, "max", read_all)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: type("Stream", (), {"cuda_stream": 0}))
    yield fake
    library_names.cublas_name.cache_clear()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(("batch", "bias"), [((), False), ((), True), ((3,), False)])
def test_the_product_is_that_of_row_major_matrices(library, dtype, batch, bias):
    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(*batch, *shape, generator=generator).to(dtype) for shape in ((5, 16), (8, 16)))
    added = torch.randn(8, generator=generator).to(dtype) if bias else None
    out = torch.full((*batch, 5, 8), torch.nan, dtype=dtype)
    gemm = LtGemm(x, weight, added, out)
    gemm.launch(gemm.algorithms[0])
    expected = x.float() @ weight.float().mT + (0 if added is None else added.float())
    torch.testing.assert_close(out, expected.to(dtype))


def product(library: FakeCublasLt, form: str, default: int = 9) -> Chosen:
    """What `form` names, of the same operands, beside a product of torch that takes `default`."""
    x, weight, out = library.operands

    def mm() -> None:
        library.clock += default

    return chosen_gemm(form, mm, x, weight, None, out)


def test_the_fastest_of_the_list_runs(library):
    best = product(library, "lt")
    assert best.config == {"gemm": "lt1", "algorithms": 3, "library": "cuBLASLt 13.1.2"}
    library.ran.clear()
    best()
    assert library.ran == [1]
    assert product(library, "lt2").config["gemm"] == "lt2"
    assert product(library, "lt", default=0).config["gemm"] == "lt1"  # the same for all copies of the operands
    cublaslt._found.clear()
    chosen = product(library, "lt", default=0).config
    assert (chosen["gemm"], chosen["library"]) == ("mm", "cuBLAS 13.1.2")


def test_each_launch_of_the_search_finds_the_cache_cold(library):
    """Warm, algorithm 0 is the fastest."""
    library.durations, library.warm = (4, 3), (1, 2)
    assert product(library, "lt").config["gemm"] == "lt1"


def test_the_library_learns_of_alignments_and_of_room(library):
    x, weight, out = (torch.ones(shape, dtype=torch.bfloat16) for shape in ((1, 16), (8, 16), (1, 8)))
    LtGemm(x, weight, None, out)
    assert library.preferences[1] == 32 << 20
    assert [library.preferences[number] for number in (5, 6, 7, 8)] == [
        min(tensor.data_ptr() & -tensor.data_ptr(), 256) for tensor in (weight, x, out, out)
    ]


def test_what_the_library_does_not_offer_is_declined(library):
    with pytest.raises(DeclinedError, match="lists 3 algorithms"):
        product(library, "lt3")
    library.broken = (0, 2)  # heuristics mark what this GPU cannot run
    assert product(library, "lt").config["algorithms"] == 1


@pytest.mark.parametrize("winner", ["mm", "lt1"])
def test_operands_are_freed_with_the_launch(library, winner):
    """Without the garbage collector, which is off while launches are timed."""
    x, weight, out = (torch.ones(shape, dtype=torch.bfloat16) for shape in ((1, 16), (8, 16), (1, 8)))
    gc.disable()
    try:
        best = chosen_gemm(winner, lambda: None, x, weight, None, out)
        best()
        kept = weakref.ref(weight)
        del best, weight
        assert kept() is None
    finally:
        gc.enable()


def test_a_missing_library_is_declined(monkeypatch):
    monkeypatch.setattr("rooflens.kernels.libraries.shared_libraries.importlib.util.find_spec", lambda name: None)
    shared_libraries.cublaslt.cache_clear()
    library_names.cublas_name.cache_clear()
    with pytest.raises(DeclinedError, match="cuBLASLt is not installed"):
        shared_libraries.cublaslt()
    assert library_names.cublas_name() == "cuBLAS"


@pytest.mark.parametrize(
    ("name", "scheme", "unsupported"),
    [
        ("blas_best", "nf4-g64", DType.FP32),
        ("blas_best_mx", "mxfp8-rceil", None),
        ("bmm_best_a16w8", "a16w8-128x128", None),
    ],
)
def test_it_searches_on_nvidia_gpus_only(name, scheme, unsupported):
    (provider,) = registry.load([name]).values()
    problem, known = Problem(16, 256, 512), parse_scheme(scheme, DType.BF16)
    assert provider.supports(problem, known, H200).ok
    assert [one["gemm"] for one in provider.candidates(problem, known, H200)][:3] == ["lt", "mm", "lt0"]
    assert not provider.supports(problem, known, Device("cpu", 0, "", "", "", 1, 1, 1, 1)).ok
    if unsupported:
        assert "16 bits" in provider.supports(problem, parse_scheme(scheme, unsupported), H200).reason


def test_a_numbered_algorithm_holds_for_one_version(library):
    """A tuned table of another version names no candidate, so that its numbers choose nothing here."""
    (provider,) = registry.load(["blas_best"]).values()
    sizes = Problem(1, 8, 16), parse_scheme("nf4-g64", DType.BF16)
    before = provider.candidates(*sizes, H200)
    library_names.cublas_name.cache_clear()
    library.cublasLtGetVersion = lambda: 130103
    after = provider.candidates(*sizes, H200)
    assert [one for one in before if one in after] == [{"gemm": "lt"}, {"gemm": "mm"}]


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(1, 4096, 4096), (64, 512, 2048), (300, 1032, 768)])
def test_every_algorithm_computes_the_product(shape):
    m, n, k = shape
    x, weight = (torch.randn(rows, k, dtype=torch.bfloat16, device="cuda") for rows in (m, n))
    out = torch.empty(m, n, dtype=torch.bfloat16, device="cuda")
    gemm = LtGemm(x, weight, None, out)
    for algorithm in gemm.algorithms:
        out.fill_(torch.nan)
        gemm.launch(algorithm)
        torch.testing.assert_close(out, x @ weight.T, rtol=2e-2, atol=0.5)

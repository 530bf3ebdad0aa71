"""Algorithms of cuBLASLt and hipBLASLt: what is asked of them, by one that computes what their headers say."""

import ctypes
import weakref
from collections.abc import Iterator
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace as Properties
from typing import Any, NamedTuple

import pytest
import torch
from rooflens.kernels import registry
from rooflens.kernels.libraries import blas_lt, lt_library
from rooflens.kernels.libraries.blas_lt import Chosen, LtGemm, chosen_gemm, fastest
from rooflens.kernels.provider import DeclinedError
from rooflens.shapes.problem import Problem

from .devices import H200
from .synthetic import scheme_of

TYPES = {2: torch.float16, 14: torch.bfloat16}


def address(value: Any) -> int:
    return int(value.value if isinstance(value, ctypes.c_void_p) else ctypes.cast(value, ctypes.c_void_p).value)


def read(reference: Any, kind: Any) -> int:
    return int(ctypes.cast(reference, ctypes.POINTER(kind)).contents.value)


class Header(NamedTuple):
    """Values of enumerations, as cublasLt.h and hipblaslt.h have them."""

    prefix: str
    compute: int
    transposed: int
    first_transposed: int
    epilogue: int
    bias: int
    batch: int
    step: int
    algorithm_bytes: int
    workspace: int


CUDA = Header("cublasLt", 68, 1, 3, 7, 8, 5, 6, 64, 32 << 20)
ROCM = Header("hipblasLt", 2, 112, 0, 2, 3, 0, 1, 24, 76 << 20)


class FakeLt:
    """Column-major products of what descriptors and layouts say; algorithm i takes `durations[i]` of its clock."""

    def __init__(self, header: Header, durations: tuple[int, ...] = (3, 1, 2), broken: tuple[int, ...] = ()) -> None:
        self.header = header
        self.made: list[dict[Any, Any]] = [{}]
        self.durations, self.warm, self.broken, self.clock = durations, durations, broken, 0
        self.is_cold = True
        self.operands = [torch.ones(shape, dtype=torch.bfloat16) for shape in ((1, 16), (8, 16), (1, 8))]
        self.ran: list[int] = []
        self.preferences: dict[int, int] = {}
        self.version = 2

    def __getattr__(self, name: str) -> Any:
        assert name.startswith(self.header.prefix), name
        return getattr(self, name.removeprefix(self.header.prefix))

    @property
    def GetVersion(self) -> Any:
        def of_cuda() -> int:
            return 130100 + self.version

        def of_rocm(handle: Any, version: Any) -> int:
            ctypes.cast(version, ctypes.POINTER(ctypes.c_int)).contents.value = 100200 + self.version
            return 0

        return of_cuda if self.header is CUDA else of_rocm

    def Create(self, out: Any) -> int:
        return self._make(out, {})

    def _make(self, out: Any, what: dict[Any, Any]) -> int:
        self.made.append(what)
        ctypes.cast(out, ctypes.POINTER(ctypes.c_void_p)).contents.value = len(self.made) - 1
        return 0

    def MatmulDescCreate(self, out: Any, compute: int, scale: int) -> int:
        assert (compute, scale) == (self.header.compute, 0)  # products in fp32, scaled in fp32
        return self._make(out, {})

    def MatmulDescSetAttribute(self, which: Any, attribute: int, value: Any, size: Any) -> int:
        self.made[which.value][attribute] = read(value, ctypes.c_uint64 if size.value == 8 else ctypes.c_int32)
        return 0

    def MatrixLayoutCreate(self, out: Any, kind: int, rows: Any, columns: Any, leading: Any) -> int:
        return self._make(out, {"kind": kind, "shape": (rows.value, columns.value, leading.value)})

    MatrixLayoutSetAttribute = MatmulDescSetAttribute

    def MatmulPreferenceCreate(self, out: Any) -> int:
        return self._make(out, self.preferences)

    MatmulPreferenceSetAttribute = MatmulDescSetAttribute

    def _destroy(self, which: Any) -> int:
        return 0

    MatmulDescDestroy = MatrixLayoutDestroy = MatmulPreferenceDestroy = _destroy

    def MatmulAlgoGetHeuristic(self, *arguments: Any) -> int:
        found, count = arguments[-2:]
        for number in range(len(self.durations)):
            assert ctypes.sizeof(found[number].algo) == self.header.algorithm_bytes
            found[number].algo[0] = number
            found[number].state = 7 if number in self.broken else 0
        ctypes.cast(count, ctypes.POINTER(ctypes.c_int)).contents.value = len(self.durations)
        return 0

    def Matmul(self, handle: Any, operation: Any, one: Any, a: Any, a_layout: Any, b: Any, *rest: Any) -> int:
        b_layout, zero, c, c_layout, d, d_layout, algorithm, *_ = rest
        assert (read(one, ctypes.c_int32), read(zero, ctypes.c_int32)) == (0x3F800000, 0)
        assert (address(c), c_layout.value) == (address(d), d_layout.value)
        settings = self.made[operation.value]
        first, second, result = (self._matrix(*pair) for pair in ((a, a_layout), (b, b_layout), (d, d_layout)))
        first = first.mT if settings.get(self.header.first_transposed) == self.header.transposed else first
        product = first.float() @ second.float()
        if settings.get(self.header.epilogue) == 4:  # a bias for each row of the column-major result
            product += self._vector(settings[self.header.bias], result).float()[:, None]
            if self.header is ROCM:
                assert TYPES[settings[4]] == result.dtype
        result.copy_(product)
        number = ctypes.cast(algorithm, ctypes.POINTER(ctypes.c_uint64))[0]
        self.clock += (self.durations if self.is_cold else self.warm)[number]
        self.is_cold = False
        self.ran.append(number)
        return 0

    def _matrix(self, pointer: Any, layout: Any) -> torch.Tensor:
        """[B, rows, columns], a view of the memory."""
        made = self.made[layout.value]
        rows, columns, leading = made["shape"]
        batch, step = made.get(self.header.batch, 1), made.get(self.header.step, 0)
        size = (batch - 1) * step + leading * columns
        raw = (ctypes.c_char * (2 * size)).from_address(address(pointer))
        flat = torch.frombuffer(raw, dtype=TYPES[made["kind"]])
        return flat.as_strided((batch, rows, columns), (step, 1, leading))

    def _vector(self, pointer: int, like: torch.Tensor) -> torch.Tensor:
        raw = (ctypes.c_char * (2 * like.shape[1])).from_address(pointer)
        return torch.frombuffer(raw, dtype=like.dtype)


class FakeEvent:
    """Reads the clock of the library."""

    def __init__(self, library: FakeLt) -> None:
        self._library, self.at = library, 0

    def record(self) -> None:
        self.at = self._library.clock

    def synchronize(self) -> None:
        pass

    def elapsed_time(self, end: "FakeEvent") -> float:
        return float(end.at - self.at)


CACHED = (lt_library.lt_library, lt_library.handle, lt_library.lt_version)


@pytest.fixture(params=[CUDA, ROCM], ids=["cuda", "rocm"])
def library(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLt]:
    fake = FakeLt(request.param)
    for cached in CACHED:
        cached.cache_clear()
    monkeypatch.setattr(lt_library, "load_library", lambda *_: fake)
    monkeypatch.setattr(torch.version, "hip", "7.0" if fake.header is ROCM else None)
    monkeypatch.setattr(torch.cuda, "device", lambda _: nullcontext())
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(blas_lt, "_found", {})
    monkeypatch.setattr(blas_lt, "_workspace", lambda device, size: torch.empty(0))
    monkeypatch.setattr(torch.cuda, "Event", lambda **_: FakeEvent(fake))
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Properties(L2_cache_size=1 << 10))
    read = torch.Tensor.max

    def read_all(tensor: torch.Tensor) -> torch.Tensor:
        fake.is_cold |= tensor.nbytes >= 2 << 10
        return read(tensor)

    monkeypatch.setattr(torch.Tensor, "max", read_all)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: type("Stream", (), {"cuda_stream": 0}))
    yield fake
    for cached in CACHED:
        cached.cache_clear()


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


def product(library: FakeLt, form: str, default: int = 9) -> Chosen:
    """What `form` names, of the same operands, beside a product of torch that takes `default`."""
    x, weight, out = library.operands

    def mm() -> None:
        library.clock += default

    return chosen_gemm(form, mm, x, weight, None, out)


def test_the_fastest_of_the_list_runs(library):
    best = product(library, "lt")
    named = "cuBLASLt 13.1.2" if library.header is CUDA else "hipBLASLt 1.2.2"
    assert best.config == {"gemm": "lt", "found": "lt1", "algorithms": 3, "library": named}
    library.ran.clear()
    best()
    assert library.ran == [1]
    assert product(library, "lt", default=0).config["found"] == "lt1"  # the same for all copies of the operands
    blas_lt._found.clear()
    torchs = product(library, "lt", default=0).config  # by torch's library, whichever that is
    assert torchs == {"gemm": "lt", "found": "mm", "algorithms": 3}


@pytest.mark.parametrize(
    ("torchs", "again", "found"),
    [
        ([100] * 45, [90] * 45, "lt1"),
        ([100] * 45, [96] * 45, "lt1"),
        ([100] * 45, [98] * 45, "mm"),  # chance won the search
        ([200] * 23 + [100] * 22, [198] * 22 + [99] * 23, "mm"),  # the clock rate doubles halfway, within a pair
        ([100] * 23 + [200] * 22, [90] * 22 + [180] * 23, "lt1"),  # it halves
    ],
)
def test_the_winner_of_the_search_must_win_again(monkeypatch, torchs, again, found):
    searched = {"mm": [100] * 15, "lt0": [97] * 15, "lt1": [50] * 15}
    comparisons = [searched, {"mm": torchs, "lt1": again}]

    def timed(calls: dict[str, Any], *_: Any) -> dict[str, list[float]]:
        times = comparisons.pop(0)
        assert times.keys() == calls.keys()
        return times

    monkeypatch.setattr(blas_lt, "_cold_times", timed)
    assert fastest(dict.fromkeys(searched, int), torch.device("cpu")) == found


def test_the_winner_is_confirmed_in_turns_with_torchs_choice(library):
    ran: list[str] = []

    def launch(name: str, duration: int) -> None:
        ran.append(name)
        library.clock += duration

    durations = {"mm": 100, "lt0": 90, "lt1": 120}
    calls = {name: partial(launch, name, duration) for name, duration in durations.items()}
    assert fastest(calls, torch.device("cpu")) == "lt0"
    search = len(ran) - ran[::-1].index("lt1")
    assert ran[search:] == ["mm", "lt0"] * 46  # the first pair loads modules
    ran.clear()
    calls["mm"] = partial(launch, "mm", 90)
    assert fastest(calls, torch.device("cpu")) == "mm"
    assert len(ran) == search  # there is nothing to confirm


def test_what_ran_holds_what_was_asked_for(library):
    for form in ("lt", "mm", "lt2"):
        assert product(library, form).config["gemm"] == form


def test_each_launch_of_the_search_finds_the_cache_cold(library):
    """Warm, algorithm 0 is the fastest."""
    library.durations, library.warm = (4, 3), (1, 2)
    assert product(library, "lt").config["found"] == "lt1"


def test_the_library_learns_of_alignments_and_of_room(library):
    x, weight, out = (torch.ones(shape, dtype=torch.bfloat16) for shape in ((1, 16), (8, 16), (1, 8)))
    LtGemm(x, weight, None, out)
    assert library.preferences.pop(1) == library.header.workspace
    alignments = [min(tensor.data_ptr() & -tensor.data_ptr(), 256) for tensor in (weight, x, out, out)]
    assert library.preferences == (dict(enumerate(alignments, 5)) if library.header is CUDA else {})


def test_what_the_library_does_not_offer_is_declined(library):
    with pytest.raises(DeclinedError, match="lists 3 algorithms"):
        product(library, "lt3")
    library.broken = (0, 2)  # heuristics mark what this GPU cannot run
    assert product(library, "lt").config["algorithms"] == 1


@pytest.mark.parametrize("winner", ["mm", "lt1"])
def test_operands_are_freed_with_the_launch(library, uncollected, winner):
    x, weight, out = (torch.ones(shape, dtype=torch.bfloat16) for shape in ((1, 16), (8, 16), (1, 8)))
    best = chosen_gemm(winner, lambda: None, x, weight, None, out)
    best()
    kept = weakref.ref(weight)
    del best, weight
    assert kept() is None


@pytest.mark.parametrize(("hip", "name"), [(None, "cuBLASLt"), ("7.0", "hipBLASLt")])
def test_a_missing_library_is_declined(monkeypatch, hip, name):
    monkeypatch.setattr("rooflens.kernels.libraries.shared_libraries.importlib.util.find_spec", lambda name: None)
    monkeypatch.setattr(torch.version, "hip", hip)
    for cached in CACHED:
        cached.cache_clear()
    with pytest.raises(DeclinedError, match=f"{name} is not installed"):
        lt_library.lt_library()
    assert lt_library.lt_version() == ""
    lt_library.lt_version.cache_clear()


@pytest.mark.parametrize(
    ("name", "scheme"), [("blas_best", "nf4-g64"), ("blas_best_mx", "mxfp8-rceil"), ("bmm_best_a16w8", "a16w8-128x128")]
)
def test_what_is_searched(name, scheme):
    offered = registry.load([name])[name].candidates(Problem(16, 256, 512), scheme_of(scheme), H200)
    assert [one["gemm"] for one in offered][:3] == ["lt", "mm", "lt0"]


def test_a_numbered_algorithm_holds_for_one_version(library):
    """A tuned table of another version names no candidate, so that its numbers choose nothing here."""
    (provider,) = registry.load(["blas_best"]).values()
    sizes = Problem(1, 8, 16), scheme_of("nf4-g64")
    before = provider.candidates(*sizes, H200)
    lt_library.lt_version.cache_clear()
    library.version = 3
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

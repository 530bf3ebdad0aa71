"""The C++ GEMM: every path against the fp64 product of the dequantized bits, with error bounds from the arithmetic."""

import ctypes
import os
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rooflens.kernels import cpu_info
from rooflens.kernels.fourbit import cpu_build
from rooflens.kernels.fourbit.cpu import BLOCK_M, SIMD_CPU
from rooflens.kernels.fourbit.cpu_library import (
    DequantizeArguments,
    GemmArguments,
    Isa,
    StreamArguments,
    instruction_sets,
    library,
    stream_read,
)
from rooflens.kernels.fourbit.inputs import FourBitInputs
from rooflens.kernels.inputs import make_inputs
from rooflens.shapes.device import Device
from rooflens.shapes.errors import UsageError
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import DType, Scheme
from rooflens.shapes.schemes import parse_scheme
from rooflens.shapes.schemes.fourbit import BLOCK_SIZES_4BIT, FourBit

if cpu_build.compiler_command() is None:
    pytest.skip(cpu_build.NO_COMPILER, allow_module_level=True)

CPU = Device("cpu", 0, "test", "test", "x86-64", 2, 1 << 25, 1 << 20, 1 << 34)
GPU = Device("cuda", 0, "test", "NVIDIA", "sm90", 132, 1 << 26, 1 << 26, 1 << 37)
UNIT = {torch.bfloat16: 2.0**-8, torch.float16: 2.0**-11, torch.float32: 2.0**-24}
KERNELS = ("stream", "panel")


def inputs_of(problem: Problem, scheme: str, dtype: DType = DType.FP32) -> FourBitInputs:
    return make_inputs(problem, parse_scheme(scheme, dtype), CPU, seed=3)


def check(inputs: FourBitInputs, out: torch.Tensor, pairs: bool) -> None:
    """|out - ref| <= u |ref| (output) + (K + 8) 2^-24 |x| |w| (fp32 sums) + 2^-8 |x| |w| (codes or weights in bf16)."""
    x, weight = inputs.x.double(), inputs.dequantized(torch.float32).double().t()
    reference, magnitude = x @ weight, x.abs() @ weight.abs()
    if inputs.bias is not None:
        reference, magnitude = reference + inputs.bias.double(), magnitude + inputs.bias.double().abs()
    bound = (inputs.problem.K + 8) * 2.0**-24 * magnitude + UNIT[out.dtype] * reference.abs() + 1e-30
    if pairs:
        bound += (1 + UNIT[out.dtype]) * 2.0**-8 * magnitude
    if out.dtype == torch.float16:
        bound += 2.0**-25
    assert torch.isfinite(out).all(), "some elements are not written"
    worst = ((out.double() - reference).abs() / bound).max()
    assert worst <= 1, f"error is {worst:.2f} times its bound"


@st.composite
def problems(draw: st.DrawFn) -> tuple[Problem, Scheme]:
    M = draw(st.integers(1, 30))
    N = draw(st.integers(1, 90))
    K = draw(st.one_of(st.integers(1, 200), st.sampled_from((32, 64, 96, 128, 256, 288, 1024, 4096, 5120))))
    kind = draw(st.sampled_from(("nf4", "fp4")))
    group = draw(st.sampled_from(BLOCK_SIZES_4BIT))
    return Problem(M, N, K), FourBit(
        kind, group, draw(st.sampled_from(DType)), draw(st.booleans()), draw(st.booleans())
    )


@settings(max_examples=settings().max_examples * 6 // 5)
@given(case=problems(), threads=st.integers(1, 3))
def test_every_path_computes_the_product(case: tuple[Problem, Scheme], threads: int) -> None:
    problem, scheme = case
    inputs = make_inputs(problem, scheme, CPU, seed=problem.N)
    for isa in instruction_sets():
        for config in SIMD_CPU.candidates(problem, scheme, CPU):
            launch = SIMD_CPU.prepare(inputs, {**config, "isa": isa.name, "threads": threads})
            launch()
            check(inputs, launch.output, pairs=isa is Isa.avx512bf16 and scheme.dtype is DType.BF16)
            assert launch.config["isa"] == isa.name
            assert launch.config["threads"] == threads


def test_instruction_sets_are_those_of_the_cpu() -> None:
    """As Linux lists them; ROOFLENS_CPU_ISA masks the better ones."""
    needs = {
        "portable": set(),
        "avx2": {"avx2", "fma", "f16c"},
        "avx512": {"avx512f", "avx512bw", "avx512vl", "avx512dq"},
        "avx512bf16": {"avx512_bf16"},
    }
    if not cpu_info.flags():
        pytest.skip("no flags in /proc/cpuinfo: not Linux on x86")
    offered = [name for name, flags in needs.items() if flags <= cpu_info.flags()]
    masked = os.environ.get("ROOFLENS_CPU_ISA")
    usable = [isa.name for isa in instruction_sets()]
    assert usable == (offered[: list(needs).index(masked) + 1] if masked else offered)


def test_better_instruction_sets_can_be_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    def sets(best: str) -> list[str]:
        monkeypatch.setenv("ROOFLENS_CPU_ISA", best)
        return [isa.name for isa in instruction_sets.__wrapped__()]

    assert sets("portable") == ["portable"]
    assert set(sets("avx2")) <= {"portable", "avx2"}
    with pytest.raises(UsageError, match=r"unknown instruction set \(ROOFLENS_CPU_ISA\) 'avx': did you mean avx2"):
        sets("avx")


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("dtype", list(DType))
@pytest.mark.parametrize("rows", (12, 13, 24, 25, BLOCK_M, BLOCK_M + 1, 2 * BLOCK_M + 5))
def test_many_rows(kernel: str, dtype: DType, rows: int) -> None:
    inputs = inputs_of(Problem(rows, 40, 192), "nf4-g64-bias", dtype)
    for isa in instruction_sets():
        launch = SIMD_CPU.prepare(inputs, {"kernel": kernel, "isa": isa.name})
        launch()
        check(inputs, launch.output, pairs=isa is Isa.avx512bf16 and dtype is DType.BF16)


@pytest.mark.parametrize("scheme", ("nf4-g4096", "nf4-g4096-nested"))
@pytest.mark.parametrize("kernel", KERNELS)
def test_block_that_straddles_rows_at_a_multiple_of_32(kernel: str, scheme: str) -> None:
    """K = 1376 = 32 * 43 and block 4096: the scales are repacked per 32 columns."""
    inputs = inputs_of(Problem(3, 37, 1376), scheme)
    for isa in instruction_sets():
        launch = SIMD_CPU.prepare(inputs, {"kernel": kernel, "isa": isa.name})
        launch()
        check(inputs, launch.output, pairs=False)


@pytest.mark.parametrize("K", (96, 100))
@pytest.mark.parametrize("dtype", list(DType))
def test_unaligned_operands(K: int, dtype: DType) -> None:
    """x, bias and the packed weights one element off any alignment that an allocator gives."""
    inputs = inputs_of(Problem(1, 48, K), "nf4-g32-bias", dtype)

    def shifted(tensor: torch.Tensor) -> torch.Tensor:
        moved = torch.empty(tensor.numel() + 1, dtype=tensor.dtype)[1:].view(tensor.shape)
        moved.copy_(tensor)
        assert moved.data_ptr() % 16
        return moved

    assert inputs.bias is not None
    weight = type(inputs.weight)(
        shifted(inputs.packed), shifted(inputs.absmax), None, inputs.weight.numel, inputs.weight.group, "nf4"
    )
    moved = FourBitInputs(inputs.problem, inputs.scheme, CPU, 3, shifted(inputs.x), weight, shifted(inputs.bias))
    for isa in instruction_sets():
        aligned, unaligned = (SIMD_CPU.prepare(each, {"isa": isa.name}) for each in (inputs, moved))
        aligned()
        unaligned()
        assert torch.equal(aligned.output, unaligned.output)


def test_result_does_not_depend_on_the_team() -> None:
    """Each output is one task's, summed in one order, whoever runs it: threads of OpenMP, our own, one or three."""
    inputs = inputs_of(Problem(5, 200, 512), "nf4-g64")
    one = SIMD_CPU.prepare(inputs, {"threads": 1})
    one()
    three = SIMD_CPU.prepare(inputs, {"threads": 3})
    library().rooflens_force_pool(1)
    try:
        for _ in range(50):
            three.output.fill_(torch.nan)
            three()
            assert torch.equal(one.output, three.output)
    finally:
        library().rooflens_force_pool(0)
    three.output.fill_(torch.nan)
    three()
    assert torch.equal(one.output, three.output)


def test_runs_on_the_openmp_team_of_torch() -> None:
    with open("/proc/self/maps", encoding="utf-8") as maps:
        runtimes = {line.split()[-1] for line in maps if "libgomp" in line or "libiomp" in line}
    launch = SIMD_CPU.prepare(inputs_of(Problem(1, 32, 32), "nf4-g32"))
    assert launch.config["team"] == ("openmp" if runtimes else "threads")


@pytest.mark.parametrize(("kernel", "K"), (("stream", 96), ("panel", 96), ("panel", 100)))
def test_infinities_and_nans_stay_in_their_row_and_column(kernel: str, K: int) -> None:
    """A row of X with inf, and a block of W with absmax NaN, spoil their own outputs and no others."""
    inputs = inputs_of(Problem(4, 40, K), "nf4-g32")
    inputs.x[2, K - 1] = torch.inf
    inputs.absmax[-1] = torch.nan  # the last columns of the last row
    for isa in instruction_sets():
        launch = SIMD_CPU.prepare(inputs, {"kernel": kernel, "isa": isa.name})
        launch()
        finite = torch.isfinite(launch.output)
        assert finite[[0, 1, 3], :39].all()
        assert not finite[2].any()
        assert torch.isnan(launch.output[:, 39]).all()


def test_launch_reads_fresh_activations() -> None:
    inputs = inputs_of(Problem(2, 64, 128), "nf4-g64")
    launch = SIMD_CPU.prepare(inputs)
    launch()
    before = launch.output.clone()
    inputs.refresh_activations(99)
    launch()
    assert not torch.equal(before, launch.output)
    check(inputs, launch.output, pairs=False)


def test_packing_keeps_four_bits_per_weight() -> None:
    problem, scheme = Problem(1, 4096, 4096), parse_scheme("nf4-g64", DType.BF16)
    moved = SIMD_CPU.moved_bytes(problem, scheme, {"isa": "avx512bf16"})
    assert moved == scheme.compulsory_bytes(problem)  # nothing padded, X used in place
    # one more pass over W and its scales for rows beyond 264, and a bf16 copy of X written and read
    more = Problem(BLOCK_M + 1, 4096, 4096)
    twice = SIMD_CPU.moved_bytes(more, scheme, {"isa": "avx512bf16"})
    assert twice is not None
    assert (
        twice - scheme.compulsory_bytes(more)
        == scheme.weight_bytes(more) + scheme.scale_bytes(more) + 4 * more.M * more.K
    )


def test_support_and_candidates() -> None:
    scheme = parse_scheme("nf4-g64", DType.BF16)
    assert SIMD_CPU.supports(Problem(1, 64, 64), scheme, CPU).ok
    assert "CPU only" in SIMD_CPU.supports(Problem(1, 64, 64), scheme, GPU).reason
    assert "batched" in SIMD_CPU.supports(Problem(1, 64, 64, B=2), scheme, CPU).reason
    assert [config["kernel"] for config in SIMD_CPU.candidates(Problem(1, 64, 64), scheme, CPU)] == ["stream", "panel"]
    assert [config["kernel"] for config in SIMD_CPU.candidates(Problem(1, 64, 65), scheme, CPU)] == ["panel"]


@pytest.mark.parametrize(
    ("config", "message"),
    (
        ({"kernel": "stream"}, "K % 32 == 0"),
        ({"kernel": "rows"}, "stream, panel"),
        ({"isa": "mmx"}, "portable"),
        ({"threads": 0}, "threads"),
    ),
)
def test_wrong_config(config: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        SIMD_CPU.prepare(inputs_of(Problem(1, 32, 65), "nf4-g32"), config)


@pytest.mark.parametrize("size", (0, 1, 63, 255, 256, 4097, 1_000_003))
@pytest.mark.parametrize("threads", (1, 2, 3))
def test_stream_read_reads_every_byte(size: int, threads: int) -> None:
    data = torch.randint(0, 256, (size,), dtype=torch.uint8)
    for isa in instruction_sets():
        total = stream_read(data, threads, isa)
        for position in (0, size // 2, size - 1):
            if 0 <= position < size:
                data[position] ^= 1
                assert stream_read(data, threads, isa) != total
                data[position] ^= 1
        assert stream_read(data, threads, isa) == total


def test_stream_read_refuses_what_it_cannot_read_at_once() -> None:
    with pytest.raises(ValueError, match="contiguous"):
        stream_read(torch.zeros(4, 4).t(), 1)


@pytest.mark.parametrize("structure", [GemmArguments, DequantizeArguments, StreamArguments])
def test_structures_match_the_header(structure: type[ctypes.Structure]) -> None:
    """Field by field: ctypes cannot see the header, so a field added on one side only would shift all after it."""
    text = (cpu_build.FOLDER / "cpu_api.hpp").read_text(encoding="utf-8")
    types = {f"{name}_t": getattr(ctypes, f"c_{name}") for name in ("int64", "uint64", "int32")}
    types["float"] = ctypes.c_float
    name = structure.__name__.removesuffix("Arguments")
    body = re.search(rf"struct {name} {{\n(.*?)\n\s*\n?\s*(?:int64_t tiles\(\)|}};)", text, re.S)
    assert body
    fields: list[tuple[str, object]] = []
    for kind, pointer, names in re.findall(r"^\s+(?:const )?(\w+)(\*?) (.*);", body[1], re.MULTILINE):
        for field in names.split(", "):
            plain = types.get(kind, ctypes.c_void_p)
            if array := re.match(r"(\w+)\[(\d+)\]", field):
                fields.append((array[1], plain * int(array[2])))
            else:
                fields.append((field, ctypes.c_void_p if pointer else plain))
    assert [tuple(field) for field in structure._fields_] == fields

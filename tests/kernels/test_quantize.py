"""The 4-bit formats against bitsandbytes on the CPU (bits), a published table (errors) and closed forms."""

import importlib.util
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rooflens.kernels.fourbit.nested import dynamic_map
from rooflens.kernels.fourbit.quantize import (
    _CHUNK,
    QuantizedWeight,
    dequantize,
    dequantize_range,
    prepare_dequantize,
    quantize,
)
from rooflens.kernels.fourbit.upstream_bitsandbytes import import_quietly
from rooflens.shapes.schemes.fourbit import BLOCK_SIZES_4BIT

from ..csv_files import read_rows

CPU = torch.device("cpu")
KINDS = ("nf4", "fp4")
DTYPES = (torch.float32, torch.bfloat16, torch.float16)
DATA = Path(__file__).parent / "data"

if importlib.util.find_spec("bitsandbytes") is None:
    pytest.skip("bitsandbytes is not installed: pip install 'rooflens[test]'", allow_module_level=True)

pytestmark = pytest.mark.usefixtures("eager")


def sample(numel: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """Normal values with a signed zero and, where it is long enough, a run of zeros that covers whole blocks."""
    values = torch.randn(numel, generator=torch.Generator().manual_seed(seed))
    values[numel // 3] = -0.0
    if numel > 20_000:
        values[4096 : 3 * 4096] = 0.0
    return values.to(dtype)


def upstream(dense: torch.Tensor, kind: str, group: int, nested: bool = False):
    return import_quietly().functional.quantize_4bit(
        dense, blocksize=group, quant_type=kind, compress_statistics=nested
    )


@pytest.mark.parametrize("group", BLOCK_SIZES_4BIT)
@pytest.mark.parametrize("kind", KINDS)
def test_bits_and_values_equal_bitsandbytes(kind: str, group: int) -> None:
    for dtype in DTYPES:
        for numel in (1, 2, 31, 64, 4096, 4097, 300_001):
            dense = sample(numel, dtype)
            packed, state = upstream(dense, kind, group)
            weight = quantize(dense, kind, group)
            where = f"{dtype}, {numel} elements"
            assert torch.equal(weight.packed, packed.view(-1)), where
            assert torch.equal(weight.absmax, state.absmax), where
            # a flat shape: its AVX-512 kernel misreads absmax of rows that are no multiple of the block size
            values = import_quietly().functional.dequantize_4bit(packed, state).reshape(-1)
            assert torch.equal(dequantize(weight, dtype), values), where


@pytest.mark.parametrize("group", (32, 64, 4096))
@pytest.mark.parametrize("kind", KINDS)
def test_nested_absmax_equals_bitsandbytes(kind: str, group: int) -> None:
    for dtype in DTYPES:
        for numel in (1, 33, 64 * 256, 300_001, 1 << 20):
            dense = sample(numel, dtype)
            packed, state = upstream(dense, kind, group, nested=True)
            weight = quantize(dense, kind, group, nested=True)
            nested = weight.nested
            assert nested is not None
            where = f"{dtype}, {numel} elements"
            assert torch.equal(weight.packed, packed.view(-1)), where
            assert torch.equal(nested.q, state.absmax), where
            assert torch.equal(nested.scale, state.state2.absmax), where
            assert torch.equal(nested.code, state.state2.code), where
            assert torch.equal(nested.offset, state.offset), where
            rebuilt = import_quietly().functional.dequantize_blockwise(state.absmax, state.state2) + state.offset
            assert torch.equal(weight.absmax, rebuilt), where
            values = import_quietly().functional.dequantize_4bit(packed, state).reshape(-1)
            assert torch.equal(dequantize(weight, dtype), values), where


@given(
    values=st.lists(st.floats(-8, 8, width=16), min_size=1, max_size=200),
    kind=st.sampled_from(KINDS),
)
def test_any_values_quantize_as_in_bitsandbytes(values: list[float], kind: str) -> None:
    dense = torch.tensor(values)  # few significant bits: ties between codes and equal magnitudes happen
    packed, state = upstream(dense, kind, 32)
    weight = quantize(dense, kind, 32)
    assert torch.equal(weight.packed, packed.view(-1))
    assert torch.equal(weight.absmax, state.absmax)


def test_dynamic_map_is_the_published_one_up_to_its_last_bit() -> None:
    published = torch.tensor([float(row["value"]) for row in read_rows(DATA / "dynamic_map_256.csv")])
    ours = dynamic_map(CPU)
    assert ours.numel() == 256
    assert torch.all(ours[1:] > ours[:-1])
    assert torch.allclose(ours, published, rtol=2.0**-22, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_codes_of_the_cuda_quantizer_differ_at_thresholds_and_at_zero_only(kind: str) -> None:
    """Its decision tree, applied here; the documentation promises that nothing else differs."""
    rows = [row for row in read_rows(DATA / "codes_4bit_thresholds.csv") if row["quant_type"] == kind]
    tree = [(float(row["threshold"]), int(row["code_if_greater"])) for row in rows]
    group = 4096
    dense = torch.randn(64 * group, generator=torch.Generator().manual_seed(5))
    weight = quantize(dense, kind, group)
    scaled = (dense.view(-1, group) * (1.0 / weight.absmax)[:, None]).view(-1)
    compared = scaled.abs() if kind == "fp4" else scaled
    expected = torch.zeros(dense.numel(), dtype=torch.uint8)
    for threshold, code in sorted(tree):
        expected[compared > threshold] = code
    ours = torch.stack((weight.packed >> 4, weight.packed & 15), dim=1).view(-1)
    if kind == "fp4":
        expected[scaled < 0] += 8
        is_zero = (expected & 7) == 0
        assert torch.all((ours[is_zero] & 7) == 0)
        expected[is_zero] = ours[is_zero]
    differing = ours != expected
    distance = (compared[:, None] - torch.tensor([threshold for threshold, _ in tree])).abs().amin(dim=1)
    assert torch.all(distance[differing] < 5e-7)
    assert differing.sum() < 20


# mean |error| and mean |error| / |x| over randn 1024 x 1024, from the tests of bitsandbytes (200 samples each)
YARDSTICK = {
    ("nf4", 32): (0.067746, 0.189726),
    ("nf4", 64): (0.072798, 0.203339),
    ("nf4", 128): (0.076831, 0.215237),
    ("nf4", 256): (0.080337, 0.226105),
    ("nf4", 512): (0.083547, 0.236079),
    ("nf4", 1024): (0.086610, 0.245370),
    ("nf4", 2048): (0.089592, 0.254163),
    ("nf4", 4096): (0.092547, 0.262473),
    ("fp4", 32): (0.088925, 0.242443),
    ("fp4", 64): (0.096543, 0.260125),
    ("fp4", 128): (0.102969, 0.275817),
    ("fp4", 256): (0.108684, 0.289831),
    ("fp4", 512): (0.114115, 0.302881),
    ("fp4", 1024): (0.119333, 0.315000),
    ("fp4", 2048): (0.124556, 0.326607),
    ("fp4", 4096): (0.129536, 0.337169),
}


@pytest.mark.parametrize(("kind", "group"), YARDSTICK)
def test_error_matches_the_published_yardstick(kind: str, group: int) -> None:
    """Neighbouring block sizes are at least 2.5 % apart; two samples scatter by less than 0.7 % (7 sigma)."""
    absolute = relative = 0.0
    for seed in range(2):
        dense = torch.randn(1024 * 1024, generator=torch.Generator().manual_seed(seed))
        error = (dequantize(quantize(dense, kind, group), torch.float32) - dense).abs()
        absolute += error.mean().item() / 2
        relative += (error / (dense.abs() + 1e-8)).mean().item() / 2
    expected_absolute, expected_relative = YARDSTICK[kind, group]
    assert absolute == pytest.approx(expected_absolute, rel=1e-2)
    assert relative == pytest.approx(expected_relative, rel=1e-2)


@given(
    numel=st.integers(1, 3000),
    group=st.sampled_from((32, 64, 1024)),
    ends=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    nested=st.booleans(),
)
def test_a_range_equals_the_slice_of_the_whole(numel: int, group: int, ends: tuple[float, float], nested: bool) -> None:
    weight = quantize(sample(numel, torch.float32), "nf4", group, nested)
    start, stop = sorted(int(end * numel) for end in ends)
    if start == stop:
        return
    assert torch.equal(dequantize_range(weight, start, stop), dequantize(weight, torch.float32)[start:stop])


def test_prepared_dequantization_rebuilds_a_nested_absmax_at_every_call() -> None:
    weight = quantize(sample(4096, torch.float32), "nf4", 64, nested=True)
    assert weight.nested is not None
    out = torch.empty(64, 64)
    run = prepare_dequantize(weight, out)
    run()
    before = out.clone()
    weight.nested.offset.add_(1.0)
    run()
    stale = QuantizedWeight(weight.packed, weight.nested.rebuild(), None, 4096, 64, "nf4")
    assert not torch.equal(out, before)
    assert torch.equal(out.view(-1), dequantize(stale, torch.float32))


@pytest.mark.parametrize("kind", KINDS)
def test_chunks_do_not_show(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    dense = sample(3 * 4096 + 1235, torch.float32, seed=3)
    whole = quantize(dense, kind, 64)
    values = dequantize(whole, torch.float32)
    monkeypatch.setitem(_CHUNK, "cpu", 4096)
    chunked = quantize(dense, kind, 64)
    assert torch.equal(chunked.packed, whole.packed)
    assert torch.equal(chunked.absmax, whole.absmax)
    assert torch.equal(dequantize(whole, torch.float32), values)


@pytest.mark.gpu
@pytest.mark.parametrize("nested", (False, True))
@pytest.mark.parametrize("kind", KINDS)
def test_bits_are_the_same_on_the_gpu(kind: str, nested: bool) -> None:
    dense = sample(300_001, torch.float32)
    here, there = (quantize(tensor, kind, 64, nested) for tensor in (dense, dense.cuda()))
    assert torch.equal(here.packed, there.packed.cpu())
    if not nested:
        assert torch.equal(here.absmax, there.absmax.cpu())
        assert torch.equal(dequantize(here, torch.bfloat16), dequantize(there, torch.bfloat16).cpu())
    else:  # the mean of absmax is summed in another order there: a code next to a boundary may move by one
        assert here.nested is not None
        assert there.nested is not None
        moved = (here.nested.q.int() - there.nested.q.cpu().int()).abs()
        assert int(moved.max()) <= 1
        assert float(moved.float().mean()) < 0.01

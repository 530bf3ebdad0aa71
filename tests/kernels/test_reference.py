"""The fp64 reference against a literal triple loop, and the accuracy check on every way an output can be wrong."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from rooflens.kernels.fourbit.inputs import FourBitInputs
from rooflens.kernels.reference import measure
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import EXACT_SNR_DB, DType, Scheme
from rooflens.shapes.schemes.fourbit import FourBit

from .synthetic import operands, scheme_of

SCHEMES = ("nf4-g64", "fp4-g32-nested", "nf4-g4096-bias", "fp4-g128-nested-bias")


def by_hand(inputs: FourBitInputs) -> np.ndarray:
    """Unpack and multiply element by element, from the documented layout alone."""
    rows, columns, depth = inputs.problem.M, inputs.problem.N, inputs.problem.K
    packed, code = inputs.packed.numpy(), inputs.code.numpy()
    absmax, x = inputs.absmax.numpy(), inputs.x.double().numpy()
    result = np.zeros((rows, columns))
    for n in range(columns):
        for k in range(depth):
            flat = n * depth + k
            byte = int(packed[flat // 2])
            nibble = byte >> 4 if flat % 2 == 0 else byte & 15
            weight = np.float32(code[nibble]) * np.float32(absmax[flat // inputs.scheme.group])
            result[:, n] += x[:, k] * np.float64(weight)
    return result if inputs.bias is None else result + inputs.bias.double().numpy()


@pytest.mark.parametrize("dtype", list(DType))
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("sizes", [(1, 5, 64), (3, 7, 33), (2, 4, 200)])
def test_reference_equals_a_literal_product(sizes: tuple[int, int, int], scheme: str, dtype: DType) -> None:
    inputs = operands(Problem(*sizes), scheme, dtype)
    result = inputs.reference()[0]
    assert result.dtype == torch.float64
    np.testing.assert_allclose(result.numpy(), by_hand(inputs), rtol=1e-12, atol=1e-12)


def test_chunks_over_n_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = operands(Problem(2, 50, 48), "nf4-g64-bias")
    whole = inputs.reference()[0]
    monkeypatch.setattr("rooflens.kernels.fourbit.inputs._CHUNK_ELEMENTS", 7 * 48)
    assert torch.allclose(inputs.reference()[0], whole, rtol=1e-13, atol=1e-13)


def signal(rows: int = 64, columns: int = 256) -> torch.Tensor:
    return torch.randn(rows, columns, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def scheme(dtype: DType = DType.BF16) -> Scheme:
    return FourBit("nf4", 64, dtype)


def test_figures_are_those_of_their_definitions() -> None:
    truth = torch.tensor([[3.0, 4.0], [0.0, 0.0]], dtype=torch.float64)
    accuracy = measure(torch.tensor([[3.0, 4.0], [0.0, 0.5]]), truth)
    assert accuracy.snr_db == pytest.approx(10 * math.log10(25 / 0.25))
    assert accuracy.relative_error == pytest.approx(0.1)
    assert accuracy.cosine == pytest.approx(25 / (5 * math.sqrt(25.25)))
    assert accuracy.max_abs_error == 0.5
    assert accuracy.reference_rms == 2.5
    assert accuracy.worst == (1, 1)
    assert accuracy.non_finite == 0


@pytest.mark.parametrize("wrong", [None, 3, 17, 44])
def test_chunks_of_an_output_do_not_change_its_figures(monkeypatch: pytest.MonkeyPatch, wrong: int | None) -> None:
    reference = torch.randn(9, 5, dtype=torch.float64)
    output = reference + 0.01 * torch.randn(9, 5, dtype=torch.float64)
    if wrong is not None:
        output.view(-1)[wrong:] = math.nan
    whole = measure(output, reference)
    for size in (1, 4, 5, 44, 45):
        monkeypatch.setattr("rooflens.kernels.reference._CHUNK", size)
        parts = measure(output, reference)
        for name, value in dataclasses.asdict(whole).items():
            found = getattr(parts, name)
            assert found == value or found == pytest.approx(value, rel=1e-12), name


def test_different_elements_are_counted_and_the_first_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    truth = torch.tensor([[0.0, 1.0, -0.0], [2.0, 3.0, -4.0]], dtype=torch.float64)
    output = torch.tensor([[0.0, 1.0, 0.0], [2.0, -3.0, -4.0]])
    for size in (1 << 27, 1, 4):
        monkeypatch.setattr("rooflens.kernels.reference._CHUNK", size)
        accuracy = measure(output, truth)
        assert (accuracy.different, accuracy.first_different) == (2, (0, 2))  # the sign of a zero is a bit
        same = measure(truth.float(), truth)
        assert (same.different, same.first_different) == (0, None)
        for wrong in (math.nan, math.inf):
            bad = output.clone()
            bad[1, 2] = wrong
            assert (measure(bad, truth).different, measure(bad, truth).non_finite) == (3, 1)


@pytest.mark.parametrize("name", ["fp8-quant-row", "mxfp8-quant-rceil", "ao-act-lhs"])
def test_quantizers_are_exact_and_products_are_not(name: str) -> None:
    quantizer = scheme_of(name)
    assert quantizer.snr_floor_db == EXACT_SNR_DB
    assert scheme().snr_floor_db < EXACT_SNR_DB
    truth = signal()
    output = truth.clone()
    assert measure(output, truth).passes(quantizer)
    output[63, 255] *= 1 + 2**-52
    assert measure(output, truth).passes(scheme(DType.FP32))
    failure = measure(output, truth).failure(quantizer)
    assert failure.startswith("1 elements differ in their bits, the first at [m=63, n=255]; largest error ")


def test_measuring_changes_neither_operand() -> None:
    truth = signal()
    output = truth.clone()
    output[0, 0] += 1
    kept = output.clone(), truth.clone()
    measure(output, truth)
    assert torch.equal(output, kept[0])
    assert torch.equal(truth, kept[1])


def test_an_equal_output_is_infinitely_accurate() -> None:
    accuracy = measure(signal(), signal())
    assert accuracy.snr_db == math.inf
    assert accuracy.relative_error == 0.0
    assert accuracy.cosine == pytest.approx(1.0)
    assert accuracy.passes(scheme(DType.FP32))


def rounded(values: np.ndarray, bits: int) -> np.ndarray:
    """Round fp64 to `bits` significant bits, to nearest even, from the definition alone."""
    fraction, exponent = np.frexp(values)
    return np.ldexp(np.round(np.ldexp(fraction, bits)), exponent - bits)


def uneven(seed: int) -> np.ndarray:
    """Rows that differ by 2^16, as routing weights and scales of rows make them."""
    generator = np.random.default_rng(seed)
    return generator.standard_normal((256, 512)) * 2.0 ** generator.uniform(-16, 0, (256, 1))


BITS = {DType.BF16: 8, DType.FP16: 11, DType.FP32: 24}
TYPES = {DType.BF16: torch.bfloat16, DType.FP16: torch.float16, DType.FP32: torch.float32}


@pytest.mark.parametrize("dtype", list(DType))
def test_a_product_rounded_before_its_weight_and_after_it_passes_however_uneven_the_rows_are(dtype: DType) -> None:
    """The error is at most the two roundings, whatever the distribution is."""
    for seed in range(10):
        weights = np.random.default_rng(seed + 100).uniform(0, 1, (256, 1)) ** 8
        product = uneven(seed)
        output = rounded(rounded(product, BITS[dtype]) * weights, BITS[dtype])
        held = torch.from_numpy(output).to(TYPES[dtype])
        if dtype is not DType.FP16:  # its subnormals have fewer bits
            assert np.array_equal(held.double().numpy(), output)
        accuracy = measure(held, torch.from_numpy(product * weights))
        assert accuracy.failure(scheme(dtype)) == "", accuracy


def test_what_rounding_does_not_explain_is_held_against_the_rms_alone() -> None:
    """In a row 64 times as large as the others and in one of those, the same error is too much."""
    truth = rounded(np.random.default_rng(3).standard_normal((256, 512)), 8)
    truth[7] *= 64
    limit = 10 * 10 ** (-40 / 20) * math.sqrt((truth**2).mean())
    for row in (7, 8):  # storing the output adds 0.6 of the limit at most
        for beyond, right in ((0.4, True), (1.6, False)):
            output = truth.copy()
            output[row, 5] += math.copysign(beyond * limit + 2 * 2.0**-8 * abs(truth[row, 5]), truth[row, 5])
            accuracy = measure(torch.from_numpy(output).bfloat16(), torch.from_numpy(truth))
            assert (f" at [m={row}, n=5] is above " in accuracy.failure(scheme())) is not right


@pytest.mark.parametrize("value", (math.nan, math.inf, -math.inf))
def test_one_element_that_is_not_finite_fails(value: float) -> None:
    output = signal()
    output[3, 17] = value
    accuracy = measure(output, signal())
    assert accuracy.snr_db == -math.inf
    assert accuracy.cosine is None
    assert accuracy.non_finite == 1
    assert accuracy.failure(scheme()) == "1 elements are NaN or Inf (or were never written), the first at [m=3, n=17]"
    assert not accuracy.passes(scheme())


def test_an_all_zero_output_fails() -> None:
    accuracy = measure(torch.zeros(64, 256), signal())
    assert accuracy.snr_db == pytest.approx(0.0)
    assert accuracy.cosine is None
    assert "SNR 0.0 dB is below the 40 dB of bf16" in accuracy.failure(scheme())


def test_an_all_zero_reference_is_met_by_zeros_only() -> None:
    zeros = torch.zeros(2, 3, dtype=torch.float64)
    assert measure(torch.zeros(2, 3), zeros).passes(scheme())
    accuracy = measure(torch.tensor([[0, 0, 0], [0, 1e-6, 0]]), zeros)
    assert accuracy.snr_db == -math.inf
    assert accuracy.relative_error == math.inf
    assert not accuracy.passes(scheme())


def test_noise_below_the_floor_fails_and_names_the_largest_error() -> None:
    output = signal() * (1 + 10 ** (-39 / 20))
    output[9, 9] += 0.5
    reason = measure(output, signal()).failure(scheme())
    assert "below the 40 dB of bf16" in reason
    assert "[m=9, n=9]" in reason


def test_tf32_products_fail_as_fp32() -> None:
    """10 explicit bits of mantissa in the operands, as TF32 has."""
    x, w = signal(8, 512).float(), signal(128, 512).float()
    truth = x.double() @ w.double().t()

    def tf32(values: torch.Tensor) -> torch.Tensor:
        return ((values.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)

    assert measure(x @ w.t(), truth).passes(scheme(DType.FP32))
    assert not measure(tf32(x) @ tf32(w).t(), truth).passes(scheme(DType.FP32))


def test_one_wrong_column_of_many_fails_although_snr_is_high() -> None:
    truth = signal(16, 28_672)
    output = truth.to(torch.bfloat16)
    output[:, -1] = 0.0
    accuracy = measure(output, truth)
    assert accuracy.snr_db > scheme().snr_floor_db
    assert "[m=" in accuracy.failure(scheme())
    assert "n=28671]" in accuracy.failure(scheme())


def test_a_nan_snr_never_passes() -> None:
    good = measure(signal(), signal())
    assert not dataclasses.replace(good, snr_db=math.nan).passes(scheme())


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match=r"output is \[2, 3\], reference \[3, 2\]"):
        measure(torch.zeros(2, 3), torch.zeros(3, 2, dtype=torch.float64))

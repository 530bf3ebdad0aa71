"""What the operands of every family promise to providers and harness; the views that 4-bit providers read."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from rooflens.kernels.draw import LINES, rms
from rooflens.kernels.inputs import Inputs, Tensors, make_inputs, make_weight
from rooflens.shapes.problem import Problem
from rooflens.shapes.scheme import EXACT_SNR_DB, DType
from rooflens.shapes.schemes import FAMILIES

from .checks import bits, same
from .contract_cases import CASES, schemes
from .devices import CPU, cpu
from .synthetic import operands

EXACT = ("fp8train", "mxfp8", "mxfp8_moe")
"""Families whose results are sums of products alone, so that negated operands give their negatives to the bit."""


FNUZ = [(family, "gfx942") for family in ("fp8train", "torchao", "a16w8")]
"""gfx942 has FP8 types of its own."""


@pytest.fixture(params=[*((family, "x86-64") for family in CASES), *FNUZ], ids="-".join)
def made(request: pytest.FixtureRequest) -> list[Inputs]:
    """Operands of a family: of each scheme and pass, for its last problem."""
    family, arch = request.param
    return [
        make_inputs(problem, scheme, cpu(arch), seed=3)
        for scheme, problems in schemes(family, DType.BF16)
        for problem in {problem.pass_: problem for problem in problems}.values()
    ]


def tensors(inputs: Inputs) -> Tensors:
    return (*inputs.activations, *inputs.constant)


def test_outputs_start_poisoned_in_the_shapes_of_the_reference(made: list[Inputs]) -> None:
    for inputs in made:
        outputs, truth = inputs.empty_outputs(), inputs.reference()
        assert [one.shape for one in outputs] == [one.shape for one in truth]
        assert {one.dtype for one in truth} == {torch.float64}
        assert inputs.scheme.snr_floor_db == EXACT_SNR_DB or {one.dtype for one in outputs} == {torch.bfloat16}
        for output in outputs:
            assert (output.isnan() if output.is_floating_point() and output.itemsize > 1 else poisoned(output)).all()


def poisoned(octet: torch.Tensor) -> torch.Tensor:
    """NaN of an 8-bit float, or the NaN of E8M0 in a byte."""
    return octet == 0xFF if octet.dtype is torch.uint8 else octet.double().isnan()


def test_negation_is_exact_and_its_own_inverse_and_changes_every_result(made: list[Inputs]) -> None:
    for inputs in made:
        where = f"{inputs.scheme.name} {inputs.problem}"
        before, truth = bits(inputs.activations), inputs.reference()
        negated = [one.clone() for one in truth]
        inputs.negate()
        inputs.negate_reference(negated)
        for found, expected in zip(negated, inputs.reference(), strict=True):
            bound = 0.0 if inputs.scheme.family in EXACT else 1e-13 * expected.abs().max()
            assert (found - expected).abs().max() <= bound, where
        signed = (
            negated[::2] if inputs.scheme.snr_floor_db == EXACT_SNR_DB else negated
        )  # scales of a quantizer have no sign
        for new, old in zip(signed, truth[::2] if inputs.scheme.snr_floor_db == EXACT_SNR_DB else truth, strict=True):
            assert (new != old).double().mean() >= 0.4, where
        inputs.negate()
        assert same(before, bits(inputs.activations)), where


def test_copies_have_memory_of_their_own_and_activations_follow_the_seed_in_place(made: list[Inputs]) -> None:
    for inputs in made:
        where = f"{inputs.scheme.name} {inputs.problem}"
        copy, constant, first = inputs.copy(), bits(inputs.constant), inputs.reference()
        assert same(bits(tensors(inputs)), bits(tensors(copy))), where
        assert not {one.data_ptr() for one in tensors(inputs)} & {one.data_ptr() for one in tensors(copy)}, where
        places, before = [one.data_ptr() for one in inputs.activations], bits(inputs.activations)
        inputs.refresh_activations(9)
        assert [one.data_ptr() for one in inputs.activations] == places, where
        assert not same(before, bits(inputs.activations)), where
        assert not any(map(torch.equal, inputs.reference()[:1], first)), where
        assert same(list(copy.reference()), list(first)), where
        copy.refresh_activations(9)
        assert same(bits(tensors(copy)), bits(tensors(inputs))), where
        assert same(list(copy.reference()), list(inputs.reference())), where
        assert same(constant, bits(inputs.constant)), where


def test_operands_are_signed(made: list[Inputs]) -> None:
    for inputs in made:
        payloads = (one for one in inputs.weights[:1] if one.is_floating_point() and one.itemsize == 1)
        assert all((one.double() < 0).any() for one in (*inputs.signed, *payloads)), inputs.scheme.name


def test_operands_follow_from_the_seed_and_weights_are_shared_by_every_m(made: list[Inputs]) -> None:
    for inputs in made:
        problem, scheme, device = inputs.problem, inputs.scheme, inputs.device
        where = f"{scheme.name} {problem}"
        weight = make_weight(problem, scheme, device, 3)
        first, second = (
            make_inputs(replace(problem, M=m), scheme, device, 3, weight) for m in (problem.M, 2 * problem.M)
        )
        assert same(bits(tensors(inputs)), bits(tensors(first))), where
        for mine, theirs in zip(first.weights, second.weights, strict=True):
            is_routing = mine.shape != theirs.shape or mine.dtype is torch.int32  # which depends on M
            assert is_routing or mine.data_ptr() == theirs.data_ptr(), where
        another = make_inputs(problem, scheme, device, seed=4)
        assert not any(map(torch.equal, bits(inputs.activations[:1]), bits(another.activations[:1]))), where
        assert not any(map(torch.equal, bits(inputs.weights[:1]), bits(another.weights[:1]))), where


@pytest.mark.parametrize("family", dict.fromkeys(one.family for one in FAMILIES))
def test_columns_are_those_of_the_whole_product(family: str) -> None:
    """At each end and in between, from the same bits: they check a timed sample where the whole product takes long."""
    cut = 0
    for scheme, problems in schemes(family, DType.BF16):
        for problem in problems:
            if not (unit := make_inputs(problem, scheme, CPU, seed=5).column_unit):
                continue
            inputs = make_inputs(replace(problem, N=problem.N + 3 * unit), scheme, CPU, seed=5)
            (whole,) = inputs.reference()
            for first, last in pairwise((0, unit, 3 * unit, whole.shape[-1])):
                (part,) = inputs.columns(slice(first, last)).reference()
                torch.testing.assert_close(part, whole[..., first:last], rtol=1e-12, atol=1e-12 * whole.abs().max())
                cut += 1
    assert cut


def test_data_look_like_the_distribution_that_is_documented() -> None:
    inputs = operands(Problem(64, 256, 1024), dtype="fp32")
    assert inputs.x.mean().abs() < 0.02
    assert inputs.x.std() == pytest.approx(1.0, abs=0.02)
    weight = inputs.dequantized()
    assert weight.mean().abs() < 0.02
    assert weight.std() == pytest.approx(rms(LINES), abs=0.03)
    normalised = weight.view(256, 16, 64) / inputs.absmax.view(256, 16, 1)
    sizes = inputs.absmax.log2()
    assert normalised.abs().amax() == 1.0
    assert sizes.std() > 1.0, "blocks differ by powers of two"

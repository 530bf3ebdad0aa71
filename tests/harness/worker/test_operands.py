"""Operands of any family: copies, restoring, negation, and that a change of a weight is noticed in any layout."""

import random
import re
import weakref

import pytest
import torch
from rooflens.harness.machine.device import find_device
from rooflens.harness.worker import operands as operands_module
from rooflens.harness.worker.operands import Operands
from rooflens.kernels import registry
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.reference import measure_all
from rooflens.shapes.problem import Op, Pass, Problem
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme

from ...kernels.checks import bits, octets, same

CPU = find_device("cpu")
CASES = (
    ("nf4-g64-nested-bias", Problem(3, 32, 128)),
    ("fp8-blockwise-prequantized", Problem(128, 256, 128, pass_=Pass.STEP)),
    ("ao-grouped", Problem(64, 128, 128, op=Op.GROUPED_GEMM, E=2)),
    ("mxfp8-rceil", Problem(4, 64, 128)),
    ("mxfp8-moe-rceil", Problem(4, 32, 128, op=Op.MOE_GEMM, E=4, top_k=2)),
    ("a16w8-128x128", Problem(2, 128, 128, B=2)),
)


@pytest.fixture(params=CASES, ids=lambda case: case[0])
def operands(request):
    name, problem = request.param
    return Operands(make_inputs(problem, parse_scheme(name, DType.BF16), CPU, seed=0))


def state(operands):
    """Bits of the activations and of their reference."""
    return bits((*operands.inputs.activations, *operands.truth))


def are_alike(copies):
    first, *others = (bits(copy.activations) for copy in copies)
    return all(same(first, other) for other in others)


def test_copies_have_the_same_bits_in_memory_of_their_own(operands):
    first, *others = operands.copies(3)
    operands.draw(5)
    mine = (*first.activations, *first.weights)
    for theirs in ((*copy.activations, *copy.weights) for copy in others):
        assert not {one.data_ptr() for one in mine} & {one.data_ptr() for one in theirs}
        assert [one.stride() for one in mine] == [one.stride() for one in theirs]
        assert same(bits(mine), bits(theirs))


def test_the_reference_is_drawn_with_the_activations_and_the_checksum_tells_draws_apart(operands):
    seen = []
    for seed in (1, 2, 1):
        operands.draw(seed)
        seen.append((operands.checksum, [one.clone() for one in operands.truth]))
    (first, before), (second, between), (again, after) = seen
    assert first == again != second
    assert re.fullmatch("[0-9a-f]{16}", first)
    assert not same(before, between)
    assert same(before, after)


def test_a_large_reference_is_let_go_before_the_next_is_computed(operands, monkeypatch):
    """Both together may be more than the device holds: Y of the largest layer takes 26 GiB in fp64."""
    monkeypatch.setattr(operands_module, "MOST_EARLIER_BYTES", 1)
    operands = Operands(operands.inputs)
    operands.draw(1)
    former = [weakref.ref(one) for one in operands.truth]
    compute = type(operands.inputs).reference
    left = []

    def reference(inputs):
        left.extend(one() for one in former)
        return compute(inputs)

    monkeypatch.setattr(type(operands.inputs), "reference", reference)
    operands.draw(2)
    assert left == [None] * len(former)
    assert operands.truth is not None


def test_the_activations_before_come_back_with_their_reference(operands):
    """Also before the first draw there are some, which no later draw is like."""
    copies = operands.copies(2)
    for seed in (1, 2):
        operands.draw(seed)
        present, activations = state(operands), bits(operands.inputs.activations)
        with operands.earlier():
            assert not same(bits(operands.inputs.activations), activations)
            assert same(operands.truth, operands.inputs.reference())
            assert are_alike(copies)
        assert same(state(operands), present)


def test_signs_change_in_each_copy_without_end_and_are_recalled(operands):
    """Magnitudes stay, no two copies are alike, no state comes twice in a hundred, and every product changes."""
    copies = operands.copies(2)
    operands.draw(5)
    known = [tensor.clone() for tensor in operands.inputs.activations]
    before, truth, seen = bits(known), [one.clone() for one in operands.truth], set()
    draw = random.Random(0)
    for _ in range(100):
        operands.flip(draw.randrange(1 << 30))
        assert not are_alike(copies)
        for copy in copies:
            for old, new in zip(known, copy.activations, strict=True):
                assert torch.equal(old.double().abs(), new.double().abs())
        seen.add(b"".join(octets(tensor).numpy().tobytes() for tensor in operands.inputs.activations))
    assert len(seen) > 90
    changed = operands.inputs.reference()
    assert all(not torch.equal(old, new) for old, new in zip(truth, changed, strict=True))
    operands.recall()
    assert are_alike(copies)
    assert same(bits(copies[0].activations), before)


def test_negation_changes_every_output_in_all_copies_and_back(operands):
    copies = operands.copies(2)
    operands.draw(3)
    before, truth = state(operands), [one.clone() for one in operands.truth]
    operands.negate()
    for old, new, fresh in zip(truth, operands.truth, operands.inputs.reference(), strict=True):
        assert (old != new).double().mean() > 0.4
        assert torch.allclose(new, fresh, rtol=1e-12, atol=1e-12)
    assert are_alike(copies)
    operands.negate()
    assert same(state(operands), before)


def test_a_changed_byte_of_any_weight_is_noticed(operands):
    operands.copies(2)
    assert operands.change() == ""
    for copy in operands.copies(2):
        for weight in copy.constant:
            last = tuple(size - 1 for size in weight.shape)
            kept = weight[last].clone()
            view = weight[last].view(torch.uint8) if weight[last].dim() else weight[last].reshape(1).view(torch.uint8)
            view.bitwise_xor_(1)
            assert operands.change().startswith("changed the shared weights")
            weight[last] = kept
            assert operands.change() == ""


@pytest.mark.parametrize(
    "change",
    [
        lambda tensor: tensor.as_strided_(tensor.shape, (0,) * tensor.dim()),
        lambda tensor: tensor.set_(tensor.clone()),
        lambda tensor: tensor.resize_(tensor.numel() + 1),
        lambda tensor: setattr(tensor, "data", tensor.double()),
        lambda tensor: setattr(tensor, "__class__", torch.nn.Buffer),
        lambda tensor: tensor.requires_grad_(True),
    ],
    ids=["strides", "storage", "size", "dtype", "class", "gradients"],
)
def test_a_tensor_that_is_not_where_and_what_it_was_is_noticed(operands, change):
    """Of the activations as well, whose values may change."""
    operands.draw(1)
    for tensor in (*operands.inputs.activations, *operands.inputs.constant):
        if not tensor.dim() or (change.__code__.co_names == ("requires_grad_",) and not tensor.is_floating_point()):
            continue
        others = Operands(operands.inputs.copy())
        (mine,) = [
            copied
            for copied, original in zip(_all(others.inputs), _all(operands.inputs), strict=True)
            if original is tensor
        ]
        assert others.change() == ""
        change(mine)
        assert others.change().startswith("changed memory, shape or type")


def _all(inputs):
    return (*inputs.activations, *inputs.constant)


def test_no_provider_is_handed_a_table_that_the_reference_reads():
    inputs = make_inputs(Problem(3, 32, 128), parse_scheme("nf4-g64", DType.BF16), CPU, seed=0)
    before = inputs.reference()
    inputs.code.zero_()
    assert torch.equal(*inputs.reference(), *before)


def test_activations_that_a_launch_has_changed_are_written_again_for_the_next(operands, monkeypatch):
    """Also where the earlier ones are not kept."""
    monkeypatch.setattr(operands_module, "MOST_EARLIER_BYTES", 1)
    operands = Operands(operands.inputs)
    operands.draw(1)
    before = bits(operands.inputs.activations)
    for tensor in operands.inputs.activations:
        octets(tensor).bitwise_xor_(1) if tensor.is_contiguous() else None
    with operands.earlier():
        assert same(before, bits(operands.inputs.activations))


def test_a_weight_whose_rows_or_columns_changed_places_is_noticed(operands):
    weight = max(operands.inputs.weights, key=lambda one: one.numel())
    kept = weight.clone()
    longest = max(range(weight.dim()), key=lambda dimension: weight.shape[dimension])
    weight.view(torch.int8).copy_(kept.view(torch.int8).flip(longest))
    assert not torch.equal(octets(weight), octets(kept))
    assert operands.change()
    weight.copy_(kept)
    assert operands.change() == ""


@pytest.mark.parametrize("copy", [0, 1])
@pytest.mark.parametrize("negated", [False, True])
def test_the_outputs_for_flipped_activations_are_found_again(operands, negated, copy):
    inputs = operands.copies(2)[copy]
    operands.draw(1)
    known = bits(operands.inputs.activations)
    operands.recall(negated)
    for choice in (3, 7, 3, 40):
        operands.flip(choice)
    flipped = operands.flipped(copy)
    activations, expected = bits(inputs.activations), inputs.reference()
    assert not same(activations, known)
    operands.flip(11)
    with operands.truth_of(flipped) as truth:
        assert same(bits(operands.inputs.activations), activations)
        assert same(truth, expected)
    assert same(bits(operands.inputs.activations), known)


def test_an_operand_that_is_given_in_two_types_changes_its_signs_in_both(operands):
    operands.draw(1)
    before = [tensor.clone().float() for tensor in operands.inputs.signed]
    operands.flip(3)
    changed = {}
    for known, tensor in zip(before, operands.inputs.signed, strict=True):
        columns = (known * tensor.float()).reshape(-1, tensor.shape[-1]).amin(0) < 0
        assert 0 < columns.sum() < len(columns)
        assert torch.equal(changed.setdefault(len(columns), columns), columns)


HONEST = {
    "nf4-g64-nested-bias": ("dequant_blas", "blas"),
    "fp8-blockwise-prequantized": ("dequant_blas_fp8", "blas_bf16_fp8"),
    "ao-grouped": ("dequant_loop_ao", "loop_bf16_ao"),
    "mxfp8-rceil": ("dequant_blas_mx", "blas_bf16_mx"),
    "mxfp8-moe-rceil": ("dequant_loop_moe", "loop_bf16_moe"),
    "a16w8-128x128": ("dequant_bmm_a16w8", "bmm_bf16_a16w8"),
}


def test_products_of_flipped_activations_agree_however_they_are_read(operands):
    """Some providers read the quantized activations, others a dense copy of them."""
    operands.draw(1)
    names = HONEST[operands.inputs.scheme.name]
    launches = [provider.prepare(operands.inputs) for provider in registry.load(names, []).values()]
    operands.recall(True)
    operands.flip(3)
    operands.flip(5)
    for launch in launches:
        launch()
    with operands.truth_of(operands.flipped(0)) as truth:
        for launch in launches:
            for accuracy in measure_all(launch.outputs, truth):
                assert accuracy.failure(operands.inputs.scheme) == ""

"""Values that a launch derives ahead of time follow every change of the operands that they come from."""

import pytest
import torch
from rooflens.harness.machine.device import find_device
from rooflens.harness.worker.operands import Operands
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.saved import Saved
from rooflens.shapes.scheme import DType

from .contract_cases import CASES, schemes

CPU = find_device("cpu")


def octets(tensors):
    return [tensor.contiguous().view(torch.uint8).clone() for tensor in tensors]


def test_saved_values_follow_their_sources():
    source, seen = torch.zeros(3), []
    saved = Saved([source], lambda: seen.append(source.sum().item()))
    saved.refresh()
    assert seen == [0.0]
    source.add_(2)
    source[:1].mul_(3)
    saved.refresh()
    saved.refresh()
    assert seen == [0.0, 10.0]


def test_a_change_through_a_view_of_another_type_is_seen():
    source, seen = torch.zeros(4).to(torch.float8_e4m3fn), []
    saved = Saved([source], lambda: seen.append(source.float().sum().item()))
    source.view(torch.uint8)[0] = 0x38
    saved.refresh()
    assert seen == [0.0, 1.0]


@pytest.mark.parametrize("family", CASES)
def test_no_draw_and_no_negation_goes_unseen(family):
    """Whatever the harness does to the activations of operands and their copies: what differs counts as changed."""
    for scheme, problems in schemes(family, DType.BF16):
        operands = Operands(make_inputs(problems[-1], scheme, CPU, 3))
        activations = [tensor for one in operands.copies(2) for tensor in one.activations]
        operands.draw(5)
        for change in (lambda draw=operands.draw: draw(6), operands.negate, operands.negate):
            seen = []
            saved = [Saved([tensor], lambda i=i, seen=seen: seen.append(i)) for i, tensor in enumerate(activations)]
            seen.clear()
            before = octets(activations)
            change()
            for value in saved:
                value.refresh()
            differ = [
                i for i, pair in enumerate(zip(before, octets(activations), strict=True)) if not torch.equal(*pair)
            ]
            assert len(differ) > 1, f"{scheme.name}: neither operands nor copy changed"
            assert set(differ) <= set(seen), scheme.name

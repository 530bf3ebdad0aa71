"""Products of quantized operands in fp64, in pieces so that no operand is ever whole in fp64."""

import torch

from .quantize import Operand, row_chunks


def exact_rows(left: Operand, right: Operand, out: torch.Tensor) -> None:
    """out[R,S] = left[R,C] right[S,C]^T of the dequantized values, in fp64. Zero where C is 0.

    Pieces of both sides are dequantized, about 256 MiB each.
    """
    depth = left.shape[1]
    if not depth:
        out.zero_()
        return
    for first, last in row_chunks(left.shape[0], depth):
        rows = _dense(left.part(first, last))
        for begin, end in row_chunks(right.shape[0], depth):
            out[first:last, begin:end] = rows @ _dense(right.part(begin, end)).t()


def _dense(operand: Operand) -> torch.Tensor:
    return operand.dequantize(torch.empty(operand.shape, dtype=torch.float64, device=operand.data.device))

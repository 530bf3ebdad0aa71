"""From a pass to the kernel calls of one launch, for the two Triton GEMM providers.

What is quantized where (each entry one launch; "+" is a fused one):

    pass    shared                                   specialised
    fwd     X row, W                                 X row + col, W
    dgrad   dY row                                   dY row
    wgrad   dY col, X col                            dY col
    bwd     dY row, dY col, X col                    dY row + col
    step    X row, W, dY row, dY col, X col          X row + col, W, dY row + col

What a pass multiplies beyond that was saved by the forward pass: `Plan.saved`, which is not timed. Prequantized
operands need none of it.

So the forward pass of the specialised kernels (and of torch's product, which uses their quantizers) writes what only
the backward pass reads, as training code with fused quantizers does: X by columns, M K + 4 cd(M,128) K bytes; and where
products want both operands along the contracted dimension (`K_MAJOR`: NVIDIA's FP8 units take no other layout) every
forward pass writes W^T, N K bytes. Both come out of tiles that the quantizers hold anyway: no bf16 is read again,
and the backward pass finds them. Therefore `fwd` understates the specialised kernels and `bwd` flatters them: `step`
compares the two ways, and prequantized operands compare the products alone.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from ...shapes.problem import Pass
from ...shapes.schemes.fp8train import BLOCK, COMPUTES, FACTORS, cd, operands
from ..jit.call import KernelCall, compile_calls, moved_bytes
from ..quantized import Quantized, ScaledOperand
from ..saved import Saved
from .inputs import ORIGINS, TrainInputs
from .quantize import GROUPS
from .triton_calls import quantize_call, shared_call, specialised_call, transpose_call, weight_call
from .triton_configs import quant_configs

_SHARED_QUANT: dict[Pass, tuple[tuple[str, ...], ...]] = {
    Pass.FWD: (("x_row",), ("w",)),
    Pass.DGRAD: (("dy_row",),),
    Pass.WGRAD: (("dy_col",), ("x_col",)),
    Pass.BWD: (("dy_row",), ("dy_col",), ("x_col",)),
    Pass.STEP: (("x_row",), ("w",), ("dy_row",), ("dy_col",), ("x_col",)),
}
SPECIALISED_QUANT: dict[Pass, tuple[tuple[str, ...], ...]] = {
    Pass.FWD: (("x_row", "x_col"), ("w",)),
    Pass.DGRAD: (("dy_row",),),
    Pass.WGRAD: (("dy_col",),),
    Pass.BWD: (("dy_row", "dy_col"),),
    Pass.STEP: (("x_row", "x_col"), ("w",), ("dy_row", "dy_col")),
}


@dataclass(slots=True)
class Plan:
    """Calls of a launch in order, and those whose results it finds ready, with the tensors that these depend on."""

    timed: list[KernelCall] = field(default_factory=list)
    saved: list[KernelCall] = field(default_factory=list)
    saved_from: list[torch.Tensor] = field(default_factory=list)


def prepare_saved(plan: Plan) -> Callable[[], object]:
    """Fill what a launch finds ready; return what fills it again once its sources have been overwritten."""
    return Saved(plan.saved_from, compile_calls(plan.saved).run).refresh if plan.saved else lambda: None


def traffic(plan: Plan, sides: Iterable[ScaledOperand], output_bytes: int) -> tuple[int, int]:
    """Bytes that a launch moves, and those of distinct memory, where products of `sides` follow the calls of its plan.

    output_bytes  of their results
    """
    tensors = [tensor for side in sides for tensor in (side.data, side.scale)]
    moved: int = sum(tensor.nbytes for tensor in tensors)
    found = {id(tensor): tensor.nbytes for call in plan.timed for tensor in call.tensors.values()}
    found |= {id(tensor): tensor.nbytes for tensor in tensors}
    touched: int = sum(found.values())
    return moved_bytes(plan.timed) + moved + output_bytes, touched + output_bytes


def plan_of(
    inputs: TrainInputs, outputs: tuple[torch.Tensor, ...], config: dict[str, Any], *, specialised: bool
) -> Plan:
    """Plan of the kernel that all layouts share, each operand quantized by itself, or of those per layout.

    The specialised ones have fused quantizers that write scales in the order in which the GEMMs read them; for the
    shared one scales of rows are transposed in the launch, as in the code that it stands for. With `K_MAJOR` all
    products run in the layout nt: the quantizers write the column forms of X and dY, and W a second time, transposed;
    prequantized operands are transposed in the launch.
    """
    plan = Plan()
    pass_, k_major = inputs.problem.pass_, bool(config.get("K_MAJOR"))
    forms = Forms(inputs, plan, k_major=k_major, scales_first=specialised)
    forms.quantize((SPECIALISED_QUANT if specialised else _SHARED_QUANT)[pass_])
    call = specialised_call if specialised else shared_call
    for product, out in zip(COMPUTES[pass_], outputs, strict=True):
        first, second = FACTORS[product]
        if product is Pass.WGRAD and k_major:
            first, second = second, first
        a, b = forms.side(first, product), forms.side(second, product)
        if not specialised and product is not Pass.WGRAD:
            a = transposed_scale(plan, a)
            b = transposed_scale(plan, b, depth_last=True) if product is Pass.DGRAD else b
        plan.timed.append(call(product, a, b, out, config[product.value], inputs.device, k_major=k_major))
    return plan


class Forms:
    """FP8 operands of one launch: given, quantized by it, or saved; `plan` receives the calls that make them.

    k_major       column forms are [C,R], and W is there a second time as [K,N]
    scales_first  scales of rows are [cd(C,128), R] where this launch writes them: a GEMM reads a block's together
    scale_pad     above 1: rows of W's scales have a multiple of so many elements (`padded_scale`)
    """

    def __init__(
        self, inputs: TrainInputs, plan: Plan, *, k_major: bool, scales_first: bool, scale_pad: int = 1
    ) -> None:
        self._inputs, self._plan, self._k_major = inputs, plan, k_major
        self._scale_pad = scale_pad
        self._padded: dict[Pass, torch.Tensor] = {}
        self._scales_first = scales_first and not inputs.scheme.prequantized
        self._operands: dict[str, Quantized] = dict(inputs.given)
        self._turned: dict[str, torch.Tensor] = {}

    def quantize(self, launches: tuple[tuple[str, ...], ...]) -> None:
        """Plan the quantizers of the launch, and of what it finds saved; nothing for prequantized operands."""
        if self._inputs.scheme.prequantized:
            return
        for names in launches:
            self._plan.timed.append(self._quantizer(names))
        for name in operands(self._inputs.problem.pass_):
            if name not in self._operands:
                self._plan.saved.append(self._quantizer((name,)))
                self._plan.saved_from += self._inputs.sources(name)

    def side(self, name: str, product: Pass) -> ScaledOperand:
        """Return an operand with the strides of its scales, its data in the layout that the product's kernel wants."""
        q = self._operands[name]
        if name == "w":
            blocks = q.scale.stride(0)
            if product is Pass.FWD:
                return ScaledOperand(q.data, q.scale, blocks, 1)
            return ScaledOperand(self._along_depth("w") if self._k_major else q.data, q.scale, 1, blocks)
        if ORIGINS[name][1] == "col":
            data = self._along_depth(name) if self._k_major else q.data
            return ScaledOperand(data, q.scale, 1, q.scale.shape[1])
        if self._scales_first:
            return ScaledOperand(q.data, q.scale, 1, q.scale.shape[1])
        return ScaledOperand(q.data, q.scale, q.scale.shape[1], 1)

    def padded_scale(self, product: Pass) -> torch.Tensor:
        """Scales of W [blocks of lines, blocks of the dimension that `product` contracts], rows filled up with zeros.

        Its quantizer writes them in this order. Given ones are copied here, once: W never changes.
        """
        if product not in self._padded:
            given = self._operands["w"].scale
            source = given if product is Pass.FWD else given.t()
            self._padded[product] = self._rows_of_scales(*source.shape)
            self._padded[product][:, : source.shape[1]].copy_(source)
        return self._padded[product]

    def _quantizer(self, names: tuple[str, ...]) -> KernelCall:
        source, _ = ORIGINS[names[0]]
        x, device = self._inputs.dense[source], self._inputs.device
        if source == "w":
            return self._weight_quantizer(x)
        for name in names:
            self._operands[name] = self._allocate(name)
        row, col = (self._operands[name] if name in names else None for name in (f"{source}_row", f"{source}_col"))
        kind = "rowcol" if row and col else "row" if row else "col"
        if col and self._k_major:
            self._turned[f"{source}_col"] = col.data
        config = quant_configs(kind, device, *x.shape)[0]
        return quantize_call(x, row, col, config, k_major=self._k_major, scales_first=self._scales_first)

    def _weight_quantizer(self, w: torch.Tensor) -> KernelCall:
        rows, columns = w.shape
        lines, blocks = cd(rows, BLOCK), cd(columns, BLOCK)
        scale = self._rows_of_scales(lines, blocks)
        q = Quantized(_empty(w, (rows, columns), self._inputs.operand_dtype("w")), scale, *GROUPS["weight"])
        self._operands["w"] = q
        if self._k_major:
            self._turned["w"] = _empty(q.data, (columns, rows))
        if self._scale_pad > 1:
            self._padded = {Pass.FWD: scale, Pass.DGRAD: self._rows_of_scales(blocks, lines)}
        config = quant_configs("weight", self._inputs.device, rows, columns)[0]
        return weight_call(w, q, self._turned.get("w"), config, self._padded.get(Pass.DGRAD))

    def _rows_of_scales(self, rows: int, length: int) -> torch.Tensor:
        """Scales of W, zero, in rows of `scale_pad` or a multiple."""
        w = self._inputs.given["w"].scale if self._inputs.scheme.prequantized else self._inputs.dense["w"]
        return torch.zeros(rows, length + -length % self._scale_pad, dtype=torch.float32, device=w.device)

    def _allocate(self, name: str) -> Quantized:
        source, kind = ORIGINS[name]
        x = self._inputs.dense[source]
        rows, columns = x.shape
        data_shape = (columns, rows) if self._k_major and kind == "col" else (rows, columns)
        if kind == "row":
            scales = (cd(columns, BLOCK), rows) if self._scales_first else (rows, cd(columns, BLOCK))
        else:
            scales = (cd(rows, BLOCK), columns)
        dtype = self._inputs.operand_dtype(name)
        return Quantized(_empty(x, data_shape, dtype), _empty(x, scales, torch.float32), *GROUPS[kind])

    def _along_depth(self, name: str) -> torch.Tensor:
        """Data of an operand with its contracted dimension last; transposed in the launch where it is given."""
        if name not in self._turned:
            data = self._operands[name].data
            self._turned[name] = _empty(data, (data.shape[1], data.shape[0]))
            self._plan.timed.append(transpose_call(data, self._turned[name]))
        return self._turned[name]


def transposed_scale(plan: Plan, side: ScaledOperand, *, depth_last: bool = False) -> ScaledOperand:
    """Plan the transposition of an operand's scales to [depth, lines], or to [lines, depth]; return it with them."""
    rows, columns = side.scale.shape
    scale = _empty(side.scale, (columns, rows))
    plan.timed.append(transpose_call(side.scale, scale))
    return ScaledOperand(side.data, scale, rows, 1) if depth_last else ScaledOperand(side.data, scale, 1, rows)


def _empty(like: torch.Tensor, shape: tuple[int, int], dtype: torch.dtype | None = None) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype or like.dtype, device=like.device)

"""Operands of a linear layer's training GEMMs in FP8, or of a quantizer, and their results in fp64."""

from dataclasses import dataclass, replace

import torch

from ...shapes.device import Device
from ...shapes.problem import Pass, Problem
from ...shapes.scheme import Scheme
from ...shapes.schemes.fp8train import BLOCK, READS_DY, READS_W, READS_X, Fp8Quant, Fp8Train, operands
from ..draw import draw, with_extremes
from ..fp8 import negate_, negate_widened_
from ..inputs import Inputs, QuantizerInputs, Tensors, decoding, empty_output, poison
from ..quantized import Quantized
from .products import output_shapes, products
from .quantize import AMAX_FLOOR, GROUPS, fp8_dtype, quantize

ORIGINS = {
    "x_row": ("x", "row"),
    "w": ("w", "weight"),
    "dy_row": ("dy", "row"),
    "x_col": ("x", "col"),
    "dy_col": ("dy", "col"),
}
"""FP8 operand -> the bf16 tensor it comes from, and how it is grouped."""

_DRAWN = {**GROUPS, "rowcol": (BLOCK, BLOCK)}
"""Rows and columns of the groups that are drawn: those that share a scale; of two quantizations, blocks of both."""

_SMALL, _LARGE = (-30, -12), (10, 21)
"""Exponents of extreme groups that a quantizer reads: on both sides of the least amax, 1e-4, and up to 10^6."""


_REFERENCE_SHARE = 6
"""A reference on the GPU takes at most one part in so many of its memory."""


@dataclass(frozen=True, slots=True)
class TrainInputs(Inputs):
    """Operands of one pass, in bf16 or in FP8 as the scheme says; those that the pass does not read are absent.

    dense  bf16 tensors by name: "x" [M,K], "w" [N,K], "dy" [M,N]; empty when the scheme is prequantized
    given  FP8 operands by name (`ORIGINS`); empty unless the scheme is prequantized
    """

    problem: Problem
    scheme: Fp8Train
    device: Device
    seed: int
    dense: dict[str, torch.Tensor]
    given: dict[str, Quantized]

    def operand_dtype(self, operand: str) -> torch.dtype:
        """FP8 type of an operand on this device."""
        return fp8_dtype(self.device, gradient=self.scheme.hybrid and operand in ("dy_row", "dy_col", "x_col"))

    def quantized(self, operand: str) -> Quantized:
        """Return an FP8 operand: the given one, or the bf16 tensor quantized anew by the plain torch quantizer."""
        if self.scheme.prequantized:
            return self.given[operand]
        source, kind = ORIGINS[operand]
        return quantize(self.dense[source], kind, self.operand_dtype(operand))

    def sources(self, operand: str) -> Tensors:
        """Tensors of these inputs that an operand is made of."""
        if self.scheme.prequantized:
            return self.given[operand].data, self.given[operand].scale
        return (self.dense[ORIGINS[operand][0]],)

    @decoding
    def dequantized(self, operand: str, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
        """Return an FP8 operand decoded: data * scale in fp32, rounded once to `dtype`."""
        return self.quantized(operand).dequantized(dtype)

    @property
    def activations(self) -> Tensors:
        """X and dY: bf16, or FP8 data and scales."""
        dense = tuple(tensor for name, tensor in self.dense.items() if name != "w")
        return dense + tuple(part for name, q in self.given.items() if name != "w" for part in (q.data, q.scale))

    @property
    def signed(self) -> Tensors:
        """X and dY: bf16, or FP8 data without their scales."""
        dense = tuple(tensor for name, tensor in self.dense.items() if name != "w")
        return dense + tuple(q.data for name, q in self.given.items() if name != "w")

    @property
    def weights(self) -> Tensors:
        """W: bf16, or FP8 data and scales."""
        given = (self.given["w"].data, self.given["w"].scale) if "w" in self.given else ()
        return ((self.dense["w"],) if "w" in self.dense else ()) + given

    def empty_outputs(self) -> Tensors:
        """Y[M,N], dX[M,K], dW[N,K] in bf16: those that the pass computes."""
        at = next(iter((*self.activations, *self.weights))).device
        return tuple(empty_output(shape, torch.bfloat16, at) for shape in output_shapes(self.problem))

    def refresh_activations(self, seed: int) -> None:
        """Overwrite X and dY in place with new random values."""
        generator = torch.Generator(self.device.torch_name).manual_seed(seed)
        for name, shape in _activation_shapes(self.problem).items():
            groups = _groups(name, self.problem.pass_)
            if not self.scheme.prequantized:
                draw(self.dense[name], generator, *groups)
                continue
            dense = torch.empty(shape, dtype=torch.bfloat16, device=self.device.torch_name)
            draw(dense, generator, *groups)
            for operand, q in self.given.items():
                if ORIGINS[operand][0] == name:
                    q.fill(dense, AMAX_FLOOR)

    def negate(self) -> None:
        """Turn X into -X; in the passes `dgrad` and `bwd` dY into -dY, which all of their results depend on.

        In a step the first half of X and the second half of dY, so that all three results change: dW sums dY^T X over
        rows of which either factor has changed. Groups keep their scales: only signs change.
        """
        rows = self._negated()
        for name, part in rows.items():
            if not self.scheme.prequantized:
                self.dense[name][part].neg_()
        for operand, q in self.given.items():
            if ORIGINS[operand][0] in rows:
                negate_(q.data[rows[ORIGINS[operand][0]]])

    def _negated(self) -> dict[str, slice]:
        """Rows of X and dY that `negate` changes."""
        if self.problem.pass_ is Pass.STEP:
            half = (self.problem.M + 1) // 2
            return {"x": slice(0, half), "dy": slice(half, None)}
        return {"dy" if self.problem.pass_ in (Pass.DGRAD, Pass.BWD) else "x": slice(None)}

    def reference(self) -> Tensors:
        """Return the results of the pass in fp64, from the FP8 operands.

        Results that would take much of the GPU's memory are kept on the host: a step at M=32768 N=106496 K=16384 has
        43 GiB of them, which do not fit beside three providers. The GPU then holds a few pieces of 512 MiB and, unless
        the scheme is prequantized, two quantized operands.
        """
        size = sum(8 * rows * columns for rows, columns in output_shapes(self.problem))
        place = "cpu" if size * _REFERENCE_SHARE > self.device.memory_bytes else ""
        return products(self.problem, self.quantized, place)

    @property
    def column_unit(self) -> int:
        """Rows of W that share scales, where Y is the only result."""
        return BLOCK if self.problem.pass_ is Pass.FWD else 0

    def columns(self, part: slice) -> "TrainInputs":
        """Rows of W."""
        scales = slice(part.start // BLOCK, -(-part.stop // BLOCK))
        given = {
            name: replace(q, data=q.data[part], scale=q.scale[scales]) if name == "w" else q
            for name, q in self.given.items()
        }
        dense = {name: tensor[part] if name == "w" else tensor for name, tensor in self.dense.items()}
        return replace(self, problem=replace(self.problem, N=part.stop - part.start), dense=dense, given=given)

    def negate_reference(self, truth: Tensors) -> None:
        """Y and dW change their signs with X, dX and dW with dY; in a step Y and dX in the rows that have changed."""
        if self.problem.pass_ is Pass.STEP:
            rows = self._negated()
            truth[0][rows["x"]].neg_()
            truth[1][rows["dy"]].neg_()
            truth[2].neg_()
            return
        for result in truth:
            result.neg_()


class QuantInputsFp8(QuantizerInputs):
    """X[M,K] in bf16, to be quantized."""

    __slots__ = ()

    scheme: Fp8Quant

    @property
    def forms(self) -> tuple[str, ...]:
        """Kinds of quantization that are asked for, in the order of their outputs."""
        return ("row", "col") if self.scheme.kind == "rowcol" else (self.scheme.kind,)

    @property
    def fp8_dtype(self) -> torch.dtype:
        """Type of the data: e4m3 of this device."""
        return fp8_dtype(self.device)

    def empty_outputs(self) -> Tensors:
        """Data and scale of each form."""
        m, k, at = self.problem.M, self.problem.K, self.x.device
        forms = [Quantized.empty((m, k), *GROUPS[kind], self.fp8_dtype, at) for kind in self.forms]
        return tuple(poison(tensor) for q in forms for tensor in (q.data, q.scale))

    def refresh_activations(self, seed: int) -> None:
        """Overwrite X in place with new random values; some groups are zero, others very small or large."""
        generator = torch.Generator(self.x.device).manual_seed(seed)
        draw(self.x, generator, *_DRAWN[self.scheme.kind], with_extremes(_SMALL, _LARGE))

    def reference(self) -> Tensors:
        """Return what the plain torch quantizer makes of X, widened to fp64."""
        results = [quantize(self.x, kind, self.fp8_dtype) for kind in self.forms]
        return tuple(tensor.double() for q in results for tensor in (q.data, q.scale))

    def negate_reference(self, truth: Tensors) -> None:
        """The data change their signs, the scales stay."""
        for data in truth[::2]:
            negate_widened_(data, self.fp8_dtype)


def make_weight(problem: Problem, scheme: Scheme, device: Device, seed: int) -> torch.Tensor | Quantized | None:
    """Draw W[N,K] (`draw`, in blocks of 128 x 128): bf16, or FP8 for a prequantized scheme; None for a quantizer."""
    if not isinstance(scheme, Fp8Train):
        return None
    shape, at = (problem.N, problem.K), device.torch_name
    w = torch.empty(shape, dtype=torch.bfloat16, device=at)
    draw(w, torch.Generator(at).manual_seed(seed), *_DRAWN["weight"])
    return quantize(w, "weight", fp8_dtype(device)) if scheme.prequantized else w


def make_inputs(
    problem: Problem, scheme: Scheme, device: Device, seed: int, weight: torch.Tensor | Quantized | None
) -> TrainInputs | QuantInputsFp8:
    """Make the operands of one problem."""
    inputs = _empty(problem, scheme, device, seed, device.torch_name)
    if isinstance(inputs, TrainInputs) and problem.pass_ in READS_W:
        if isinstance(weight, Quantized):
            inputs.given["w"] = weight
        elif weight is not None:
            inputs.dense["w"] = weight
    inputs.refresh_activations(seed + problem.M)
    return inputs


def placeholders(problem: Problem, scheme: Scheme, device: Device) -> TrainInputs | QuantInputsFp8:
    """Operands without memory."""
    inputs = _empty(problem, scheme, device, 0, "meta")
    if isinstance(inputs, TrainInputs) and problem.pass_ in READS_W:
        _allocate(inputs, "w", (problem.N, problem.K), "meta")
    return inputs


def _empty(problem: Problem, scheme: Scheme, device: Device, seed: int, place: str) -> TrainInputs | QuantInputsFp8:
    """Allocate the activations."""
    if isinstance(scheme, Fp8Quant):
        x = torch.empty(problem.M, problem.K, dtype=torch.bfloat16, device=place)
        return QuantInputsFp8(problem, scheme, device, seed, x)
    assert isinstance(scheme, Fp8Train)
    inputs = TrainInputs(problem, scheme, device, seed, {}, {})
    for source, shape in _activation_shapes(problem).items():
        _allocate(inputs, source, shape, place)
    return inputs


def _allocate(inputs: TrainInputs, source: str, shape: tuple[int, int], place: str) -> None:
    """Allocate a bf16 tensor, or the FP8 operands that are made of it."""
    if not inputs.scheme.prequantized:
        inputs.dense[source] = torch.empty(shape, dtype=torch.bfloat16, device=place)
        return
    for operand in operands(inputs.problem.pass_):
        origin, kind = ORIGINS[operand]
        if origin == source:
            inputs.given[operand] = Quantized.empty(shape, *GROUPS[kind], inputs.operand_dtype(operand), place)


def _activation_shapes(problem: Problem) -> dict[str, tuple[int, int]]:
    shapes = {"x": (problem.M, problem.K)} if problem.pass_ in READS_X else {}
    return shapes | ({"dy": (problem.M, problem.N)} if problem.pass_ in READS_DY else {})


def _groups(name: str, pass_: Pass) -> tuple[int, int]:
    """Groups in which X or dY is drawn: those of its quantization, blocks where a pass quantizes it both ways."""
    kinds = [kind for source, kind in map(ORIGINS.__getitem__, operands(pass_)) if source == name]
    return _DRAWN[kinds[0] if len(kinds) == 1 else "rowcol"]

"""The bitsandbytes 4-bit formats in plain torch: code tables, quantize, dequantize, nested absmax.

Semantics from bitsandbytes @95f9af3 (csrc/kernels.cu, functional.py). W is flattened row-major; byte j holds element 2j in
its HIGH nibble and 2j+1 in its LOW nibble; value = code[nibble] * absmax[flat index // group].
"""

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch

from ...shapes.scheme import NESTED_BLOCK_SIZE

_DATA = Path(__file__).parent / "data"


@dataclass(frozen=True, slots=True)
class NestedAbsmax:
    """absmax in 8 bits: absmax[i] = code[q[i]] * scale[i // 256] + offset, all on one device.

    q uint8 [blocks], scale fp32 [cd(blocks, 256)], code fp32 [256], offset fp32 [] (0-dim)
    """

    q: torch.Tensor
    scale: torch.Tensor
    code: torch.Tensor
    offset: torch.Tensor

    def rebuild(self) -> torch.Tensor:
        """Return the effective absmax, fp32 [blocks]."""
        blocks = self.q.numel()
        spread = self.scale.repeat_interleave(NESTED_BLOCK_SIZE)[:blocks]
        return self.code[self.q.long()] * spread + self.offset


@dataclass(frozen=True, slots=True)
class QuantizedWeight:
    """A flattened weight of `numel` elements: packed uint8 [(numel+1)//2], absmax fp32 [cd(numel, group)]."""

    packed: torch.Tensor
    absmax: torch.Tensor
    nested: NestedAbsmax | None
    numel: int
    group: int
    kind: str


@cache
def _codes(kind: str) -> tuple[float, ...]:
    column = {"nf4": "nf4", "fp4": "fp4_bnb"}[kind]
    with (_DATA / "codes_4bit.csv").open(encoding="utf-8") as file:
        return tuple(float(row[column]) for row in csv.DictReader(file))


@cache
def _thresholds(kind: str) -> tuple[tuple[float, int], ...]:
    with (_DATA / "codes_4bit_thresholds.csv").open(encoding="utf-8") as file:
        rows = [
            (float(row["threshold"]), int(row["code_if_greater"]))
            for row in csv.DictReader(file)
            if row["quant_type"] == kind
        ]
    return tuple(sorted(rows))


@cache
def _dynamic_map() -> tuple[float, ...]:
    with (_DATA / "dynamic_map_256.csv").open(encoding="utf-8") as file:
        return tuple(float(row["value"]) for row in csv.DictReader(file))


@cache
def code_table(kind: str, device: torch.device) -> torch.Tensor:
    """Value of each of the 16 codes of "nf4" or "fp4", fp32 [16] on `device`."""
    return torch.tensor(_codes(kind), dtype=torch.float32, device=device)


def quantize(dense: torch.Tensor, kind: str, group: int, nested: bool = False) -> QuantizedWeight:
    """Quantize a flat tensor (any float dtype) to "nf4" or "fp4" in blocks of `group` elements."""
    flat = dense.reshape(-1).float()
    blocks = _blocks(flat, group)
    absmax = blocks.abs().amax(dim=1)
    normalized = (blocks / absmax.clamp_min(1e-38)[:, None]).reshape(-1)[: flat.numel()]
    codes = _encode(normalized, kind)
    if codes.numel() % 2:
        codes = torch.nn.functional.pad(codes, (0, 1))
    packed = (codes[0::2] << 4) | codes[1::2]
    second = _quantize_absmax(absmax) if nested else None
    effective = second.rebuild() if second else absmax
    return QuantizedWeight(packed, effective, second, flat.numel(), group, kind)


def dequantize(weight: QuantizedWeight, dtype: torch.dtype) -> torch.Tensor:
    """Return the flat tensor [numel]: fp32 code times fp32 absmax, rounded once to `dtype`."""
    codes = torch.stack((weight.packed >> 4, weight.packed & 15), dim=1).reshape(-1)
    values = code_table(weight.kind, weight.packed.device)[codes.int()]
    return (
        (_blocks(values[: weight.numel], weight.group) * weight.absmax[:, None]).reshape(-1)[: weight.numel].to(dtype)
    )


def _blocks(flat: torch.Tensor, group: int) -> torch.Tensor:
    short = -flat.numel() % group
    return torch.nn.functional.pad(flat, (0, short)).view(-1, group) if short else flat.view(-1, group)


def _encode(normalized: torch.Tensor, kind: str) -> torch.Tensor:
    """Largest threshold that the value strictly exceeds gives the code; FP4 compares magnitudes and adds the sign bit."""
    thresholds = _thresholds(kind)
    bounds = torch.tensor([bound for bound, _ in thresholds], dtype=torch.float32, device=normalized.device)
    codes = torch.tensor([0] + [code for _, code in thresholds], dtype=torch.uint8, device=normalized.device)
    compared = normalized.abs() if kind == "fp4" else normalized
    encoded = codes[torch.bucketize(compared, bounds)]
    return encoded | ((normalized < 0).to(torch.uint8) << 3) if kind == "fp4" else encoded


def _quantize_absmax(absmax: torch.Tensor) -> NestedAbsmax:
    """Second level: nearest entry of the 256-entry dynamic map of (absmax - mean) in blocks of 256."""
    offset = absmax.mean()
    blocks = _blocks(absmax - offset, NESTED_BLOCK_SIZE)
    scale = blocks.abs().amax(dim=1)
    code = torch.tensor(_dynamic_map(), dtype=torch.float32, device=absmax.device)
    middles = (code[1:] + code[:-1]) / 2
    normalized = (blocks / scale.clamp_min(1e-38)[:, None]).reshape(-1)[: absmax.numel()]
    q = torch.bucketize(normalized, middles).to(torch.uint8)
    return NestedAbsmax(q, scale, code, offset)

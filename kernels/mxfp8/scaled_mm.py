"""torch_scaled_mm_mx: torch's scaled matrix product with 1x32 e8m0 scales, where device and torch have it."""

import torch

from ...shapes.device import Device
from ...shapes.errors import RooflensError
from ...shapes.problem import Op, Problem
from ...shapes.schemes.mxfp8 import MxFp8
from ..needs import block_scaled_missing
from ..provider import Config, Launch, Provider, Role, Support
from .inputs import MxFp8Inputs

ROWS, COLUMNS = 128, 4
"""Tile of the scale layout: 128 rows by 4 blocks of 32 elements."""


def swizzled_shape(rows: int, blocks: int) -> tuple[int, int, int, int, int]:
    """Shape of the swizzled scales of [rows, blocks]: row tiles, block tiles, row % 32, row // 32 % 4, block % 4."""
    return (-(-rows // ROWS), -(-blocks // COLUMNS), 32, 4, COLUMNS)


def swizzle(scales: torch.Tensor, padded: torch.Tensor, out: torch.Tensor) -> None:
    """Write uint8 `scales` [rows, blocks] into `out` (`swizzled_shape`), in place and without allocation.

    padded  uint8 [row tiles * 128, block tiles * 4]; what is beyond `scales` must have been set before and stays.
    """
    padded[: scales.shape[0], : scales.shape[1]].copy_(scales)
    row_tiles, block_tiles = out.shape[:2]
    out.copy_(padded.view(row_tiles, 4, 32, block_tiles, COLUMNS).permute(0, 3, 2, 1, 4))


class TorchScaledMmMx(Provider[MxFp8, MxFp8Inputs]):
    """`torch._scaled_mm` with e8m0 scales; those of X are brought into the library's layout inside the call.

    They are new at every call, as a quantizer that writes the library's layout directly would have it for free: two
    small copies are timed that such a framework does not need. The scales of W are brought into the layout beforehand.
    """

    family = "mxfp8"
    op = Op.GEMM
    name = "torch_scaled_mm_mx"
    role = Role.UPSTREAM

    def supports(self, problem: Problem, scheme: MxFp8, device: Device) -> Support:
        """Where the device has block-scaled matrix units and torch both the call and the type of the scales."""
        if missing := block_scaled_missing(device):
            return Support.no(missing)
        if missing := missing_in_torch():
            return Support.no(f"torch {torch.__version__} has no {missing}: needs 2.8 or newer")
        if problem.N % 16:
            return Support.no(f"N={problem.N} is not a multiple of 16, as torch._scaled_mm wants it")
        return Support.yes()

    def prepare(self, inputs: MxFp8Inputs, config: Config | None = None) -> Launch:
        """Allocate the swizzled scales, swizzle those of W, and try once. Raises RooflensError when torch refuses."""
        weight, weight_scale = inputs.w.t(), _layout(inputs.w_scale)
        swizzle(inputs.w_scale, *weight_scale)
        x_padded, x_swizzled = _layout(inputs.x_scale)
        scale_x = x_swizzled.view(torch.float8_e8m0fnu).view(-1)
        scale_w = weight_scale[1].view(torch.float8_e8m0fnu).view(-1)

        def multiply() -> torch.Tensor:
            swizzle(inputs.x_scale, x_padded, x_swizzled)
            product: torch.Tensor = torch._scaled_mm(inputs.x, weight, scale_x, scale_w, out_dtype=torch.bfloat16)
            return product

        try:
            return Launch.returning(multiply, multiply())
        except (RuntimeError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise RooflensError(f"{self.name}: torch {torch.__version__} refuses MX scales here: {reason}") from error

    def moved_bytes(self, problem: Problem, scheme: MxFp8, config: Config) -> int:
        """Operands and Y once; the scales of X are copied twice, padded."""
        tiles = swizzled_shape(problem.M, problem.K // 32)
        padded = tiles[0] * tiles[1] * ROWS * COLUMNS
        return scheme.compulsory_bytes(problem) + 4 * padded


def missing_in_torch() -> str:
    """What this torch lacks for the call, "" when it has all."""
    for name in ("_scaled_mm", "float8_e8m0fnu"):
        if not hasattr(torch, name):
            return f"torch.{name}"
    return ""


def _layout(scales: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Zeroed padded scales and the swizzled ones."""
    shape = swizzled_shape(*scales.shape)
    padded = torch.zeros(shape[0] * ROWS, shape[1] * COLUMNS, dtype=torch.uint8, device=scales.device)
    return padded, torch.zeros(shape, dtype=torch.uint8, device=scales.device)


TORCH_SCALED_MM = TorchScaledMmMx()

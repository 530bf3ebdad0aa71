"""The least that a launch can take: a kernel that does nothing, and one that computes a single small tile."""

import torch
import triton
import triton.language as tl

from ....shapes.device import Device
from ...jit.launch import compile_launch
from ..probe import Probe

TILE_M, TILE_N, TILE_K = 16, 64, 64
"""The least rows that tensor cores of all architectures take, and one K step of a small GEMM."""

OPTIONS = {"num_warps": 4, "num_stages": 1}


@triton.jit
def empty_kernel(unused):
    """Return at once. One program; no traffic."""


@triton.jit
def tile_kernel(x, w, y, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Y[M,N] = X[M,K] W[N,K]^T in one K step of one program: fp16 operands, fp32 sums, fp16 output, all contiguous.

    Traffic: each operand once. Its time is latency: the launch, one load, one product, one store.
    """
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(x + rows[:, None] * K + inner[None, :])
    b = tl.load(w + columns[None, :] * K + inner[:, None])
    tl.store(y + rows[:, None] * N + columns[None, :], tl.dot(a, b).to(tl.float16))


def empty_launch(device: Device) -> Probe:
    """Compile the empty kernel for `device`, which must be the current one."""
    unused = torch.zeros(4, dtype=torch.int32, device=device.torch_name)
    launch = compile_launch(empty_kernel, (1, 1, 1), {"unused": unused}, {}, OPTIONS)
    return Probe(launch.run, 0, "empty Triton kernel")


def tile_operands(device: Device) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Draw X, W and an output for `tile_launch`."""
    x, w = (torch.randn(rows, TILE_K, device=device.torch_name).half() for rows in (TILE_M, TILE_N))
    return x, w, torch.full((TILE_M, TILE_N), torch.nan, dtype=torch.float16, device=device.torch_name)


def tile_launch(x: torch.Tensor, w: torch.Tensor, y: torch.Tensor) -> Probe:
    """Compile the kernel of one tile for its operands, of `tile_operands`."""
    sizes = {"M": TILE_M, "N": TILE_N, "K": TILE_K}
    launch = compile_launch(tile_kernel, (1, 1, 1), {"x": x, "w": w, "y": y}, sizes, OPTIONS)
    how = f"Triton kernel of one {TILE_M}x{TILE_N}x{TILE_K} fp16 tile"
    return Probe(launch.run, x.nbytes + w.nbytes + y.nbytes, how)

"""The original Marlin (IST-DASLab/marlin at 2f6d7c1): fp16 activations, symmetric INT4 weights in groups of 128.

    TORCH_CUDA_ARCH_LIST=9.0 pip install --no-build-isolation git+https://github.com/IST-DASLab/marlin
    rooflens run w4a16-quick --providers examples/upstream/marlin_w4a16.py

Compiled by CUDA 13.0, launches with up to 16 rows end with an illegal instruction on an H200 (docs/measured-facts.md):
take another version of CUDA, or plain `cp.async` in its `cp_async4_stream`.

Its `Layer.pack` takes dense weights through the CPU. Here the codes are put in its order on the device, by its tables.
"""

import marlin
import torch
from rooflens.kernels.fourbit.groups import unpack
from rooflens.kernels.provider import Launch, Provider, Role, Support
from rooflens.shapes.scheme import DType

TILE = 16


class Marlin(Provider):
    name = "marlin"
    family = "fourbit"
    role = Role.UPSTREAM

    def supports(self, problem, scheme, device):
        if not device.is_gpu or device.arch not in ("sm80", "sm86", "sm89", "sm90"):
            return Support.no("its kernel is written for NVIDIA's Ampere and runs on Ada and Hopper")
        if scheme.name != "int4-g128" or scheme.dtype is not DType.FP16 or problem.B != 1:
            return Support.no("its kernel takes one matrix of symmetric INT4 in groups of 128, and fp16 activations")
        if problem.K % 128 or problem.N % 256:
            return Support.no("its kernel takes K in multiples of 128 and N of 256")
        return Support.yes()

    def prepare(self, inputs, config=None):
        m, n, k = inputs.problem.M, inputs.problem.N, inputs.problem.K
        weight = pack(unpack(inputs.packed, n * k).view(n, k))
        scales = inputs.groups.scale.view(n, -1).t().reshape(-1, len(marlin._scale_perm))
        scales = scales[:, marlin._scale_perm].reshape(-1, n).contiguous()
        locks = torch.zeros(n // 128 * 16, dtype=torch.int32, device=inputs.x.device)
        output = torch.empty(m, n, dtype=inputs.x.dtype, device=inputs.x.device)
        return Launch(lambda: marlin.mul(inputs.x, weight, output, scales, locks), output)


def pack(codes):
    """Return codes [N,K] as Marlin reads them, int32 [K/16, 2N]: tiles of 16 x 16, eight codes in a word."""
    n, k = codes.shape
    tiles = codes.t().reshape(k // TILE, TILE, n // TILE, TILE).permute(0, 2, 1, 3)
    order = marlin._perm.to(codes.device)
    ordered = tiles.reshape(-1, order.numel())[:, order].view(k // TILE, -1, 8)
    words = torch.zeros(ordered.shape[:2], dtype=torch.int32, device=codes.device)
    for position in range(8):
        words |= ordered[:, :, position].int() << 4 * position
    return words


PROVIDERS = [Marlin()]

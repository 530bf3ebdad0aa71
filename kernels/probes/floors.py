"""Launches that do next to nothing, for a device: what a launch costs before it computes anything."""

from collections.abc import Iterator

import torch

from ...shapes.device import Device
from ...shapes.errors import RooflensError
from . import cpu_probes
from .probe import Probe


def floors(device: Device) -> Iterator[tuple[str, Probe]]:
    """Yield the launches "empty" and "tile", whose operands stay where they are from launch to launch.

    On a GPU, Triton kernels. On the CPU, a call into C++ and its smallest parallel region; where there is no compiler,
    torch writing one element, and no tile.
    """
    if device.is_gpu:
        from .triton import floors as on_gpu

        yield "empty", on_gpu.empty_launch(device)
        yield "tile", on_gpu.tile_launch(*on_gpu.tile_operands(device))
        return
    try:
        empty = cpu_probes.empty_launch()
    except RooflensError:
        yield "empty", Probe(torch.zeros(1).zero_, 4, "torch zero_ of one element")
        return
    yield "empty", empty
    threads = torch.get_num_threads()
    yield "tile", cpu_probes.tile_launch(cpu_probes.tile_operand(threads), threads)

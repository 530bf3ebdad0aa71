"""Device memory for what kernels make for themselves: descriptors of tiles for the tensor memory accelerator.

Triton asks for it at every launch. Launches on one stream follow each other, so that they can share the same memory:
it is allocated once per stream and kept.
"""

import torch
import triton

_held: dict[tuple[int, int | None], list[torch.Tensor]] = {}


def provide_scratch() -> None:
    """Make Triton take such memory from here; to be called before a kernel that needs it is launched."""
    triton.set_allocator(_allocate)


def _allocate(size: int, alignment: int, stream: int | None) -> torch.Tensor:
    """Return `size` bytes on the current device; torch aligns them to 512 or more, descriptors want 128.

    Memory that became too small is kept as well: graphs captured meanwhile read it.
    """
    held = _held.setdefault((torch.cuda.current_device(), stream), [])
    if not held or held[-1].numel() < size:
        held.append(torch.empty(size, dtype=torch.int8, device="cuda"))
    return held[-1]

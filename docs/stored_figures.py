"""The figures of docs/measured-facts.md that follow from stored runs: python docs/stored_figures.py.

Each line is a piece of text that stands there word for word.
"""

from collections.abc import Iterator

import dispatch_figures as dispatch
import fp8_figures as fp8
import kernel_figures as kernels
import roofline_figures as roofline

PARTS = (
    *(kernels.of_binaries, kernels.of_cpu),
    *(roofline.of_limits, roofline.of_instructions, roofline.of_decoding),
    *(
        kernels.of_cuda_4bit,
        kernels.of_launches,
        kernels.of_w4a16_models,
        kernels.of_w4a16_providers,
        kernels.of_cuda_mx,
        kernels.of_launches_mx,
        kernels.of_cuda_a16w8,
        kernels.of_tiles_a16w8,
        fp8.of_cuda_fp8,
        kernels.of_counters,
        kernels.of_default_tiles,
    ),
    roofline.of_shared_memory,
    *(kernels.of_gemlite, kernels.of_4bit_peers, kernels.of_blas_best),
    dispatch.of_dispatch,
)


def figures() -> Iterator[str]:
    """Yield the pieces of text that follow from stored runs."""
    for part in PARTS:
        yield from part()


if __name__ == "__main__":
    print("\n".join(figures()))

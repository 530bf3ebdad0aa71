"""Values that a launch uses but does not compute: saved by the forward pass, or decoded ahead of it.

They come from operands that the harness overwrites now and then to check a launch on fresh data. torch counts in-place
changes of a tensor, through whichever view of it (the bytes of an FP8 tensor, say), so that a launch can detect,
without touching the device, that what it holds is out of date. It does not count what a kernel writes through a raw
pointer: operands are for torch to change.
"""

from collections.abc import Callable, Sequence

import torch


class Saved:
    """Values derived from `sources` by `update`, which is run now, and again once a source has been overwritten.

    A launch offers `refresh` to the harness (`Launch.refresh`), which calls it outside of timing when it has
    overwritten operands, and calls it itself as well, so that it is right wherever it runs. While a CUDA graph is
    captured nothing is updated, so that no graph contains it.
    """

    def __init__(self, sources: Sequence[torch.Tensor], update: Callable[[], object]) -> None:
        self._sources, self._update = tuple(sources), update
        self._versions = self._now()
        update()

    def refresh(self) -> None:
        """Run `update` if a source has changed since the last time."""
        versions = self._now()
        if versions != self._versions and not self._captured():
            self._update()
            self._versions = versions

    def _captured(self) -> bool:
        return any(source.is_cuda for source in self._sources) and torch.cuda.is_current_stream_capturing()

    def _now(self) -> tuple[int, ...]:
        return tuple(source._version for source in self._sources)

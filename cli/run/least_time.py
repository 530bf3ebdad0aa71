"""The least time that a device allows for a cell, known before anything is measured: from what is published of it."""

from collections.abc import Hashable

from ...harness.ceilings.known_limits import known_limits
from ...harness.plan.plan import Cell
from ...shapes.run_folder.manifest import Manifest


class LeastTime:
    """Seconds below which a time is impossible in the analysis, 0 where nothing is known of the device.

    `manifest` is what becomes run.json; it names the device from the first call on, which holds at its published clock.
    Which type a provider multiplies in is not asked: the faster of the activations' and the scheme's counts.
    """

    def __init__(self, manifest: Manifest) -> None:
        self._manifest = manifest
        self._known: dict[Hashable, float] = {}

    def __call__(self, cell: Cell) -> float:
        """Return the least time of a cell, the same for all providers of its problem."""
        place = (cell.problem, cell.scheme, cell.cache)
        if place not in self._known:
            self._known[place] = self._of(cell)
        return self._known[place]

    def _of(self, cell: Cell) -> float:
        device = self._manifest.of_device
        types = list(dict.fromkeys([cell.scheme.dtype.value, cell.scheme.math_dtype]))
        limits = known_limits(device.device, types)
        if not limits:
            return 0.0
        import pandas as pd

        from ...analysis.roofline.bounds import IMPOSSIBLE_FACTOR
        from ...analysis.roofline.ceilings import Ceilings
        from ...analysis.roofline.limits import hard_times

        problem, scheme = cell.problem, cell.scheme
        row = {
            "flops": problem.flops,
            "compulsory_bytes": scheme.compulsory_bytes(problem),
            "output_bytes": scheme.output_bytes(problem),
            "B": problem.B,
            "M": problem.M,
            "N": problem.N,
            "dtype": scheme.dtype.value,
            "cache": cell.cache.value,
        }
        rows = pd.DataFrame([row | {"math_dtype": name} for name in types])
        return IMPOSSIBLE_FACTOR * float(hard_times(rows, Ceilings.of(pd.DataFrame(limits)), device).min())

"""The best ratio of a run so far, and the least time that a device allows: a shorter one counts for no ratio."""

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable
from statistics import geometric_mean

from ...harness.ceilings.known_limits import known_limits
from ...harness.plan.plan import Cell
from ...reports.formatting import undecided
from ...shapes.run_folder.manifest import Manifest


class BestRatio:
    """Collects the medians of rounds, and knows the cell at which a challenger is fastest against the baseline.

    A ratio of geometric means of the rounds so far, marked as unproven. A time below `least_time` (seconds) decides
    nothing, as in the analysis: it is excluded and counted.
    """

    def __init__(
        self, baseline: str, challengers: Collection[str], least_time: Callable[[Cell], float] = lambda cell: 0.0
    ) -> None:
        self._baseline, self._challengers, self._least_time = baseline, challengers, least_time
        self._excluded = 0
        self._times: defaultdict[Hashable, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        self._ratios: dict[tuple[Hashable, str], tuple[float, Cell]] = {}

    def add(self, cell: Cell, time_s: float) -> None:
        """Take in the median of a round."""
        if time_s < self._least_time(cell):
            self._excluded += 1
            return
        place = (cell.shape, cell.problem, cell.scheme, cell.cache)
        times = self._times[place]
        times[cell.provider].append(time_s)
        if self._baseline not in times:
            return
        for name in times.keys() & self._challengers:
            if name != self._baseline and cell.provider in (name, self._baseline):
                ratio = geometric_mean(times[self._baseline]) / geometric_mean(times[name])
                self._ratios[place, name] = ratio, cell

    def drop(self, cell: Cell) -> None:
        """Forget a provider at a problem where it turned out to be wrong, or failed otherwise."""
        place = (cell.shape, cell.problem, cell.scheme, cell.cache)
        self._times[place].pop(cell.provider, None)
        for key in [key for key in self._ratios if key[0] == place and cell.provider in (key[1], self._baseline)]:
            del self._ratios[key]

    def __str__(self) -> str:
        if not self._ratios:
            return ""
        (_, name), (ratio, cell) = max(self._ratios.items(), key=lambda item: item[1][0])
        where = f"M={cell.problem.M} N={cell.problem.N} K={cell.problem.K} {cell.scheme.dtype} {cell.cache}"
        excluded = f"{self._excluded} round{'s' * (self._excluded > 1)} excluded, faster than the device allows"
        excluded = f"; {excluded}" if self._excluded else ""
        return f"{name} {undecided(ratio)} over {self._baseline} at {where}{excluded}"


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
        limits = known_limits(device.looked_up(), types)
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

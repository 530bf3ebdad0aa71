"""Do the devices of one run run alike? Their canaries say: the same frozen work, timed on each of them.

1. Each device has the median of its readings; a single reading cannot be distinguished from noise, and is excluded.
2. The noise of a reading is the median distance between two readings of one device (Shamos 1976; divided by 0.954 it
   is the standard deviation of normal noise), over all devices, and for a device with enough readings its own where
   that is larger. A burst of other work moves neither it nor the median.
3. Devices differ where the slowest takes longer than the fastest by more than the margin, and one of the two stands
   apart from the median of the others by more than noise does in one run of a hundred (Student's t, Bonferroni over
   the devices: among a thousand that are alike, some look slow).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from scipy.special import stdtrit

from ...shapes.verdict import Verdict
from ..frames.coordinates import COORDINATES
from ..frames.load import RunData
from ..statistics.arrays import Floats, Ints, floats
from .canary import KINDS, device_numbers, slowdown
from .devices import MeasuredDevice

FALSE_ALARMS = 0.01
"""Share of runs of devices that are alike in which noise alone would set one of them apart."""

OWN_NOISE = 4
"""Readings from which on a device's own noise is known well enough to count."""

MOST_READINGS = 60
"""Readings of a device that enter its noise, evenly picked: the pairs among them grow with their square."""

_SHAMOS = 0.954
"""Median distance between two normal values, in standard deviations: sqrt(2) times the upper quartile."""

_NAMES = {"gemm": "GEMM", "copy": "copy"}


@dataclass(frozen=True, slots=True)
class Spread:
    """The slowest and the fastest of the devices of one architecture, by one part of the canary.

    devices     how many of them were compared
    excess      time of the slowest over that of the fastest, minus 1
    proven      True where noise does not explain it
    """

    kind: str
    devices: int
    slowest: MeasuredDevice
    fastest: MeasuredDevice
    excess: float
    proven: bool


def spreads(run: RunData, devices: Sequence[MeasuredDevice]) -> tuple[Spread, ...]:
    """Compare the devices of each architecture, part by part; those that have two readings or more."""
    several = sorted((device for device in devices if device.readings > 1), key=lambda one: one.arch)
    owners = device_numbers(run.canary["process"], run.device_of)
    readings = dict(iter(run.canary.groupby(owners)))
    found = []
    for _, group in groupby(several, key=lambda one: one.arch):
        alike = list(group)
        if len(alike) > 1:
            for kind in KINDS:
                times = (floats(readings[one.number], f"{kind}_s") for one in alike)
                found.append(_spread(kind, alike, [np.log(values) for values in times]))
    return tuple(found)


def device_warnings(run: RunData, found: Sequence[Spread]) -> Iterator[str]:
    """Say in one line by how much devices differ, what that means for the numbers, and what to do; nothing else."""
    proven = [one for one in found if one.proven and one.excess > slowdown(run.device.is_cpu)]
    if not proven:
        return
    spreads = "; ".join(
        f"the canary's {_NAMES[one.kind]} takes {one.excess:.1%} longer on {one.slowest.label} than on "
        f"{one.fastest.label}{f' (slowest and fastest of {one.devices})' if one.devices > 2 else ''}"
        for one in proven
    )
    slow = " and ".join(dict.fromkeys(one.slowest.label for one in proven))
    yield (
        f"devices differ: {spreads}. So do times of problems that different devices measured{_of_speedups(run)}. "
        f"Look at clock, power limit, temperature and other work of {slow}, or measure without it"
    )


def _of_speedups(run: RunData) -> str:
    """Say which speedups compare devices: a merge may have joined the providers of one problem from two of them."""
    passed = run.cells.loc[run.cells["verdict"] == Verdict.PASSED]
    owners = device_numbers(passed["process"], run.device_of)
    mixed = owners.groupby([passed[name] for name in COORDINATES], sort=False).nunique() > 1
    if not mixed.any():
        return "; speedups hold, as all providers of a problem ran on one device"
    return (
        f", and so may speedups of {int(mixed.sum())} of {len(mixed)} problems whose providers ran on several devices"
    )


def _spread(kind: str, devices: Sequence[MeasuredDevice], readings: Sequence[Floats]) -> Spread:
    middles = np.array([np.median(values) for values in readings])
    counts = np.array([len(values) for values in readings])
    variances = _of_median(counts) * _noise(readings) ** 2 / counts
    slowest, fastest = int(middles.argmax()), int(middles.argmin())
    tests = len(devices) if len(devices) > 2 else 1  # two devices make one comparison
    far = float(stdtrit(float((counts - 1).sum()), 1 - FALSE_ALARMS / 2 / tests))
    return Spread(
        kind,
        len(devices),
        devices[slowest],
        devices[fastest],
        float(np.expm1(middles[slowest] - middles[fastest])),
        any(_distance(position, middles, variances) > far for position in (slowest, fastest)),
    )


def _distance(position: int, middles: Floats, variances: Floats) -> float:
    """How far a device is from the median of the others, in standard errors; infinite where there is no noise."""
    others = np.delete(middles, position)
    beside = float(np.delete(variances, position).mean()) * float(_of_median(np.array(len(others)))) / len(others)
    away, error = abs(float(middles[position] - np.median(others))), math.sqrt(float(variances[position]) + beside)
    return away / error if error else math.inf if away else 0.0


def _noise(readings: Sequence[Floats]) -> Floats:
    """Standard deviation of a reading of each device."""
    distances = [_distances(values) for values in readings]
    shared = float(np.median(np.concatenate(distances)))
    own = [
        float(np.median(found)) if len(values) >= OWN_NOISE else 0.0
        for found, values in zip(distances, readings, strict=True)
    ]
    return np.asarray(np.maximum(np.array(own), shared) / _SHAMOS, dtype=np.float64)


def _distances(values: Floats) -> Floats:
    picked = values[:: -(-len(values) // MOST_READINGS)]
    first, second = np.triu_indices(len(picked), k=1)
    return np.asarray(np.abs(picked[first] - picked[second]), dtype=np.float64)


def _of_median(counts: Ints) -> Floats:
    """Variance of a median over that of a mean: of one or two it is the mean, of many normal ones pi / 2."""
    return np.where(counts > 2, np.pi / 2, 1.0)

"""Which lines show the devices of a run over time: one each while colours can tell them apart, else one for all."""

import itertools
from dataclasses import dataclass

import pandas as pd

from ....analysis.frames.load import RunData
from ....analysis.stability.canary import KINDS, device_numbers
from ....analysis.stability.devices import device_name

MOST_LINES = 7
"""Devices with a line each, as many as there are colours; more are drawn as their median with a band."""


@dataclass(frozen=True, slots=True)
class DeviceLine:
    """A line of one device (its number), or of all rows (None), in which `joined` devices are; "" for the only device.

    `style` indexes the palette; 0 is ink.
    """

    device: int | None
    style: int
    name: str
    joined: int = 1

    def rows(self, every: pd.DataFrame) -> pd.DataFrame:
        """Rows of a frame of `of_devices` that belong to it."""
        return every if self.device is None else every[every["device"] == self.device]

    def bins(self, rows: pd.DataFrame, most: int) -> int:
        """Stretches of time to cut its rows into: where it joins devices, about one reading of each in a stretch."""
        return max(1, min(most, len(rows) // self.joined))


def of_devices(run: RunData, rows: pd.DataFrame) -> pd.DataFrame:
    """Add `device` to rows that have a process, and to readings of the canary `<kind>_change`.

    That is the time over the median of the same device, minus 1.
    """
    known = rows.assign(device=device_numbers(rows["process"], run.device_of))
    times = [kind for kind in KINDS if f"{kind}_s" in known]
    middle = known.groupby("device")[[f"{kind}_s" for kind in times]].transform("median")
    return known.assign(**{f"{kind}_change": known[f"{kind}_s"] / middle[f"{kind}_s"] - 1 for kind in times})


def lines_of(run: RunData, *frames: pd.DataFrame) -> tuple[DeviceLine, ...]:
    """Lines for the devices that have a row in a frame of `of_devices`, in the order of run.json."""
    present = set(itertools.chain.from_iterable(frame["device"] for frame in frames))
    if not run.several_devices or not present:
        return (DeviceLine(None, 0, ""),)
    if len(present) > MOST_LINES:
        return (DeviceLine(None, 0, f"median of {len(present)} devices", len(present)),)
    numbers = sorted(present, key=lambda number: (number < 0, abs(number)))
    return tuple(DeviceLine(number, style, device_name(run, number)) for style, number in enumerate(numbers, start=1))

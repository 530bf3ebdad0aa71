"""The three sides of a comparison within one run: the kernel, what it replaces, and a reference for both."""

from typing import NamedTuple

import pandas as pd

from ....analysis.frames.speedup import speedups
from ....shapes.verdict import Verdict
from ...view import View

_ORDER = ("candidate", "stock_triton", "dequant_blas", "upstream")
"""Roles in the order in which they stand for what is replaced, where the baseline is the reference."""


class Sides(NamedTuple):
    """Names of providers; "" where the run has none for a side.

    new        the first challenger with a time, the first other provider where no challenger has one
    old        the baseline; where that is the reference, the first other provider by role: a candidate that is no
               challenger, then stock Triton, then dequantize and BLAS, then upstream
    reference  a provider of that role: the baseline if it is one, else the first
    """

    old: str
    new: str
    reference: str

    @property
    def named(self) -> tuple[str, ...]:
        """The sides that there are, old first."""
        return tuple(name for name in self if name)


def sides(view: View) -> Sides | None:
    """Name the sides; None where only one provider has a time."""
    timed = set(view.cells.loc[view.cells["verdict"] == Verdict.PASSED, "provider"])
    present = [name for name in view.providers if name in timed]
    if len(present) < 2:
        return None
    references = [name for name in (view.baseline, *present) if name in timed and view.run.is_reference(name)]
    reference = next(iter(references), "")
    wanted = [name for name in (*view.challengers, *view.others) if name in timed and name != reference]
    new = next(iter(wanted), "")
    if not new:
        return None
    if view.baseline in timed and view.baseline not in (reference, new):
        return Sides(view.baseline, new, reference)
    return Sides(_replaced(view, present, (new, reference)), new, reference)


def _replaced(view: View, present: list[str], taken: tuple[str, ...]) -> str:
    left = [name for name in present if name not in taken and not view.run.is_reference(name)]
    rest = [name for name in left if name not in view.run.challengers and view.run.role(name) in _ORDER]
    rest.sort(key=lambda name: _ORDER.index(view.run.role(name)))
    return next(iter((*rest, *left)), "")


def compared(view: View) -> tuple[str, ...]:
    """Return the challengers that have a ratio somewhere; where none has, the other providers that do."""
    known = set(view.ratios.loc[view.ratios["ratio"].notna(), "provider"])
    challengers = tuple(name for name in view.challengers if name in known)
    return challengers or tuple(name for name in view.others if name in known)


def ratios_over(view: View, base: str) -> pd.DataFrame:
    """Return the ratios over any provider, as `analysis.frames.speedup` has those over the baseline."""
    return view.ratios if base == view.baseline else speedups(view.cells, view.analysis.rounds, base)

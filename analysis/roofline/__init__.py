"""Where each cell is against the limits of its device, and which of them bounds it.

Every limit is a time, and two models give two sets of them:

  bound        compulsory bytes at the cell's memory level, useful FLOPs at the best measured GEMM, an empty launch: no
               implementation of this problem can be faster. How far from it a cell is (`fraction_of_bound`) compares
               all providers alike.
  implemented  what the provider's own algorithm moves, by the level that serves it (`traffic`); what it gives the
               matrix units, padded to tiles and dealt out in waves; what it decodes. It says where the time goes
               (`bound_class`). A model that takes longer than the cell did is refuted by it, and falls back.

A limit that is not known limits nothing, and is named once (`roofline_warnings`). Modules: `limits` (the times, and
what the names of vendors' kernels tell), `placing` (classes and fractions), `roofs` (the ceilings in use), `raising`
(those that a cell beats), `notes` (what a report says of cells and of the run), `gaps` (from the ideal to the measured
time in steps) and `pairs` (cold against warm). Below them `ceilings` (reads the stored ones), `bounds` (what the
classes are) and `traffic` (bytes by level).
"""

from .notes import roofline_warnings
from .placing import bound_shares, place
from .raising import raise_ceilings

__all__ = ["bound_shares", "place", "raise_ceilings", "roofline_warnings"]

"""Words that pages, terminals and figures share: the parts of a time, and what bounds a cell."""

from ..analysis.roofline.bounds import Bound

CEILING_KINDS = {"measured": "measured", "spec": "published", "derived": "derived"}
"""Kind of a limit of the device -> what pages call it."""

CANARY_PARTS = {"gemm": "GEMM", "copy": "copy"}
"""Part of the canary -> what pages call it."""

GAP_PARTS = {
    "ideal": "ideal",
    "clock": "clock",
    "tile": "tiles",
    "wave": "waves",
    "dequant": "decode",
    "memory": "memory",
    "schedule": "schedule",
    "startup": "startup",
    "residual": "rest",
}
"""Part of a measured time -> what pages and terminals call it."""


_BOUNDS = {
    Bound.DRAM: ("D", "memory"),
    Bound.LLC: ("L", "the last-level cache"),
    Bound.L2: ("L2", "the L2 cache"),
    Bound.COMPUTE: ("C", "the GEMM peak of the dtype"),
    Bound.ALU: ("A", "decoding weights on the vector units, or another pipe that its instructions occupy"),
    Bound.LATENCY: ("W", "its workgroups one after another, each waiting for its own instructions and loads"),
    Bound.LAUNCH: ("S", "the launch floor"),
    Bound.BALANCED: ("B", "two limits within 10% of each other"),
    Bound.UNEXPLAINED: ("?", "slower than 1.5 times all limits added up"),
    Bound.IMPOSSIBLE: ("!", "faster than the hard limit: a fault, never drawn as more than 100%"),
}

BOUNDS = {bound: meaning for bound, (_, meaning) in _BOUNDS.items()}
"""Bound class -> what takes the time."""

BOUND_CODES = {bound: code for bound, (code, _) in _BOUNDS.items()}
"""Bound class -> its code in the cells of a grid; launch is S for start, latency W for wait."""

LIMITS = {"memory": "memory", "compute": "the GEMM peak", "launch": "the launch floor"}
"""What a time is at least, whatever the implementation."""

"""Words that pages, terminals and figures share: the parts of a time, and what bounds a cell."""

from ..analysis.roofline.bounds import Bound
from ..analysis.run.remedy import Remedy

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

BOUNDS = {
    Bound.DRAM: "memory",
    Bound.LLC: "the last-level cache",
    Bound.L2: "the L2 cache",
    Bound.COMPUTE: "the GEMM peak of the dtype",
    Bound.ALU: "decoding weights on the vector units, or another pipe that its instructions occupy",
    Bound.LATENCY: "its workgroups one after another, each waiting for its own instructions and loads",
    Bound.LAUNCH: "the launch floor",
    Bound.BALANCED: "two limits within 10% of each other",
    Bound.UNEXPLAINED: "slower than 1.5 times all limits added up",
    Bound.IMPOSSIBLE: "faster than the hard limit: a fault, never drawn as more than 100%",
}
"""Bound class -> what takes the time."""

LIMITS = {"memory": "memory", "compute": "the GEMM peak", "launch": "the launch floor"}
"""What a time is at least, whatever the implementation."""

REMEDIES = {
    Remedy.DEVICE: "the device changed: measure again on an idle device",
    Remedy.RESUME: "resume the run: rooflens run --resume -o {run}",
    Remedy.SWEEP: "sweep M with the option -a",
    Remedy.ROUNDS: "more rounds narrow the intervals",
    Remedy.NONE: "",
}
"""What settles what is open -> what pages and terminals call it."""

BOUND_CODES = {
    Bound.DRAM: "D",
    Bound.LLC: "L",
    Bound.L2: "L2",
    Bound.COMPUTE: "C",
    Bound.ALU: "A",
    Bound.LATENCY: "W",
    Bound.LAUNCH: "S",
    Bound.BALANCED: "B",
    Bound.UNEXPLAINED: "?",
    Bound.IMPOSSIBLE: "!",
}
"""Bound class -> its code in the cells of a grid; launch is S for start, latency W for wait."""

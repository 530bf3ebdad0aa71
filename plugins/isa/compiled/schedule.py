"""How long a workgroup takes that has a unit to itself, from its machine code: its warps on one scheduler, in order.

A warp issues its instructions in order, each once its operands are there and its pipe takes another; the scheduler
issues one instruction per clock. Bulk and asynchronous copies complete in groups, warpgroup products in order, and
whoever waits for them waits for the group that the instruction names. Memory answers after a fixed latency: once with
that of a cache, once with that of memory, which tells how many answers the schedule waits for one after another.

Bank conflicts, uncoalesced accesses, replays and queues in memory are not modelled, branches are taken as they fall,
and a loop other than the main one runs once: real workgroups take longer, and a time that was measured is the judge.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .code import Disassembly, Instruction, OpKind
from .loops import main_loop, with_loop

SCHEDULERS = 4
"""Schedulers of a multiprocessor, each with a quarter of its warps and lanes."""

REPEATS = 12
"""Iterations that are scheduled; of the later half, which copies one, two or three iterations ahead divide evenly."""

LATENCIES = (290, 665)
"""Clocks until the L2 cache and memory of an H200 answer (147 and 336 ns at 1.98 GHz): where the schedule is probed."""


class InstructionCost(NamedTuple):
    """Clocks that an instruction of a warp occupies its pipe for, and until its result is there."""

    pipe: str
    busy: float
    latency: float


class WarpWork(NamedTuple):
    """Of a stretch of code that the warps of a workgroup run once.

    clocks  from the first instruction to the last result, but for waiting for memory
    waits   answers of memory that are waited for one after another
    pipes   clocks that each pipe of the multiprocessor is occupied, "issue" the schedulers
    """

    clocks: float
    waits: float
    pipes: dict[str, float]


class Schedule(NamedTuple):
    """Work outside of the main loop, and of one of its iterations; None without a main loop."""

    setup: WarpWork
    iteration: WarpWork | None

    def of_launch(self, iterations: float | None) -> WarpWork | None:
        """Work of a workgroup whose main loop runs `iterations` times; None where that is unknown."""
        if self.iteration is None:
            return self.setup
        if iterations is None:
            return None
        pipes = {
            name: self.setup.pipes.get(name, 0.0) + iterations * self.iteration.pipes.get(name, 0.0)
            for name in dict.fromkeys((*self.setup.pipes, *self.iteration.pipes))
        }
        clocks, waits = (
            once + iterations * each for once, each in zip(self.setup[:2], self.iteration[:2], strict=True)
        )
        return WarpWork(clocks, waits, pipes)


def from_lists(values: Sequence[Any] | None) -> Schedule | None:
    """Return what `json.dumps` made of a schedule."""
    if values is None:
        return None
    setup, iteration = values
    return Schedule(WarpWork(*setup), WarpWork(*iteration) if iteration else None)


# Clocks of a warp's 32 lanes on one scheduler, compute capability 9.0. Lanes per clock: "CUDA C++ Programming Guide",
# "Throughput of Native Arithmetic Instructions"; latencies and rates of conversions: benchmarks/instruction_costs.py.
_FMA, _IMAD = InstructionCost("fp32", 1, 4.3), InstructionCost("fp32", 2, 4.4)
_INTEGER = InstructionCost("integer", 2, 4.4)
_HALF = InstructionCost("fp16", 2, 5.3)
_CONVERSION = InstructionCost("conversion", 8, 17.5)
_UNIFORM = InstructionCost("uniform", 2, 6)
_SHUFFLE = InstructionCost("load/store", 1, 24)
_SHARED_LATENCY, _CONSTANT_LATENCY, _BARRIER = 30, 30, 14
_COSTS = {
    **dict.fromkeys(("FFMA", "FMUL", "FADD"), _FMA),
    "IMAD": _IMAD,
    **dict.fromkeys(("HFMA2", "HMUL2", "HADD2"), _HALF),
    **dict.fromkeys(("F2F", "I2F", "F2I", "MUFU", "FRND"), _CONVERSION),
    **dict.fromkeys(("LDC", "ULDC", "S2R", "S2UR"), InstructionCost("uniform", 2, _CONSTANT_LATENCY)),
    "R2UR": InstructionCost("uniform", 2, 12),
}
_MMA = InstructionCost("matrix", 8, 33)
_MMA_DRAIN = 30
"""Clocks from the last product of a warpgroup instruction to its result."""

_REGISTER = re.compile(r"\b(U?R\d+|U?P\d)\b")
_TRAILING = re.compile(r"0x([0-9a-f]+)\s*$")
_WIDTHS = {"64": 2, "128": 4, "256": 8}
_MEMORY = (OpKind.LOAD, OpKind.ATOMIC)
_NO_RESULT = (OpKind.STORE, OpKind.LDS_STORE, OpKind.BRANCH, OpKind.SYNC)


@dataclass(frozen=True, slots=True)
class _Step:
    """One instruction as the schedule sees it; `shared` pipes serve all schedulers of the multiprocessor."""

    name: str
    cost: InstructionCost
    sources: tuple[str, ...]
    results: tuple[str, ...]
    shared: bool
    answers: bool
    waits_for: int | None


def schedule(code: Disassembly, arch: str, warps: int, loop_rank: int = 0) -> Schedule | None:
    """Schedule a workgroup of `warps` warps; None for architectures whose instructions' costs are unknown.

    loop_rank  as in `main_loop`; without such a loop the result is None, and code that excludes it is not counted
    """
    body = main_loop(code, loop_rank)
    if arch != "sm90" or (loop_rank and not body):
        return None
    inside = {id(one) for one in body}
    run = with_loop(code, body) if body else code.instructions
    setup = [_step(one) for one in run if id(one) not in inside]
    return Schedule(_work(setup, warps), _work([_step(one) for one in body], warps, repeats=REPEATS) if body else None)


def _work(steps: Sequence[_Step], warps: int, repeats: int = 1) -> WarpWork:
    """Account for one pass over `steps`; of several, for one of the later half, when what is in flight has settled."""
    per_scheduler = max(1, warps // SCHEDULERS)
    users = min(warps, SCHEDULERS)
    taken = []
    for latency in LATENCIES:
        ends = _run(steps, per_scheduler, users, repeats, latency)
        half = repeats // 2
        taken.append((ends[-1] - ends[half - 1]) / half if half else ends[-1])
    waits = max(0.0, (taken[1] - taken[0]) / (LATENCIES[1] - LATENCIES[0]))
    pipes: dict[str, float] = defaultdict(float)
    for step in steps:
        # a workgroup of fewer warps than schedulers leaves the pipes of the others to its neighbours
        share = 1.0 if _is_warpgroup(step.name) else per_scheduler * (1.0 if step.shared else users / SCHEDULERS)
        pipes[step.cost.pipe] += _occupied(step, users) * share
    pipes["issue"] = len(steps) * per_scheduler * users / SCHEDULERS
    return WarpWork(max(0.0, taken[0] - waits * LATENCIES[0]), waits, dict(pipes))


def _occupied(step: _Step, users: int) -> float:
    """Clocks of its pipe, seen from one scheduler: the others of `users` that have warps use a shared one as much."""
    return step.cost.busy * (users if step.shared else 1)


class _Warp:
    def __init__(self) -> None:
        self.position = 0
        self.next = 0.0
        self.ready: dict[str, float] = {}
        self.open_copies = 0.0
        self.copies: list[float] = []
        self.products: list[float] = []
        self.at_barrier = False

    def earliest(self, step: _Step) -> float:
        """Clock from which the operands of `step`, and what it waits for, are there."""
        times = [self.next, *(self.ready.get(name, 0.0) for name in (*step.sources, *step.results))]
        if step.waits_for is not None:
            pending = self.copies if step.name == "DEPBAR" else self.products
            times += pending[: len(pending) - step.waits_for]
        return max(times)

    def issue(self, step: _Step, clock: float, result: float) -> None:
        """Go on to the next instruction."""
        self.position += 1
        self.next = clock + 1
        self.ready.update(dict.fromkeys(step.results, result))
        if step.name == "LDGSTS":
            self.open_copies = max(self.open_copies, result)
        elif step.name == "LDGDEPBAR":
            self.copies = [*self.copies[-7:], self.open_copies]
        elif _is_warpgroup(step.name):
            self.products = [*self.products[-15:], result]


def _run(steps: Sequence[_Step], count: int, users: int, repeats: int, latency: float) -> list[float]:
    """Return when the slowest warp is through with each repetition of `steps`.

    Each of `users` schedulers has `count` warps.
    """
    if not steps:
        return [0.0] * repeats
    warps = [_Warp() for _ in range(count)]
    free: dict[str, float] = defaultdict(float)
    ends, clock, total = [0.0] * repeats, 0.0, len(steps) * repeats
    while waiting := [warp for warp in warps if warp.position < total]:
        running = [warp for warp in waiting if not warp.at_barrier]
        if not running:
            last = max(warp.next for warp in waiting) + _BARRIER
            for warp in waiting:
                warp.at_barrier, warp.next = False, last
            continue
        earliest, warp = min(((one.earliest(steps[one.position % len(steps)]), one) for one in running), key=_first)
        step = steps[warp.position % len(steps)]
        clock = max(clock, earliest)
        start = max(clock, free[step.cost.pipe])
        free[step.cost.pipe] = start + _occupied(step, users)
        warp.issue(step, clock, start + (latency if step.answers else step.cost.latency))
        warp.at_barrier = step.name == "BAR"
        clock += 1
        if warp.position % len(steps) == 0:
            done = warp.position // len(steps) - 1
            ends[done] = max(ends[done], warp.next)
    if repeats == 1:
        ends[0] = max(ends[0], *(max(warp.ready.values(), default=0.0) for warp in warps))
    return ends


def _first(pair: tuple[float, _Warp]) -> float:
    return pair[0]


def _is_warpgroup(name: str) -> bool:
    """Whether it is a product of four warps, which all four schedulers make at once and which completes later."""
    return name.endswith("GMMA")


def _step(one: Instruction) -> _Step:
    """Read what an instruction needs, writes and costs."""
    guard, _, text = one.text.rpartition(f"{one.opcode} ")
    name, *modifiers = one.opcode.split(".")
    operands = [operand.strip() for operand in text.split(",")]
    width = next((_WIDTHS[word] for word in modifiers if word in _WIDTHS), 1)
    if name == "LDSM":
        width = int(modifiers[-1]) if modifiers[-1].isdigit() else 1
    results: list[str] = []
    sources = _REGISTER.findall(guard)
    writes = one.kind not in _NO_RESULT and name != "LDGSTS" and not _is_warpgroup(name)
    for position, operand in enumerate(operands):
        found = _REGISTER.findall(operand)
        if writes and found and (position == 0 or (position == 1 and operand == found[0] and "P" in operand)):
            results += _wide(found[0], _registers(one, name, modifiers, width)) if position == 0 else found
        elif not (_is_warpgroup(name) and position == 0):
            sources += found
    waits = _TRAILING.search(text) if name in ("DEPBAR", "WARPGROUP") and "LE" in modifiers else None
    return _Step(
        name=name,
        cost=_cost(one, name, modifiers, width),
        sources=tuple(dict.fromkeys(sources)),
        results=("memory",) if _is_fence(name, modifiers) else tuple(results),
        shared=one.kind in (*_MEMORY, OpKind.STORE, OpKind.LDS_LOAD, OpKind.LDS_STORE, OpKind.SHUFFLE, OpKind.SCRATCH),
        answers=one.kind in _MEMORY or _is_fence(name, modifiers),
        waits_for=int(waits[1], 16) if waits else None,
    )


def _is_fence(name: str, modifiers: Sequence[str]) -> bool:
    return name == "MEMBAR" and "GPU" in modifiers


def _registers(one: Instruction, name: str, modifiers: Sequence[str], width: int) -> int:
    """Registers that an instruction writes from its first operand on."""
    if one.kind is OpKind.MATRIX:
        return 4
    if one.kind in (OpKind.LOAD, OpKind.LDS_LOAD, OpKind.SCRATCH):
        return width
    return 2 if "WIDE" in modifiers or name == "CS2R" else 1


def _wide(register: str, count: int) -> list[str]:
    prefix = register.rstrip("0123456789")
    if prefix.endswith("P"):
        return [register]
    return [f"{prefix}{int(register[len(prefix) :]) + offset}" for offset in range(count)]


def _cost(one: Instruction, name: str, modifiers: Sequence[str], width: int) -> InstructionCost:
    if _is_warpgroup(name):  # 64 rows, and 32 bytes of each operand's row: half a clock per column
        clocks = int(modifiers[0].split("x")[1]) / 2
        return InstructionCost("matrix", clocks, clocks + _MMA_DRAIN)
    if one.kind is OpKind.MATRIX:
        return _MMA
    if one.kind is OpKind.SHUFFLE:
        return _SHUFFLE
    if one.kind in (*_MEMORY, OpKind.STORE, OpKind.LDS_LOAD, OpKind.LDS_STORE, OpKind.SCRATCH):
        return InstructionCost("load/store", width, _SHARED_LATENCY)
    if known := _COSTS.get(name):
        return known
    if one.kind in (OpKind.BRANCH, OpKind.SYNC, OpKind.OTHER):
        return InstructionCost("control", 1, 1)
    return _UNIFORM if name.startswith("U") else _INTEGER

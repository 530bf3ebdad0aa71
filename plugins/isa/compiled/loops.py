"""Loops of machine code: blocks of instructions, which of them dominate which, and the loop that does the work.

Natural loops (Aho, Lam, Sethi, Ullman, "Compilers", section 9.6): a jump back to a block that is on every path to the
jump makes a loop of that block and all from which the jump can be reached without it. Labels and jumps alone would not
do: compilers place waits for a barrier behind the kernel's end, and jump back from there.
"""

from collections.abc import Iterator, Sequence

from .code import Disassembly, Instruction, OpKind

Indices = frozenset[int]
"""Indices of instructions."""


def loops(code: Disassembly) -> list[Indices]:
    """Return the instructions of every loop, in the order of their first blocks."""
    starts = _block_starts(code)
    successors = [list(_successors(code, starts, number)) for number in range(len(starts))]
    dominators = _dominators(successors)
    bodies: dict[int, set[int]] = {}
    for source, after in enumerate(successors):
        for header in after:
            if dominators[source] >> header & 1:
                bodies.setdefault(header, {header}).update(_body(header, source, successors))
    ends = [*starts[1:], len(code.instructions)]
    return [
        frozenset(index for block in blocks for index in range(starts[block], ends[block]))
        for _, blocks in sorted(bodies.items())
    ]


def main_loop(code: Disassembly, loop_rank: int = 0) -> list[Instruction]:
    """Return the instructions of the main loop, none where the code has no loop that loads or multiplies.

    Of the loops with matrix instructions (without any: of those that load from memory), the innermost ones count, that
    is those without another one inside; so neither the tiles of a persistent kernel are taken for the main loop, nor a
    wait for a barrier inside of it. Among them, the one with most matrix instructions, then with most bytes loaded
    per lane, then the longest; or the one with that rank among them, 0 for the first.
    """
    found = loops(code)
    for wanted in (OpKind.MATRIX, OpKind.LOAD):
        working = [body for body in found if any(code.instructions[index].kind is wanted for index in body)]
        innermost = [body for body in working if not any(other < body for other in working)]
        if innermost:
            bodies = [[code.instructions[index] for index in sorted(body)] for body in innermost]
            return sorted(bodies, key=_weight, reverse=True)[loop_rank] if loop_rank < len(bodies) else []
    return []


def with_loop(code: Disassembly, body: Sequence[Instruction]) -> list[Instruction]:
    """Return the instructions from which the loop `body` can be reached, or that can be reached from it."""
    starts, inside = _block_starts(code), {id(one) for one in body}
    edges = [(before, after) for before in range(len(starts)) for after in _successors(code, starts, before)]
    loop = {number for number, start in enumerate(starts) if id(code.instructions[start]) in inside}
    kept = _reached(loop, edges) | _reached(loop, [(after, before) for before, after in edges])
    ends = [*starts[1:], len(code.instructions)]
    return [code.instructions[index] for number in sorted(kept) for index in range(starts[number], ends[number])]


def _reached(blocks: set[int], edges: Sequence[tuple[int, int]]) -> set[int]:
    found = set(blocks)
    while fresh := {after for before, after in edges if before in found} - found:
        found |= fresh
    return found


def _weight(body: list[Instruction]) -> tuple[int, int, int]:
    matrix = sum(one.kind is OpKind.MATRIX for one in body)
    return matrix, sum(one.bytes for one in body if one.kind is OpKind.LOAD), len(body)


def _block_starts(code: Disassembly) -> list[int]:
    """Indices of the first instructions of all blocks, rising; 0 first."""
    size = len(code.instructions)
    targets = {code.labels[one.target] for one in code.instructions if one.target in code.labels}
    after_jumps = {index + 1 for index, one in enumerate(code.instructions) if one.target or not one.falls_through}
    return sorted(index for index in {0} | targets | after_jumps if index < size)


def _successors(code: Disassembly, starts: Sequence[int], number: int) -> Iterator[int]:
    """Blocks that may run after block `number`."""
    end = starts[number + 1] if number + 1 < len(starts) else len(code.instructions)
    last = code.instructions[end - 1] if end else None
    if last is None:
        return
    if last.falls_through and number + 1 < len(starts):
        yield number + 1
    target = code.labels.get(last.target, len(code.instructions))
    if target < len(code.instructions):
        yield starts.index(target)


def _dominators(successors: Sequence[Sequence[int]]) -> list[int]:
    """Per block the set of blocks on every path to it from the first, itself included, as bits; 0 if out of reach."""
    predecessors: list[list[int]] = [[] for _ in successors]
    for source, after in enumerate(successors):
        for block in after:
            predecessors[block].append(source)
    found = [0] * len(successors)
    if found:
        found[0] = 1
    changed = True
    while changed:
        changed = False
        for block in range(1, len(successors)):
            known = [found[one] for one in predecessors[block] if found[one]]
            if not known:
                continue
            shared = known[0]
            for one in known[1:]:
                shared &= one
            if (shared | 1 << block) != found[block]:
                found[block], changed = shared | 1 << block, True
    return found


def _body(header: int, source: int, successors: Sequence[Sequence[int]]) -> set[int]:
    """Blocks from which `source` can be reached without passing `header`, and `source`."""
    body, open_ends = {header, source}, [source] if source != header else []
    while open_ends:
        block = open_ends.pop()
        for before, after in enumerate(successors):
            if block in after and before not in body:
                body.add(before)
                open_ends.append(before)
    return body

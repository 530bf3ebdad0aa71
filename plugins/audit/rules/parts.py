"""A part that takes longer than its whole: a kernel longer than the call around it, a pass longer than the step."""

from collections.abc import Iterator
from dataclasses import dataclass

from ..evidence.context import Case, Rule
from ..evidence.finding import Finding, Need
from ..evidence.rates import PrintedRate, cells_of
from ..reading.annotated_table import AnnotatedColumn, ColumnRole, Sheet
from ..reading.words import passes_in, words_of

WHOLES = {
    "kernel": {"fwd", "total", "step"},
    "fwd": {"step"},
    "bwd": {"step"},
    "dgrad": {"bwd", "step"},
    "wgrad": {"bwd", "step"},
}
"""Part: what contains it."""

TOTALS = frozenset(("total", "e2e", "end-to-end", "wrapper", "call"))

PARTS = frozenset(("kernel", "kernels"))


@dataclass(frozen=True, slots=True)
class _Timed:
    sheet: Sheet
    column: AnnotatedColumn
    stage: str
    cells: dict[tuple[object, ...], PrintedRate]


def check(case: Case) -> Iterator[Finding]:
    """Compare all columns of times whose stages contain each other, of one side, at the same sizes."""
    timed = [one for sheet in case.sheets for column in sheet.of(ColumnRole.TIME) if (one := _timed(sheet, column))]
    for part in timed:
        for whole in timed:
            if whole.stage in WHOLES.get(part.stage, ()) and _side(part.column) == _side(whole.column):
                yield from _compare(part, whole)
    for sheet in case.sheets:
        yield from _between(sheet)


def _between(sheet: Sheet) -> Iterator[Finding]:
    """Rates of a step that lie outside of those of its passes, whatever the FLOPs of each."""
    sides: dict[tuple[object, ...], dict[str, AnnotatedColumn]] = {}
    for column in sheet.of(ColumnRole.RATE):
        sides.setdefault((column.side, *column.fixed.items()), {})[column.pass_] = column
    for passes in sides.values():
        if not {"fwd", "bwd", "step"} <= passes.keys():
            continue
        fwd, bwd, step = (passes[name] for name in ("fwd", "bwd", "step"))
        if fwd.unit != step.unit or bwd.unit != step.unit:
            continue
        for row, (one, other, both) in sheet.spans(fwd, bwd, step):
            if both.high < min(one.low, other.low) or both.low > max(one.high, other.high):
                message = (
                    f"{step.name} {sheet.quoted(row, step)} does not lie between {fwd.name} {sheet.quoted(row, fwd)} "
                    f"and {bwd.name} {sheet.quoted(row, bwd)}"
                )
                yield RULE.at(sheet, row, message, step)


def stage_of(sheet: Sheet, column: AnnotatedColumn) -> str:
    """Return what a column times: kernel, total or a pass, by its header, else by the title; "" when unclear."""
    for text in (column.name, sheet.titled.title.partition(":")[0]):
        words = words_of(text.replace("-only", " only"))
        found = {*passes_in(words)}
        if set(words) & PARTS:
            found.add("kernel")
        if set(words) & TOTALS:
            found.add("total")
        if found:
            return found.pop() if len(found) == 1 else ""
    return ""


def _side(column: AnnotatedColumn) -> str:
    return " ".join(word for word in column.side.split() if word not in PARTS | TOTALS)


def _timed(sheet: Sheet, column: AnnotatedColumn) -> _Timed | None:
    stage = stage_of(sheet, column)
    if not stage:
        return None
    cells: dict[tuple[object, ...], PrintedRate] = {}
    for cell in cells_of(sheet, column):
        sizes = tuple(sorted(sheet.sizes(cell.row, column).items()))
        types = tuple(sheet.text(cell.row, one) for one in sheet.of(ColumnRole.DTYPE, ColumnRole.DEVICE))
        device = sheet.setting_at(cell.row, column).device
        cells.setdefault((sizes, types, device and device.name), cell)
    return _Timed(sheet, column, stage, cells) if cells else None


def _compare(part: _Timed, whole: _Timed) -> Iterator[Finding]:
    for key, cell in part.cells.items():
        around = whole.cells.get(key)
        if around is None or cell.time.low <= around.time.high:
            continue
        elsewhere = whole.sheet.titled.table.where != part.sheet.titled.table.where
        place = f"{whole.sheet.titled.table.where} line" if elsewhere else "line"
        message = (
            f"{part.column.name} {part.sheet.quoted(cell.row, part.column)} ({_NAMES[part.stage]}) is longer than "
            f"{whole.column.name} {whole.sheet.quoted(around.row, whole.column)} ({_NAMES[whole.stage]}) of the same "
            f"sizes, {place} {whole.sheet.line(around.row)}"
        )
        yield RULE.at(part.sheet, cell.row, message, part.column, part_s=cell.time_s, whole_s=around.time_s)


_NAMES = {
    "kernel": "the kernel alone",
    "fwd": "the forward pass",
    "bwd": "the backward pass",
    "dgrad": "the gradient of the input",
    "wgrad": "the gradient of the weight",
    "total": "the whole call",
    "step": "forward and backward",
}

RULE = Rule(
    "part-above-whole",
    "a part (a kernel, a pass) takes longer than what contains it at the same sizes, or a rate of both passes is not "
    "between theirs",
    "measure both in one run, in turn; different clocks, caches or inputs make such tables incomparable",
    check,
    ((Need.TIMES, Need.RATES),),
)

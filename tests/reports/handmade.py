"""A small report written by hand, every number known, for tests of the renderers."""

import math

from rooflens.reports import formatting as fmt
from rooflens.reports.figures.axes import decade_axis, m_axis
from rooflens.reports.figures.chart import Chart, CrossoverSpan, Figure, LegendEntry, Point, Roof, Series
from rooflens.reports.model import (
    Bullets,
    CodeBlock,
    Column,
    KeyNumber,
    KeyNumbers,
    Report,
    Scale,
    Section,
    Table,
    TableCell,
    Text,
    Tone,
)

OOM = "out of memory: 3 GiB asked, 1 GiB free"
TIE = "the interval includes 1"


def ratio_cell(value: float, **more: object) -> TableCell:
    return TableCell(fmt.ratio(value), value, math.log2(value), **more)  # type: ignore[arg-type]


def grid(table_id: str = "grid", detail: bool = False) -> Table:
    columns = (
        Column("shape", is_text=True),
        Column("M=1", scale=Scale.DIVERGING),
        Column("M=8", scale=Scale.DIVERGING),
    )
    rows = (
        (TableCell("llama2-7b gate/up"), ratio_cell(44.8), ratio_cell(1.08, tone=Tone.UNDECIDED, note=TIE)),
        (TableCell("a|b <script>alert(1)</script>"), ratio_cell(0.43), TableCell("oom", tone=Tone.FAILED, note=OOM)),
        (TableCell("NA"), ratio_cell(1.0), TableCell("oom", tone=Tone.FAILED, note=OOM)),
    )
    reading = "dequant_blas ÷ simt_4bit (time), > 1: simt_4bit is faster"
    return Table(table_id, "simt_4bit <b>&</b> friends", columns, rows, reading=reading, detail=detail, key=True)


def chart(title: str = "llama2-7b gate/up") -> Chart:
    line = Series(
        "simt_4bit",
        1,
        (Point(1, 10e-6, "first", "M=1"), Point(8, 20e-6, "last")),
        band=((1, 9e-6, 11e-6), (8, 19e-6, 22e-6)),
    )
    return Chart(
        title=title,
        x=m_axis([1, 2, 4, 8]),
        y=decade_axis(5e-6, 50e-6, fmt.tick_time, "time"),
        series=(line, Series("dequant_blas", 0, (Point(1, 40e-6), Point(8, 15e-6)))),
        roofs=(Roof("floor 6 µs (measured)", 1, 6e-6, 8, 6e-6), Roof("spec", 1, 6e-6, 8, 9e-6, measured=False)),
        spans=(CrossoverSpan("simt_4bit", 1, 4.0, 2.0, 8.0),),
        corner="M~4",
        alt=f"{title}: simt_4bit is faster up to M~4",
    )


def figure(figure_id: str = "panels", panels: int = 3, detail: bool = False) -> Figure:
    return Figure(
        figure_id,
        "Time against M",
        tuple(chart(f"shape {number}") for number in range(panels)) if panels > 1 else (chart(),),
        how_to_read="Lower is faster.",
        alt="simt_4bit is faster at small M",
        legend=(LegendEntry("dequant_blas", 0), LegendEntry("simt_4bit", 1)),
        multiples=panels > 1,
        detail=detail,
    )


def report() -> Report:
    headline = KeyNumbers(
        (
            KeyNumber("best speedup", "44.80×", "llama2-7b gate/up, M=1", 44.8, note=TIE),
            KeyNumber("what binds", "75% dram", "of 4 cells", 0.75),
        )
    )
    return Report(
        "A report | of <everything>",
        (("run", "r-1"), ("device", "Planted & tested")),
        (
            Section("headline", "Headline", (headline,)),
            Section(
                "grids",
                "Speedup",
                (Text("One grid per provider.", note=OOM), grid()),
                (Section("more", "More grids", (grid("grid-2", detail=True),), folded=True),),
            ),
            Section("figures", "Figures", (figure(), figure("single", 1))),
            Section("end", "Reproduce", (CodeBlock("rooflens run 'x y'"), Bullets(("first *item*", "second")))),
        ),
        generator="rooflens test",
        source="runs/r-1",
    )

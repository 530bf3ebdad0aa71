"""`rooflens audit`: check the numbers of a published table."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...cli.shared.tables import note, show
from ...reports.render.visible import visible
from ...shapes.errors import CorrectnessError, IncompleteError, UsageError
from ...shapes.files.file_text import opened, read_content

if TYPE_CHECKING:
    from ...analysis.imports.table import ImportedTable
    from .audit import Audit
    from .evidence.assumptions import Assumptions

LARGEST = 4 << 20
"""Bytes of a text that is read: some forty thousand rows."""

_BITS = click.FloatRange(0, min_open=True)


@click.command()
@click.argument("tables", metavar="[TABLE]...", nargs=-1)
@click.option("--device", metavar="NAME", help="Device that was measured: MI300X, H200, gfx1201; for its peaks.")
@click.option("--op", default="gemm", metavar="OP", help="gemm, grouped_gemm or moe_gemm (default: gemm).")
@click.option("--pass", "pass_", default="", metavar="PASS", help="fwd, bwd, dgrad, wgrad or step, if no header says.")
@click.option("--dtype", default="", metavar="TYPE", help="Type that multiplies: bf16 where weights are decoded.")
@click.option("--M-is", "m_is", default="", metavar="WHAT", help="M counts rows of all experts: total; or per_expert.")
@click.option("--weight-bits", default=4, type=_BITS, metavar="N", help="Bits per weight (4).")
@click.option("--activation-bits", default=8, type=_BITS, metavar="N", help="Per activation (8).")
@click.option("--column", "columns", multiple=True, metavar="ROLE=NAME", help="Say what a column is; repeat it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, in seconds and FLOP/s.")
@click.option("--markdown", metavar="FILE", help="Write a review comment; - for stdout.")
@click.option("--strict", is_flag=True, help="Exit with 5 if a number cannot be right, with 4 if one is doubtful.")
def audit(
    tables: tuple[str, ...], columns: tuple[str, ...], as_json: bool, markdown: str | None, strict: bool, **numbers: Any
) -> None:
    """Check a published table for numbers that cannot be right.

    TABLE is a CSV, the JSON of a benchmark, or a text with tables in it: markdown, or aligned as pandas and
    reStructuredText print them; - is stdin. What stands around the tables is not checked. All tables of all texts are
    audited together. What each column is is guessed from its header and cells and printed; --column corrects it (roles:
    M N K B E top_k time_s time_ms time_us time_ns tflops gflops gbs throughput speedup change reduction gain
    percent_of_peak dtype device id label ignore; a side after a colon, as in time_ms:old=NAME).

    \b
    Examples:
      rooflens audit results.csv --device MI300X --dtype bf16
      rooflens audit pull-request.md --device H200 --op grouped_gemm --M-is total
      rooflens audit table.txt --device MI350X --column "time_us=Kernel" --strict
    """
    from ...analysis.imports.columns import Override
    from ...cli.shared.output import print_json, write_text
    from .audit import audit as run
    from .output import as_record, review_comment, section

    if not tables:
        raise UsageError("nothing to audit: give a TABLE, or - for stdin")
    setting = _setting(**numbers)
    result = run(_tables(tables), setting, [Override.parse(text) for text in columns])
    if as_json:
        print_json(as_record(result, setting))
    elif markdown == "-":
        click.echo(review_comment(result, setting), nl=False)
    else:
        show(section(result, setting))
    if markdown and markdown != "-":
        write_text(Path(markdown), visible(review_comment(result, setting)), "--markdown")
        note(f"wrote {markdown}")
    if strict:
        _judge(result)


def _setting(device: str | None, op: str, m_is: str, **more: Any) -> "Assumptions":
    """Build the setting, with errors that name what is known."""
    from ...analysis.imports.devices import find_device
    from ...shapes.errors import unknown_name
    from ...shapes.problem import Op
    from .evidence.assumptions import PER_EXPERT, TOTAL, Assumptions

    known = [op for op in Op if op is not Op.QUANTIZE]
    if op not in known:
        raise unknown_name("operation", op, list(known))
    m_is = m_is.replace("-", "_")
    if m_is not in ("", TOTAL, PER_EXPERT):
        raise unknown_name("value of --M-is", m_is, [TOTAL, PER_EXPERT])
    return Assumptions(find_device(device) if device else None, op=Op(op), m_is=m_is, **more)


def _tables(names: tuple[str, ...]) -> "list[ImportedTable]":
    from ...analysis.imports.aiconfigurator import by_stack
    from ...analysis.imports.text import tables_in

    if names.count("-") > 1:
        raise UsageError("- stands for stdin, which can be read once; give it once")
    found = []
    for name in names:
        try:
            open_it = (lambda _: sys.stdin.buffer) if name == "-" else opened
            content = read_content(Path(name), "give the part that has the tables", LARGEST, open_it)
        except FileNotFoundError as error:
            raise UsageError(f"TABLE {name}: {error.strerror}; give a readable file, or - for stdin") from None
        tables = tables_in(content, "stdin" if name == "-" else Path(name).name)
        found += [part for table in tables for part in by_stack(table)]
    return found


def _judge(result: "Audit") -> None:
    """Turn findings into an exit code."""
    wrong = sum(finding.severity.is_wrong for finding in result.findings)
    count = len(result.findings)
    if wrong:
        raise CorrectnessError(f"{wrong} of {count} finding{'s' * (count > 1)} cannot be right; correct the numbers")
    if count:
        raise IncompleteError(f"{count} finding{'s' * (count > 1)} in doubt; say what the numbers mean")

"""`rooflens isa`: compile the Triton kernels of a suite for GPUs that need not be present, and describe the code."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...cli.shared.options import FILE, FOLDER, command_with, parameters
from ...cli.shared.output import print_json, write_text
from ...cli.shared.tables import show
from ...shapes import values
from ...shapes.errors import IncompleteError, RegressionError, UsageError, unknown_name
from ...shapes.problem import Pass
from ...shapes.request import Request

if TYPE_CHECKING:
    import pandas as pd

FORMER = {
    "--jobs": "write --set threads=N",
    "--timeout": "write --set build_timeout_s=TIME",
    "--cache": "set ROOFLENS_CACHE",
}


@click.command("isa", cls=command_with(FORMER), params=parameters("isa"))
@click.option("--arch", "arches", metavar="LIST", help="Architectures, such as gfx950,gfx942,sm90; all for every one.")
@click.option("--pass", "passes", metavar="LIST", help="Passes in place of the suite's, such as dgrad,wgrad.")
@click.option("--defaults", is_flag=True, help="Only each provider's default configuration, not all its candidates.")
@click.option("-o", "--output", type=FILE, help="Write isa.csv, a row per binary.")
@click.option("--asm", type=FOLDER, help="Write the assembly of each binary, named by the column code.")
@click.option("--rows", is_flag=True, help="Print a line per binary.")
@click.option(
    "--claim",
    "claims",
    multiple=True,
    metavar="EXPR",
    help="Say for how many binaries this holds, such as 'store_short == 0'; repeat it.",
)
@click.option("--diff", "base", type=FILE, metavar="BASE", help="Say what changed since this isa.csv.")
@click.option("--markdown", type=FILE, help="Write the section for a pull request.")
@click.option(
    "--strict", is_flag=True, help="Exit 3 when a claim does not hold for all, 4 when a kernel did not compile."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def isa(
    arches: str | None,
    passes: str | None,
    defaults: bool,
    output: Path | None,
    asm: Path | None,
    rows: bool,
    claims: tuple[str, ...],
    base: Path | None,
    markdown: Path | None,
    strict: bool,
    as_json: bool,
    **asked: Any,
) -> None:
    """Compile the Triton kernels of SUITE for GPUs that need not be present, and describe the code.

    Every kernel, configuration and specialization of the suite's problems is compiled once per architecture, in child
    processes, as a launch on that GPU would compile it: registers, spills, shared memory, occupancy, and instructions
    by class, of the whole kernel and of its main loop. What an architecture cannot do is a row with its reason.
    SUITE may also be a file of an earlier -o, which is then read instead.

    \b
    Examples:
      rooflens isa llm4bit-quick --arch gfx950,gfx942 -a M=1,16 -o head.csv
      rooflens isa head.csv --claim "store_short == 0" --rows
      rooflens isa head.csv --diff base.csv --markdown isa.md
    """
    from ...analysis.comparison.machine_code import compare
    from . import output as lay_out
    from .claims import check_claim, condition, select, summarize

    request = Request.for_command("isa", asked)
    suite, expression = request.suite or "", request.filter_expression or ""
    names = {"arch": [name for name in values.names(arches) if name != "all"], "provider": request.providers}
    names |= {"dtype": request.dtype, "pass": values.names(passes)}
    if stored := suite.endswith(".csv"):
        for_compiler = {"--axis": request.axes, "--providers": request.files, "--set": request.protocol}
        for flag, given in (for_compiler | {"--defaults": defaults, "--output": output, "--asm": asm}).items():
            if given:
                raise UsageError(f"{flag} says what to compile, but {suite} is compiled: name a suite instead")
        frame = _chosen(_table(Path(suite)), names, suite)
        frame = select(frame, expression) if expression else frame
    else:
        if output and not output.parent.is_dir():
            raise UsageError(f"-o {output}: there is no folder {output.parent}")
        from .compile import compile_suite

        frame = _stored(compile_suite(request, _arches(arches), _passes(passes), defaults, asm), output)
    earlier = _chosen(_table(base), names) if base else None
    if earlier is not None and stored and expression:
        earlier = earlier.loc[condition(earlier, expression, "--filter")]
    summary, checked = summarize(frame), [check_claim(frame, claim) for claim in claims]
    found = (frame, summary, checked, compare(earlier, frame) if earlier is not None else None)
    if markdown:
        from ...reports.render.markdown import render_section

        write_text(markdown, render_section(lay_out.section(*found, binaries=True)), "--markdown")
    if as_json:
        print_json(lay_out.as_record(*found))
    else:
        show(lay_out.section(*found, binaries=rows))
        if output:
            click.echo(f"{len(frame)} rows written to {output}", err=True)
    if strict:
        _be_strict(summary, checked)


def _chosen(frame: "pd.DataFrame", names: Mapping[str, Sequence[str]], where: str = "") -> "pd.DataFrame":
    """Keep the rows with the names that are given for a column.

    Raises UsageError for one that `frame` lacks, where it is told `where` the frame is from.
    """
    for column, wanted in names.items():
        known = list(dict.fromkeys(frame[column]))
        for name in wanted:
            if where and name not in known:
                raise unknown_name(f"{column} of {where}", name, known)
        frame = frame.loc[frame[column].isin(wanted)] if wanted else frame
    return frame


def _table(path: Path) -> "pd.DataFrame":
    from ...analysis.frames.tables import parse_table
    from ...shapes.run_folder.columns_isa import ISA

    try:
        return parse_table(path.read_bytes(), ISA, str(path))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}; write it with rooflens isa SUITE -o {path}") from None


def _stored(rows: Sequence[Mapping[str, Any]], output: Path | None) -> "pd.DataFrame":
    """Write the table, if it is wanted, and read it as anybody would."""
    from ...analysis.frames.tables import parse_table
    from ...harness.storage.tables import fields, replace
    from ...shapes.files.csv_file import csv_text
    from ...shapes.run_folder.columns_isa import ISA

    text = csv_text(ISA.names, [fields(ISA, row) for row in rows])
    if output:
        replace(output, text)
    return parse_table(text.encode(), ISA, str(output or ISA.file))


def _arches(text: str | None) -> tuple[str, ...]:
    from ...kernels.aot import ARCHES, KNOWN_ARCHES, check_arch

    names = values.names(text)
    if not names:
        raise UsageError(f"--arch is missing: name some of {', '.join(KNOWN_ARCHES)}, or all")
    return ARCHES if names == ["all"] else tuple(check_arch(name) for name in names)


def _passes(text: str | None) -> tuple[Pass, ...]:
    names = values.names(text)
    for name in names:
        if name not in list(Pass):
            raise unknown_name("pass", name, list(Pass))
    return tuple(map(Pass, names))


def _be_strict(summary: "pd.DataFrame", claims: "list[pd.DataFrame]") -> None:
    if failed := int(summary["failed"].sum()):
        raise IncompleteError(f"{failed} kernels did not compile: see verdict and reason of --rows")
    for found in claims:
        holds, binaries = int(found["holds"].sum()), int(found["binaries"].sum())
        if holds < binaries or not binaries:
            claim = found["claim"].iloc[0] if binaries else "a claim"
            raise RegressionError(f"{claim!r} holds for {holds} of {binaries} binaries")

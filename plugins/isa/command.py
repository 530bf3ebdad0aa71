"""`rooflens isa`: compile the Triton kernels of a suite for GPUs that need not be present, and describe the code."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...cli.shared.output import print_json, write_text
from ...cli.shared.tables import show
from ...shapes import values
from ...shapes.errors import IncompleteError, RegressionError, UsageError, unknown_name
from ...shapes.problem import Pass
from ...shapes.protocol import MOST

if TYPE_CHECKING:
    import pandas as pd

_PATH = click.Path(path_type=Path, dir_okay=False)

TIMEOUT = "300s"
"""Most time that one kernel may take to compile, unless --timeout says otherwise."""


@click.command("isa")
@click.argument("suite")
@click.option("--arch", "arches", metavar="LIST", help="Architectures, such as gfx950,gfx942,sm90; all for every one.")
@click.option("-p", "--provider", "providers", multiple=True, metavar="NAME", help="Only these; repeat it.")
@click.option("--dtype", metavar="LIST", help="Activation types, such as bf16,fp16.")
@click.option("--pass", "passes", metavar="LIST", help="Passes in place of the suite's, such as dgrad,wgrad.")
@click.option(
    "-a", "--axis", "axes", multiple=True, metavar="AXIS=LIST", help="Values of an axis, such as M=1,16 or M=1,2,4..64."
)
@click.option(
    "--filter", "filter_expression", default="", metavar="EXPR", help="Keep the problems for which this holds."
)
@click.option("--providers", "files", multiple=True, type=_PATH, metavar="FILE", help="Add the kernels of this file.")
@click.option("--defaults", is_flag=True, help="Only each provider's default configuration, not all its candidates.")
@click.option("--timeout", default=TIMEOUT, show_default=True, metavar="TIME", help="Give a kernel up after this.")
@click.option("--jobs", type=click.IntRange(1, MOST), help="Compilers side by side; the default is one per core.")
@click.option(
    "--cache",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Where finished compiles are kept; the default is rooflens/isa in your cache.",
)
@click.option("-o", "--output", type=_PATH, metavar="FILE", help="Write isa.csv, a row per binary.")
@click.option(
    "--asm",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="FOLDER",
    help="Write the assembly of each binary, named by the column code.",
)
@click.option("--rows", is_flag=True, help="Print a line per binary.")
@click.option(
    "--claim",
    "claims",
    multiple=True,
    metavar="EXPR",
    help="Say for how many binaries this holds, such as 'store_short == 0'; repeat it.",
)
@click.option("--diff", "base", type=_PATH, metavar="BASE", help="Say what changed since this isa.csv.")
@click.option("--markdown", type=_PATH, metavar="FILE", help="Write the section for a pull request.")
@click.option(
    "--strict", is_flag=True, help="Exit 3 when a claim does not hold for all, 4 when a kernel did not compile."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def isa(**options: Any) -> None:
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
    stored = options["suite"].endswith(".csv")
    frame = _read(options) if stored else _compile(options)
    base = _chosen(_table(options["base"]), options) if options["base"] else None
    if base is not None and stored and options["filter_expression"]:
        from .claims import condition

        base = base.loc[condition(base, options["filter_expression"], "--filter")]
    _report(frame, base, options)


def _read(options: dict[str, Any]) -> "pd.DataFrame":
    """Load a stored table and keep the rows that the options ask for."""
    from .claims import select

    for name in ("axes", "files", "defaults", "output", "asm"):
        if options[name]:
            option = "-a" if name == "axes" else "--providers" if name == "files" else f"--{name}"
            raise UsageError(f"{option} says what to compile, but {options['suite']} is compiled: name a suite instead")
    frame = _chosen(_table(Path(options["suite"])), options, options["suite"])
    return select(frame, options["filter_expression"]) if options["filter_expression"] else frame


def _chosen(frame: "pd.DataFrame", options: dict[str, Any], where: str = "") -> "pd.DataFrame":
    """Keep the rows of the architectures, providers, types and passes that the options name.

    Raises UsageError for one that `frame` lacks, where it is told `where` the frame is from.
    """
    arches = values.names(options["arches"])
    asked = {
        "arch": [] if arches == ["all"] else arches,
        "provider": options["providers"],
        "dtype": values.names(options["dtype"]),
        "pass": values.names(options["passes"]),
    }
    for column, wanted in asked.items():
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


def _compile(options: dict[str, Any]) -> "pd.DataFrame":
    """Compile what the suite asks for, write the table, and read it back as anybody would."""
    from ...analysis.frames.tables import parse_table
    from ...harness.storage.tables import fields, replace
    from ...shapes.files.csv_file import csv_text
    from ...shapes.run_folder.columns_isa import ISA
    from .compile import compile_suite

    output: Path | None = options["output"]
    if output and not output.parent.is_dir():
        raise UsageError(f"-o {output}: there is no folder {output.parent}")
    rows = compile_suite(options, _arches(options["arches"]), _passes(options["passes"]))
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


def _report(frame: "pd.DataFrame", base: "pd.DataFrame | None", options: dict[str, Any]) -> None:
    """Print and write what was asked for, then be strict where that was asked for."""
    from ...analysis.comparison.machine_code import compare
    from . import output
    from .claims import check_claim, summarize

    summary = summarize(frame)
    claims = [check_claim(frame, claim) for claim in options["claims"]]
    difference = compare(base, frame) if base is not None else None
    found = (frame, summary, claims, difference)
    if options["markdown"]:
        from ...reports.render.markdown import render_section

        write_text(options["markdown"], render_section(output.section(*found, binaries=True)), "--markdown")
    if options["as_json"]:
        print_json(output.as_record(*found))
    else:
        show(output.section(*found, binaries=options["rows"]))
        if options["output"]:
            click.echo(f"{len(frame)} rows written to {options['output']}", err=True)
    if options["strict"]:
        _be_strict(summary, claims)


def _be_strict(summary: "pd.DataFrame", claims: "list[pd.DataFrame]") -> None:
    if failed := int(summary["failed"].sum()):
        raise IncompleteError(f"{failed} kernels did not compile: see verdict and reason of --rows")
    for found in claims:
        holds, binaries = int(found["holds"].sum()), int(found["binaries"].sum())
        if holds < binaries or not binaries:
            claim = found["claim"].iloc[0] if binaries else "a claim"
            raise RegressionError(f"{claim!r} holds for {holds} of {binaries} binaries")

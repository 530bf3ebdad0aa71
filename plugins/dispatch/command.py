"""`rooflens dispatch`: which kernel to run for which problem, what each way to decide costs, and code that decides."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ...cli.shared.options import FILE, FOLDER
from ...cli.shared.output import print_json
from ...cli.shared.runs import find_run
from ...cli.shared.tables import note, show
from ...shapes import values
from ...shapes.errors import UsageError
from ...shapes.files.file_text import read_content
from ...shapes.protocol import MOST

if TYPE_CHECKING:
    from ...analysis.frames.load import RunData
    from ...analysis.statistics.arrays import Ints
    from .policy import Policy
    from .study import Study


FILES = {"csv": "dispatch.csv", "json": "dispatch.json", "python": "dispatch.py"}


@click.command()
@click.argument("run", type=find_run)
@click.option("--incumbent", metavar="B", help="What runs where nothing is better; default: the baseline.")
@click.option(
    *("-p", "--challenger", "challengers"),
    multiple=True,
    metavar="A",
    help="What may run instead; repeat it. Default: every provider but references and those with a rule of their own.",
)
@click.option("--cache", type=click.Choice(("cold", "warm")), help="Cache state to decide by; cold if there is any.")
@click.option("--weights", type=FILE, help="Weigh GEMMs by a CSV with the columns M and weight. Default: all the same.")
@click.option("--margin", default="3%", show_default=True, help="Gain that must be proven before a challenger runs.")
@click.option(
    "--holdout", type=click.Choice(("shape", "model", "round")), help="What the fit must not have seen in a ranking."
)
@click.option(
    "--policy",
    metavar="NAME",
    help="Show or emit this one: threshold, thresholds, table or 'always A'. Default: the simplest whose regret is "
    "within 0.5 % of the least; in a CSV, the table.",
)
@click.option(
    "--against",
    metavar="NAME|FILE",
    help="List the decisions that differ from this: a provider, another policy, or a file of --emit json. Default: the "
    "incumbent everywhere.",
)
@click.option("--emit", multiple=True, type=click.Choice([*FILES]), help="Write the policy; with -o more than one.")
@click.option(
    "-o", "--output", type=FOLDER, help="Folder for dispatch.csv, .json, .py; default: print what --emit asks."
)
@click.option("--rows", type=click.IntRange(0, MOST), default=10, show_default=True, help="Rows of the lists of cases.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON; regret as a difference of ln time, lists in full.")
def dispatch(
    run: Path,
    weights: Path | None,
    margin: str,
    policy: str | None,
    against: str | None,
    emit: tuple[str, ...],
    output: Path | None,
    rows: int,
    as_json: bool,
    **question: Any,
) -> None:
    """Report which kernel to run for which problem, and what each rule costs.

    RUN is the folder of a run, its name under ./runs, or `latest`. Policies from "always A" over one threshold in M to
    a table per shape are fitted to it. Regret is the time that a choice takes beyond the best one's: in the sample,
    and on shapes, models and rounds that the fit has not seen. A challenger runs only where its gain is proven to
    exceed the margin; elsewhere, on other devices and beyond the largest measured M, the incumbent does.

    \b
    Examples:
      rooflens dispatch latest
      rooflens dispatch latest -p simt_4bit -p mma_4bit --weights decode.csv
      rooflens dispatch latest --policy threshold --emit python > choose.py
      rooflens dispatch runs/new -o tuned --against tuned/dispatch.json
    """
    from ...analysis.frames.load import load_run
    from .provenance import provenance
    from .study import Question, study
    from .weights import parse_histogram

    if as_json and emit and not output:
        raise UsageError("--json and --emit both print: give -o DIR for what is emitted, or drop one")
    if len(set(emit)) > 1 and not output:
        raise UsageError(f"--emit {' and '.join(emit)}: one is printed, several need -o DIR")
    data = load_run(run)
    found = study(
        data,
        Question(
            **question,
            margin=values.fraction(margin, "--margin"),
            histogram=parse_histogram(_content(weights, "--weights"), str(weights)) if weights else None,
        ),
    )
    chosen = _policy(found, policy)
    weighing = f"histogram {weights.name}" if weights else "every GEMM the same"
    if emit or output:
        texts = _texts(data, found, policy, weighing, emit)
        if not output:
            for text in texts.values():
                click.echo(text, nl=False)
            return
        _write(texts, output)
    from . import output as form

    facts = provenance(data, found, chosen.name, weighing)
    shown = (found, chosen, facts, _before(found, against), against or found.timings.incumbent)
    if as_json:
        print_json(form.record(*shown))
    else:
        show(form.section(*shown, rows))


def _policy(found: "Study", name: str | None) -> "Policy":
    from ...shapes.errors import unknown_name

    names = [one.name for one in found.scored if one.policy]
    if name and name not in names:
        raise unknown_name("policy", name, names)
    return found.policy(name or found.recommended)


def _before(found: "Study", against: str | None) -> "Ints":
    """Decisions to compare with: of a file that was emitted, or of what the study knows by name."""
    from .emit_json import parse_policy
    from .policy import choices
    from .study import chosen_by

    if against and Path(against).is_file():
        earlier = parse_policy(_content(Path(against), "--against"), against)
        if earlier.arch != found.arch:
            raise UsageError(f"--against {against}: it is for {earlier.arch}, and this run is of {found.arch}")
        named = dict.fromkeys([*(entry.arm for entry in earlier.entries), earlier.incumbent])
        if absent := [name for name in named if name not in found.timings.arms]:
            known = earlier.incumbent if earlier.incumbent not in absent else found.timings.incumbent
            note(f"--against {against}: no arm here is {', '.join(absent)}; counted as {known}")
        return choices(earlier, found.timings)
    return chosen_by(found, against or found.timings.incumbent)


def _content(path: Path, option: str) -> bytes:
    try:
        return read_content(path, "give another file")
    except FileNotFoundError as error:
        raise UsageError(f"{option} {path}: {error.strerror}") from None


def _texts(run: "RunData", found: "Study", policy: str | None, weighing: str, emit: tuple[str, ...]) -> dict[str, str]:
    """Emit in the forms that are asked for; without any, in all that can hold the policy.

    Without a `policy`, a CSV has the table, whose shape it is, and the others the recommended one.
    """
    from .emit_csv import emit_csv, refusal
    from .emit_json import emit_json
    from .emit_python import emit_python
    from .fit import TABLE
    from .policy import Policy
    from .provenance import Provenance, provenance

    emitters: dict[str, Callable[[Policy, Provenance], str]] = {
        "csv": lambda chosen, facts: emit_csv(chosen, found.timings, facts),
        "json": emit_json,
        "python": emit_python,
    }
    texts: dict[str, str] = {}
    for form in dict.fromkeys(emit or FILES):
        if form == "csv" and not emit and (why := refusal(found.timings)):
            note(f"no {FILES[form]}: {why}")
            continue
        chosen = found.policy(policy or (TABLE if form == "csv" else found.recommended))
        texts[form] = emitters[form](chosen, provenance(run, found, chosen.name, weighing))
    return texts


def _write(texts: dict[str, str], folder: Path) -> None:
    from ...reports.write import write_bytes

    for form, text in texts.items():
        write_bytes(folder / FILES[form], text.encode("utf-8"))
        click.echo(f"written: {folder / FILES[form]}", err=True)

"""Where a comparison comes from: commits and files, runs and hashes, what limits it; and the digest to commit."""

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from ....analysis.comparison.effects import Status
from ....analysis.comparison.identity import Identity, Version
from ....analysis.comparison.parts import GROUP, leading, parts
from ....analysis.comparison.result import Result
from ....analysis.comparison.unverified import find_duplicates
from ....analysis.frames.load import UPSTREAM, RunData
from ... import formatting as fmt
from ...model import Bullets, Cells, CodeBlock, Column, Section, Table, TableCell, Text, table
from ...render.plain import to_ascii
from ..conditions.context import shell
from .suite import mean_rates
from .words import SIDES, Places, mean_change, problems, told

MOST_FILES = 50

MOST_LINES = 12
"""Of the digest; where there are more parts, only those that lead."""

_BUILD = ("Makefile", "Dockerfile", "setup.py", "CMakeLists.txt")


def identity(result: Result) -> Section:
    """Say what was compared: commits where git told them, runs where there are any, and how many cases of what."""
    rows: list[Cells] = [{"item": name, "value": value} for name, value in _facts(result) if value]
    listed = table("compared-identity", "What was compared", rows)
    scope = tuple(_scope(result))
    blocks = (listed, *_files(result.identity), *((Bullets(scope),) if scope else ()))
    return Section("compared-identity-chapter", "Compared versions", blocks)


def _facts(result: Result) -> Iterator[tuple[str, str]]:
    told_by_git = result.identity
    if told_by_git is not None:
        if told_by_git.head.name:
            yield "branch", told_by_git.head.name
        yield "base", _commit(told_by_git.base, with_name=True)
        yield "head", _commit(told_by_git.head, with_name=False)
        if told_by_git.commits is not None:
            yield "commits", f"{told_by_git.commits} in head that base does not have"
        if told_by_git.files is not None:
            files = fmt.plural(len(told_by_git.files), "file")
            yield "changed", f"{files}, +{told_by_git.added} / {fmt.MINUS}{told_by_git.removed} lines"
    else:
        yield from zip(SIDES, (result.base.label, result.head.label), strict=True)
    runs = [result.runs[side] for side in SIDES if side in result.runs]
    if runs:
        yield "suite", _both(run.manifest.suite for run in runs)
        yield "device", _both(_device(run) for run in runs)
    yield "cases", _cases(result)
    said = {name: list(dict.fromkeys(map(str, result.effects.cases[name]))) for name in GROUP}
    names = {name: name if len(values) == 1 else f"{name}s" for name, values in said.items()}
    yield "measured", "; ".join(f"{names[name]} {', '.join(values)}" for name, values in said.items())


def _commit(version: Version, with_name: bool) -> str:
    name = f"{version.name} @ " if with_name and version.name else ""
    subject = f" ({version.subject})" if version.subject else ""
    return f"{name}{version.commit[:12]}{subject}"


def _device(run: RunData) -> str:
    arch = f" ({run.device.arch})" if run.device.arch else ""
    return f"{run.device.name or 'unnamed'}{arch}"


def _both(values: Iterator[str]) -> str:
    """One text for both sides, or both with an arrow."""
    return " → ".join(dict.fromkeys(values))


def _cases(result: Result) -> str:
    """Count the problems, and what each was measured in: "84 problems of 7 models, in fwd and bwd"."""
    cases = result.effects.cases
    models = cases["model"].nunique()
    passes = ", ".join(dict.fromkeys(map(str, cases["pass"])))
    compared = result.count_of(Status.COMPARED)
    return (
        f"{fmt.plural(problems(cases), 'problem')} of {fmt.plural(models, 'model')} ({passes}): {len(cases)} cases, "
        f"{compared} of them pass in both versions"
    )


def _files(found: Identity | None) -> Iterator[Table]:
    if found is None or not found.files:
        return
    ranked = sorted(found.files, key=lambda file: (-(file[1] or 0) - (file[2] or 0), file[0]))
    rows: list[Cells] = [
        {
            "file": path,
            Column("lines added"): "binary" if added is None else TableCell(f"+{added}", added),
            Column("lines removed"): "" if removed is None else TableCell(f"{fmt.MINUS}{removed}", removed),
            "role": _role(path, found.command),
        }
        for path, added, removed in ranked[:MOST_FILES]
    ]
    more = f" The other {len(ranked) - MOST_FILES} are not listed." if len(ranked) > MOST_FILES else ""
    reading = f"Between the two commits, as they were measured; most lines first.{more}"
    yield table("compared-files", "Files that differ", rows, reading, detail=len(rows) > 8)


def _role(path: str, command: Sequence[str]) -> str:
    """Say what a file is for, by its path."""
    file = PurePosixPath(path)
    names = {part.lower() for part in file.parts}
    if path in command:
        return "providers of this comparison"
    if names & {"test", "tests"} or file.name.startswith("test_") or file.stem.endswith("_test"):
        return "tests"
    if names & {"bench", "benchmark", "benchmarks"}:
        return "benchmark"
    if names & {"doc", "docs"} or file.suffix in (".md", ".rst", ".txt"):
        return "documentation"
    if file.suffix in (".toml", ".cfg", ".yml", ".yaml", ".lock", ".cmake") or file.name in _BUILD:
        return "build and settings"
    return "source"


def _scope(result: Result) -> Iterator[str]:
    """Say which measured providers the change touches, by the hashes of their source files.

    That of an adapter does not cover the project whose kernels it calls.
    """
    if len(result.runs) < len(SIDES):
        return
    base, head = (result.runs[side].manifest.providers for side in SIDES)
    common = [name for name in base if name in head and base[name].source and head[name].source]
    touched = [name for name in common if base[name].source != head[name].source]
    same = [name for name in common if name not in touched]
    adapters = [name for name in same if head[name].role == UPSTREAM]
    others = [name for name in same if name not in adapters]
    if touched:
        yield f"in scope, their source differs: {', '.join(touched)}"
    if others:
        yield f"out of scope, the source of these providers is the same in both versions: {', '.join(others)}"
    if adapters:
        yield f"the same adapter in both versions, in scope where the project's kernels differ: {', '.join(adapters)}"


def provenance(result: Result) -> Section | None:
    """The runs behind the tables: ids, times, sources, versions of software, hashes of files; None without any."""
    rows: list[Cells] = [
        {"item": name, **dict(zip(SIDES, values, strict=True))}
        for name, values in _origins(result)
        if any(filter(None, values))
    ]
    if not rows:
        return None
    reading = "hash: the first 16 digits of the SHA-256 of the file. source: hash of the provider's source files."
    listed = table("compared-provenance", "Where the numbers come from", rows, reading)
    return Section("compared-origin", "Provenance", (listed,))


def _origins(result: Result) -> Iterator[tuple[str, tuple[str, ...]]]:
    sides = (result.base, result.head)
    yield "data", tuple(side.source for side in sides)
    if result.identity is not None:
        yield "commit", (result.identity.base.commit, result.identity.head.commit)
    runs: list[RunData | None] = [result.runs.get(side) for side in SIDES]
    yield "run", tuple(run.id if run else "" for run in runs)
    yield "measured", tuple(run.manifest.created_at if run else "" for run in runs)
    yield "rounds", tuple(str(run.cells["round"].nunique()) if run else "" for run in runs)
    for number in range(max(len(side.files) for side in sides)):
        named = [side.files[number] if number < len(side.files) else ("", "") for side in sides]
        names = " → ".join(dict.fromkeys(name for name, _ in named if name))
        yield f"hash of {names}", tuple(digest for _, digest in named)
    sources = [
        {f"source of {name}": entry.source for name, entry in run.manifest.providers.items()} if run else {}
        for run in runs
    ]
    for stored in (sources, [run.manifest.environment if run else {} for run in runs]):
        for name in dict.fromkeys((*stored[0], *stored[1])):
            yield name, tuple(str(one.get(name) or "") for one in stored)


def reproduce(result: Result) -> Section | None:
    """Say which commands measured both versions; None of tables, which do not tell."""
    text = "Each version was measured by a command of its own, in the state that its source hashes identify."
    words: list[Sequence[str]] = [run.manifest.command for side in SIDES if (run := result.runs.get(side))]
    if result.identity is not None and result.identity.command:
        text = "In a checkout of the repository; the versions are measured in turn."
        words = [result.identity.command]
    commands = "\n".join(dict.fromkeys(shell(one) for one in words if one))
    return Section("compared-reproduce", "Commands", (Text(text), CodeBlock(commands))) if commands else None


def doubts(result: Result) -> Section | None:
    """What the numbers do not say: equal GEMMs that disagree, disturbed cases, passes that share work."""
    found = tuple(_doubts(result))
    return Section("compared-limits", "What this does not say", (Bullets(found),)) if found else None


def _doubts(result: Result) -> Iterator[str]:
    places = Places.of(result)
    for part in leading(result)[:MOST_LINES]:
        duplicates = find_duplicates(part.cases)
        if duplicates is not None:
            yield (
                f"{told(result, part)}: {fmt.plural(duplicates.gemms, 'GEMM stands', 'GEMMs stand')} under several "
                f"models ({duplicates.rows} cases). The hardware executes the same work, so where their changes "
                f"disagree, that is noise: most for {duplicates.where}, with changes from "
                f"{fmt.effect(duplicates.least)} to {fmt.effect(duplicates.most)}."
            )
    cases = result.effects.cases
    disturbed = cases[(cases["base_disturbed"] != "") | (cases["head_disturbed"] != "")].to_dict("records")
    if disturbed:
        yield (
            f"{fmt.plural(len(disturbed), 'case was', 'cases were')} disturbed while measured: "
            f"{places.numbering.title} {places.numbers(disturbed)}."
        )
    if len(set(cases["pass"])) > 1:
        yield (
            "A launch that moves from one pass to another moves its time with it: a gain of one pass can be the loss "
            "of another, so that only their sum, or a step measured as one, says what a user gains."
        )


def digest(result: Result) -> Section | None:
    """The geometric means in plain ASCII of fixed width, for a commit message; None where nothing is compared."""
    wanted = parts(result) if len(parts(result)) <= MOST_LINES else leading(result)
    found = [(part, change) for part in wanted if (change := part.change) is not None]
    if not found:
        return None
    unit, rates = mean_rates([change for _, change in found])
    names = [told(result, part) for part, _ in found]
    width = max(map(len, names))
    pairs = [[cell.text for cell in cells.values() if isinstance(cell, TableCell)] for cells in rates]
    numbers = max((len(text) for texts in pairs for text in texts), default=0)
    lines = [_title(result, unit)]
    for name, (_, change), texts in zip(names, found, pairs, strict=True):
        pair = f"{' -> '.join(f'{text:>{numbers}}' for text in texts)} " if unit else ""
        lines.append(f"  {name:<{width}} : {pair} ({mean_change(change).text}), {fmt.plural(change.cases, 'case')}")
    lines.append(f"  {_verdicts(result)}")
    return Section(
        "compared-digest", "For the commit message", (CodeBlock(to_ascii("\n".join(lines)), "text", digest=True),)
    )


def _title(result: Result, unit: str) -> str:
    sides = (result.base.label, result.head.label)
    if result.identity is not None:
        sides = (result.identity.base.commit[:12], result.identity.head.commit[:12])
    what = f"geometric mean {unit}" if unit else "geometric mean"
    return f"{what} and change of time, {sides[0]} -> {sides[1]}:"


def _verdicts(result: Result) -> str:
    counted = [f"{result.count(word)} {word}" for word in result.words if result.count(word)]
    others = [
        f"{result.count_of(status)} {status}" for status in (Status.FIXED, Status.BROKEN) if result.count_of(status)
    ]
    return "cases: " + ", ".join(counted + others)

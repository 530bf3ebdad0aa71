"""The headline of each architecture, what they agree on, and the lines for a commit message."""

from collections.abc import Iterator

from ....analysis.run.architectures import agreement
from ... import formatting as fmt
from ...model import Bullets, CodeBlock, KeyNumbers, Section, Table, TableCell, number_columns, text_columns, texts
from ...render.layout import wrap
from ...render.plain import to_ascii
from ...render.text import DIGEST_WIDTH
from ...view import anchors
from ..summary.headline import headline as headline_of
from .subject import Architectures


def headline(subject: Architectures) -> Section:
    """Say what the architectures agree on, then the three numbers of each."""
    parts = tuple(
        Section(section_id, f"{name}: {subject.views[name].device_name}", headline_of(subject.views[name]).blocks)
        for name, section_id in anchors("headline", subject.names)
    )
    missing = (f"{name} is not in this report: {why}." for name, why in subject.missing.items())
    said = (*findings(subject), *missing)
    blocks: list[Bullets | Table] = [Bullets(said)] if said else []
    return Section("headline", "Headline", (*blocks, _runs(subject)), parts)


def _runs(subject: Architectures) -> Table:
    with_links = any(subject.links.values())
    lines = tuple(
        (
            *texts(
                name,
                view.device_name,
                view.run_id,
                fmt.count(view.coverage.timed, view.coverage.runnable),
            ),
            *((_linked(subject.links.get(name, "")),) if with_links else ()),
        )
        for name, view in subject.views.items()
    )
    own = text_columns("its own report") if with_links else ()
    columns = (*text_columns("architecture", "device", "run"), *number_columns("cells timed"), *own)
    return Table("runs", "Runs of this sweep", columns, lines)


def _linked(path: str) -> TableCell:
    return TableCell(path, path or None, link=path)


def findings(subject: Architectures) -> Iterator[str]:
    """One sentence per challenger: at how many cells it wins on each architecture, and where that turns over."""
    words = agreement(subject.cells, subject.names)
    for provider in subject.challengers:
        counts = []
        for name, view in subject.views.items():
            known = view.ratios[(view.ratios["provider"] == provider) & view.ratios["ratio"].notna()]
            faster = int((known["verdict"] == "faster").sum())
            counts.append(f"{fmt.count(faster, len(known))} cells on {name}" if len(known) else f"no cell on {name}")
        mine = words[subject.cells["provider"] == provider]
        turned, both = int((mine == "reversed").sum()), int((mine != "").sum())
        turns = (
            f"; of {fmt.plural(both, 'cell')} that can be compared, {turned} {'is' if turned == 1 else 'are'} verified "
            "faster on one and slower on another"
            if both
            else ""
        )
        yield f"{provider} is verified faster than {subject.baseline} at {', '.join(counts)}{turns}."


def digest(subject: Architectures) -> Section:
    """Three lines per architecture in plain ASCII, for a commit message."""
    lines = wrap(f"{subject.sweep.suite} on {' and '.join(subject.names)}", DIGEST_WIDTH)
    for name, view in subject.views.items():
        lines += ["", *wrap(f"{name} ({view.device_name})", DIGEST_WIDTH)]
        cards = [block for block in headline_of(view).blocks if isinstance(block, KeyNumbers)]
        told = (f"{card.label}: {card.text}" for block in cards for card in block.items)
        lines += [f"  {line}" for text in told for line in wrap(text, DIGEST_WIDTH - 2)]
    missing = (f"{name} is missing: {why}." for name, why in subject.missing.items())
    for text in (*findings(subject), *missing):
        lines += ["", *wrap(text, DIGEST_WIDTH)]
    return Section("digest", "For the commit message", (CodeBlock(to_ascii("\n".join(lines)), "text", digest=True),))

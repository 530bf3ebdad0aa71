"""Whatever a text holds, `rooflens audit` prints findings or one line that says why not, soon, and without raw escapes.

`ROOFLENS_FUZZ` is the number of mutated texts (200).
"""

import os
import random
import re
import time
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rooflens.analysis.imports.devices import find_device
from rooflens.analysis.imports.text import tables_in
from rooflens.cli.main import main
from rooflens.plugins.audit.audit import audit
from rooflens.plugins.audit.evidence.assumptions import Assumptions
from rooflens.shapes.errors import QUOTED, UsageError

PUBLISHED = Path(__file__).parents[3] / "tests" / "data" / "published"
COUNT = int(os.environ.get("ROOFLENS_FUZZ", "200"))
PARTS = 10

LONGEST = 20_000
"""Bytes of a mutated text."""

_CONTROLS = {chr(code) for code in (*range(0x20), *range(0x7F, 0xA0))} - {"\n"}

LIMIT_S = 3.0
"""Processor time of one: ten times what the costliest text of this length takes."""

PIECES = (
    *("|", "||", "\n", "\r\n", "\t", "---", "+---+", "│", "├──┼", "**", "[a](", "\\|", '"', "'", "# "),
    *("<table>", "</table>", "<tr><td rowspan=9>", "<!--"),
    *("1,000", "9" * 400, "1e400", "-0", "0", "nan", "inf", "∞", "١٢", "½", "１", "2.0x", "-100%", "M=N=K=", "8192^3"),
    *("\x1b[31m", "\x07", "\x9b2J", "\u202e", "\ufeff", "\x00"),
    *("600 TFLOPS is 60% of peak", "8/84 shapes >= +1% on fwd", "geomean 1.5x", "up to 9x"),
    *("mean", "speedup", "TFLOPS", "(ms)", "H100", "MI300X", "old", "new"),
)


def sources() -> list[str]:
    """Return the documents of the other tests of the audit."""
    files = [path for pattern in ("*.csv", "public/*") for path in sorted(PUBLISHED.glob(pattern))]
    texts = [path.read_text(encoding="utf-8") for path in files if path.is_file()]
    for path in sorted(PUBLISHED.glob("unseen/*.toml")):
        texts += [table["text"] for table in tomllib.loads(path.read_text(encoding="utf-8"))["table"]]
    return texts


SOURCES = sources()


def mutated(chance: random.Random) -> bytes:
    """Return a document with some of its text cut, doubled, moved or replaced."""
    text = chance.choice(SOURCES)[:LONGEST]
    for _ in range(chance.randint(1, 12)):
        start = chance.randrange(len(text) + 1)
        end = min(len(text), start + chance.choice((0, 1, 3, 20, 200)))
        other = chance.choice(SOURCES)
        place = chance.randrange(len(other))
        middle = chance.choice(
            ("", text[start:end] * 2, chance.choice(PIECES), chance.choice(PIECES) * 20, other[place : place + 300])
        )
        text = (text[:start] + middle + text[end:])[:LONGEST]
    content = text.encode()
    if chance.random() < 0.05:
        at = chance.randrange(len(content) + 1)
        content = content[:at] + bytes([chance.randrange(256)]) + content[at:]
    return content


def assert_audited(content: bytes, path: Path, capsys: pytest.CaptureFixture[str], *options: str) -> None:
    """Run the command on a text; what it prints, how it ends, and how long that takes, are as they should be."""
    path.write_bytes(content)
    start = time.process_time()
    code = main(["audit", str(path), *options])
    seconds = time.process_time() - start
    printed = capsys.readouterr()
    assert code in (0, 2, 4, 5), content  # 1 is what any other exception ends with
    assert code != 2 or printed.err.splitlines()[-1].startswith("rooflens: error:"), content
    assert seconds <= LIMIT_S, content
    assert not _CONTROLS & {*printed.out, *printed.err}, content


WORD = "kernel" * 40
"""Longer than what a message repeats of a document in one piece."""


@pytest.mark.parametrize("part", range(PARTS))
def test_findings_quote_little(part):
    """Words of a document are drawn out; no finding has any of them whole."""
    chance = random.Random(part)
    for _ in range(part, COUNT, PARTS):
        text = chance.choice(SOURCES)[:LONGEST]
        words = re.findall(r"(?<![\w.])[A-Za-z]\w{4,}", text)
        for word in chance.sample(sorted(set(words)), min(5, len(set(words)))):
            text = text.replace(word, word + WORD)
        try:
            documents = tables_in(text.encode(), "text.md")
        except UsageError:
            continue
        for finding in audit(documents, Assumptions(find_device("MI300X"))).findings:
            for told in (finding.message, finding.row):
                assert all(len(quoted) <= QUOTED for quoted in re.findall(r"\w*(?:kernel)+\w*", told)), told


@pytest.mark.parametrize("part", range(PARTS))
def test_mutated_documents(part, tmp_path, capsys):
    chance = random.Random(part)
    for _ in range(part, COUNT, PARTS):
        path = tmp_path / chance.choice(("text.md", "table.csv", "table.txt"))
        options = chance.choice(((), ("--strict",), ("--json",), ("--markdown", "-")))
        assert_audited(mutated(chance), path, capsys, "--device", "MI300X", *options)


@settings(max_examples=settings().max_examples)
@given(st.floats(1e-3, 1e3), st.floats(0.05, 0.9))
def test_units_scale_nothing(factor, share):
    """The same times in other units are the same findings."""
    flops = 2 * 4096**3
    time = flops / (1307.4e12 * share * factor)
    texts = [
        f"M,N,K,time ({unit})\n4096,4096,4096,{time / scale:.8e}\n"
        for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))
    ]
    setting = Assumptions(find_device("MI300X"), "bf16")
    results = [audit(tables_in(text.encode(), "t.csv"), setting) for text in texts]
    assert {tuple(finding.rule for finding in result.findings) for result in results} == {
        tuple(finding.rule for finding in results[0].findings)
    }
    over = any(finding.rule == "above-peak" for finding in results[0].findings)
    assert over == (share * factor > 1)

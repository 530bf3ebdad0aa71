"""Damage a file the way bad disks, hands, spreadsheets and hostile authors do; the same seed does the same damage."""

import csv
import io
import json
import lzma
import re
from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Any

TEXTS = (
    *("", " ", "0", "-1", "1.5", "1e999999999", "1e-999999999", "-inf", "nan", "1e308", "9" * 5000, str(1 << 62)),
    *("1_0", "true", "null", "[]", "{}", '"', "'", ",", "\n", "\r", "\t", "\0", "\\", "%s", "{0}", "[" * 100_000),
    *("{'a':" * 9, "x" * 200_000, "=1+1", "@sum", "+1", "-x", "\x1b[31m", "\u202e", "\ufeff", "\u0660", "ß", "𝔘"),
    *("../..", "/", "\\ud800", "cold", "passed", "unsupported", "M", "simt_4bit", "sm90", "float32", "[red]", "<b>"),
    *("|", "`", "$x$", "1, 2"),
)
"""Texts that stand where others were expected."""

VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 1.5, 10**30, 1e300, float("inf"), float("nan"), [], {}, [1], {"a": 1}, [None]),
)


def damaged(name: str, content: bytes, random: Random) -> bytes:
    """Return the content of a file with one to three faults, that suit what its name says it is."""
    stem, _, end = name.rpartition(".")
    if end == "xz" and random.random() < 0.7:
        return lzma.compress(damaged(stem, lzma.decompress(content), random), preset=0)
    kinds = {"csv": csv_fault, "json": json_fault} | {kind: partial(word_fault, WORDS[kind]) for kind in WORDS}
    kind = kinds.get(end, byte_fault)
    for _ in range(random.choice((1, 1, 2, 3))):
        content = (kind if random.random() < 0.8 else byte_fault)(content, random)
    return content


WORDS = {
    "condition": (
        *("(", ")", "[", "]", "{", "}", ",", ":", ".", "and", "or", "not", "in", "is", "if", "else", "lambda", "await"),
        *("==", "!=", "<", ">=", "+", "-", "*", "**", "/", "//", "%", "@", "<<", "~", "&", "|", ":=", "`", "'", '"'),
        *("M", "provider", "time_s", "pass", "None", "True", "nan", "0", "1e999", "9" * 400, "1j", "b'x'", "f'{M}'"),
        *("M.str", ".str.contains('(')", ".str.startswith(M)", "M.__class__", "@M", "_column_0", "`pass`", "[1, 'a']"),
        *("not " * 60, "(" * 60, "-" * 60, "1 +" * 500, "\\", "#", ";", "\n", "x" * 5000),
    ),
    "option": (
        *("=", ",", "..", ":", "%", "-", "+", "s", "ms", "m", "h", "MiB", "GB", "M", "N", "K", "M=", "N=", "'", '"'),
        *("*", "0", "1", "-1", "1e308", "1e999", "nan", "inf", "9" * 400, "1..2^9", "^2", "2^99999999", "1..1e18"),
        *("step", "x", "1..999999999999", "1,1,1", "=,=", " ", "٣", "0.0001", "1e-400", "_"),
    ),
    "toml": (
        *map(json.dumps, TEXTS),
        *("\n", "=", "[", "]", '"', "1979-05-27", "0x10", "[[1]]", "['']", "{a = 1}", "a.b.c", "[" * 300 + "]" * 300),
    ),
}
"""What texts are made of, by the ending of the file that holds one."""


def word_fault(words: Sequence[str], content: bytes, random: Random) -> bytes:
    """Drop, double, swap or replace a word or sign of a text, or put another one beside it."""
    parts = re.findall(r"\w+|\s+|.", content.decode("utf-8", "replace")) or [""]
    at, other = random.randrange(len(parts)), random.randrange(len(parts))
    match random.randrange(6):
        case 0:
            del parts[at]
        case 1:
            parts[at], parts[other] = parts[other], parts[at]
        case 2:
            parts[at:at] = parts[min(at, other) : max(at, other) + 1]
        case 3:
            parts[at:at] = [" ", random.choice(words), " "]
        case _:
            parts[at] = random.choice(words)
    return "".join(parts).encode("utf-8", "surrogatepass")


def byte_fault(content: bytes, random: Random) -> bytes:
    """Change, drop, repeat or insert some bytes."""
    at = random.randrange(len(content) + 1)
    end = min(len(content), at + random.choice((1, 1, 2, 10, 100, 10_000)))
    match random.randrange(6):
        case 0:
            return content[:at] + random.randbytes(end - at) + content[end:]
        case 1:
            return content[:at] + content[end:]
        case 2:
            return content[:end] + content[at:]
        case 3:
            return content[:at]
        case 4:
            return content[:at] + random.randbytes(2) + content[at:]
    return content[:at] + a_text(random).encode("utf-8", "surrogatepass") + content[at:]


def csv_fault(content: bytes, random: Random) -> bytes:
    """Change fields, rows, columns or the header of a CSV file."""
    try:
        rows = list(csv.reader(io.StringIO(content.decode(), newline="")))
    except (csv.Error, UnicodeDecodeError):
        return byte_fault(content, random)
    if not rows or not any(rows):
        return byte_fault(content, random)
    row = random.choice([row for row in rows if row])
    column = random.randrange(len(row))
    match random.randrange(10):
        case 0:
            row.insert(column, a_text(random))
        case 1:
            del row[column]
        case 2:
            rows.remove(row)
        case 3:
            rows.insert(random.randrange(len(rows) + 1), list(row))
        case 4:
            rows[0][column : column + 1] = [a_text(random)]
        case 5:
            for each in rows:
                del each[column : column + 1]
        case 6:
            text = a_text(random)
            for each in rows[1:]:
                each[column : column + 1] = [text]
        case 7:
            random.shuffle(rows)
        case _:
            row[column] = a_text(random)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode("utf-8", "surrogatepass")


def json_fault(content: bytes, random: Random) -> bytes:
    """Change a value, a key or an item anywhere in a JSON file."""
    try:
        root = json.loads(content)
    except (ValueError, RecursionError):
        return byte_fault(content, random)
    places = list(_places(root))
    if not places:
        return byte_fault(content, random)
    inside, key = random.choice(places)
    match random.randrange(6):
        case 0:
            del inside[key]
        case 1:
            if isinstance(inside, dict):
                inside[a_text(random)] = inside.pop(key)
            else:
                inside.append(inside[key])
        case 2:
            inside[key] = [inside[key]]
        case 3:
            inside[key] = a_text(random)
        case _:
            inside[key] = random.choice(VALUES)
    return json.dumps(root).encode()


def a_text(random: Random) -> str:
    """Return one of the texts, sometimes two of them together."""
    text = random.choice(TEXTS)
    return text + random.choice(TEXTS) if random.random() < 0.1 else text


def _places(root: Any) -> list[tuple[Any, Any]]:
    found, left = [], [root]
    while left:
        here = left.pop()
        items = here.items() if isinstance(here, dict) else enumerate(here) if isinstance(here, list) else ()
        for key, value in items:
            found.append((here, key))
            left.append(value)
    return found

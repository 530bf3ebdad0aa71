"""What every command keeps to, whatever it is given: a documented exit code and one line, and in bounded time."""

import io
import os
import shutil
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from random import Random

from rooflens.cli.main import main

from .mutate import damaged

INPUTS = int(os.environ.get("ROOFLENS_FUZZ", "0"))
"""Inputs per target; 0: as many as the target says for everyday."""

PARTS = 8 if INPUTS else 1
"""Parts of a target, which may go on side by side."""

EACH_S = 30
"""The most processor time that one command may take."""

WAIT_S = 600
"""The longest that one command may take, most of which it waits: for a pipe, or for its turn on a busy machine."""

CODES = {0, 1, 2, 3, 4, 5}
LONGEST = 1200
"""Characters of an error line: paths, column names and at most 80 characters of what is wrong."""


@dataclass(frozen=True)
class Target:
    """Files that `write` writes whole, to be damaged one at a time, and the commands that then read them.

    In a command, `{}` is the folder, and `@NAME` the content of a file in it. Where a command names one of the files,
    and not all do, that one is damaged. `everyday` is the number of inputs in `make test`.
    """

    name: str
    write: Callable[[Path], None]
    files: Sequence[str]
    commands: Sequence[str]
    everyday: int


class TookTooLong(BaseException):
    """A command was still at work after `EACH_S`, or had not ended after `WAIT_S`."""


def complaints(target: Target, clean: Path, place: Path, part: int = 0) -> list[str]:
    """Try one input of a part after another, and say which ones broke what, each kind once."""
    found: dict[str, str] = {}
    for number in range(part, INPUTS or target.everyday, PARTS):
        random = Random(f"{target.name} {number}")
        folder = place / "damaged"
        shutil.copytree(clean, folder)
        chosen = random.choice(target.commands)
        named = [name for name in target.files if name in chosen]
        name = random.choice(named or target.files)
        file = folder / name
        file.write_bytes(damaged(name, file.read_bytes(), random))
        command = [_part(part, folder) for part in chosen.split()]
        if wrong := what_breaks(command, place):
            found.setdefault(wrong[-130:], f"input {number}, {name}, {chosen}: {wrong}")
        shutil.rmtree(folder)
    return list(found.values())


def _part(part: str, folder: Path) -> str:
    if part.startswith("@"):
        return (folder / part[1:]).read_bytes().decode("utf-8", "replace").replace("\0", "")
    return part.replace("{}", str(folder))


def what_breaks(command: Sequence[str], place: Path) -> str:
    """Run a command; "" or what it did that none may."""
    out, errors = io.StringIO(), io.StringIO()
    try:
        with bounded(), chdir(place), redirect_stdout(out), redirect_stderr(errors):
            code = main(command)
    except TookTooLong as error:
        return str(error)
    said = errors.getvalue()
    if "error: unexpected " in said or "Traceback" in said:
        return said[:400] + said[-200:]
    if code not in CODES:
        return f"exit code {code}: {said[:400]}"
    if code == 2 and (said.count("\n") != 1 or not said.startswith("rooflens: error: ")):
        return f"not one line: {said[:400]!r}"
    if code == 2 and len(said) > LONGEST:
        return f"{len(said)} characters: {said[:400]!r}"
    if any(sign in out.getvalue() + said for sign in "\x1b\u202e\0"):
        return f"a hidden character: {said[:400]!r}"
    return ""


@contextmanager
def bounded() -> Iterator[None]:
    """Raise TookTooLong in what takes longer than it may."""
    limits = ((signal.SIGPROF, signal.ITIMER_PROF, EACH_S), (signal.SIGALRM, signal.ITIMER_REAL, WAIT_S))
    before = [signal.signal(number, _too_long) for number, _, _ in limits]
    for _, timer, seconds in limits:
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for (number, timer, _), handler in zip(limits, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


def _too_long(number: int, frame: object) -> None:
    limit = f"{EACH_S} s of processor time" if number == signal.SIGPROF else f"{WAIT_S} s"
    raise TookTooLong(f"more than {limit}")

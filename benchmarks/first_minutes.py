"""What somebody waits for who has just cloned this: seconds to the report, and of the tests.

    python benchmarks/first_minutes.py [--turns 3] [--busy] [--tests make-test ci-run]

`rooflens run llm4bit-quick --within 60s` is started as a user would, without a terminal. `--busy` adds a process that
keeps one core busy meanwhile. `list providers`, `doctor` and a dry run are timed beside it. `--tests` also times
`make test`, or all that CI runs, in a fresh clone of HEAD: its installation comes first and is not counted.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
ROOFLENS = (sys.executable, "-m", "rooflens.cli")
SHORT = (["list", "providers"], ["doctor"], ["run", "llm4bit-quick", "--dry-run"])
TESTS = {"make-test": (("make", "test"),), "ci-run": (("make", "test"), ("make", "test-rest"))}


@contextmanager
def neighbour(busy: bool) -> Iterator[None]:
    """Keep one core busy, if asked to."""
    if not busy:
        yield
        return
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def timed(command: Sequence[str], cwd: Path) -> float:
    """Seconds of one command; its output is dropped."""
    begin = time.perf_counter()
    subprocess.run(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--tests", nargs="*", choices=sorted(TESTS), default=[])
    asked = parser.parse_args()
    print(f"{os.cpu_count()} cores, {'one of them kept busy' if asked.busy else 'nothing else running'}; seconds")
    print(f"{'':<40} {'median':>8} {'least':>8} {'most':>8}")

    def show(what: str, seconds: Sequence[float]) -> None:
        print(f"{what:<40} {median(seconds):>8.1f} {min(seconds):>8.1f} {max(seconds):>8.1f}", flush=True)

    with neighbour(asked.busy), tempfile.TemporaryDirectory() as scratch:
        for arguments in SHORT:
            show(f"rooflens {' '.join(arguments)}", [timed([*ROOFLENS, *arguments], ROOT) for _ in range(asked.turns)])
        runs = []
        for turn in range(asked.turns):
            folder = Path(scratch) / str(turn)
            folder.mkdir()
            runs.append(timed([*ROOFLENS, "run", "llm4bit-quick", "--within", "60s", "-o", "run"], folder))
        show("run llm4bit-quick --within 60s: report", runs)
        for name in asked.tests:
            clone = Path(scratch) / name
            subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
            timed(["make", ".venv/.installed-test"], clone)
            show(name, [sum(timed(command, clone) for command in TESTS[name])])


if __name__ == "__main__":
    main()

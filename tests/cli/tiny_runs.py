"""A tiny suite over misbehaving providers, measured by real workers, and what is found in its folder."""

import subprocess
import sys
import time
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from datetime import datetime
from io import StringIO
from pathlib import Path

from rooflens.cli.main import main

from ..csv_files import read_rows
from ..suite_files import suite_text

FAULTY = Path(__file__).parents[1] / "harness" / "faulty_providers.py"

PROTOCOL = {"rounds": 2, "budget_s": 0.02, "timeout_s": 20.0}
SUITE = suite_text("tiny", ["dequant_blas"], [1, 2, 3], PROTOCOL)


ON_CPU = ("--device", "cpu", "--set", "llc_bytes=1MiB")


def write_suite(folder):
    (folder / "tiny.toml").write_text(SUITE)
    (folder / "tiny.csv").write_text("model,layer,N,K\ntiny,q,48,128\ntiny,v,32,96\n")
    return folder


def rooflens(place, *arguments, code=0):
    """Run a command from this process, with `place` as working directory: no start of Python, no imports.

    It ends with `code`, or one of several.
    """
    out, errors = StringIO(), StringIO()
    with chdir(place), redirect_stdout(out), redirect_stderr(errors):
        ended = main([*map(str, arguments)])
    return _ended(subprocess.CompletedProcess(arguments, ended, out.getvalue(), errors.getvalue()), code)


def fresh(place, *arguments, code=0, **options):
    """Run a command in a process of its own: what a test says of its environment, streams, or imports needs one."""
    command = [sys.executable, "-m", "rooflens.cli", *map(str, arguments)]
    done = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=300, **options)
    return _ended(done, code)


def _ended(done, code):
    assert done.returncode in ([code] if isinstance(code, int) else code), (done.stdout, done.stderr)
    return done


def write_traced(folder, family):
    """Write a file with the provider `mine`, which adds a letter to the file `imports` whenever it is imported."""
    (folder / "mine.py").write_text(
        f"with open({str(folder / 'imports')!r}, 'a') as file:\n    file.write('x')\n"
        "from rooflens.kernels.provider import Provider\n\nclass Mine(Provider):\n"
        f"    name, family = 'mine', {family!r}\n    def prepare(self, inputs, config=None): ...\n\n"
        "PROVIDERS = [Mine()]\n"
    )
    return folder / "mine.py"


def planned(done):
    """Return the line of a dry run that counts its cells."""
    (line,) = [line for line in done.stdout.splitlines() if " cells x " in line]
    return line


def start(place, *arguments, **options):
    """Begin a command and return its process."""
    command = [sys.executable, "-m", "rooflens.cli", *map(str, arguments)]
    return subprocess.Popen(command, cwd=place, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def wait_until(holds, process, what, seconds=120):
    """Poll until `holds()`; the process must not end meanwhile."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.001)


def whole_rows(place, name="cells.csv"):
    """Count the rows that are written to their end."""
    path = place / "out" / name
    return max(0, path.read_bytes().count(b"\n") - 1) if path.exists() else 0


def wait_for_rows(place, count, process):
    wait_until(lambda: whole_rows(place) >= count, process, f"row {count}")


def children(pid):
    """Processes that `pid` started, each with its start time, so that a reused number is not taken for it."""
    listed = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout
    return {child: born for child in map(int, listed.split()) if (born := birth(child))}


def workers(pid):
    """Worker processes of a run."""
    return [child for child in children(pid) if b"child_process" in _read(f"/proc/{child}/cmdline")]


def assert_gone(processes, seconds=2.0):
    """Assert that `children()` have ended, or end within a moment."""
    deadline = time.monotonic() + seconds
    while left := [pid for pid, born in processes.items() if birth(pid) == born]:
        assert time.monotonic() < deadline, f"still there: {[_read(f'/proc/{pid}/cmdline') for pid in left]}"
        time.sleep(0.01)


def birth(pid):
    """Start time of a process in clock ticks; empty when it has ended, reaped or not."""
    fields = _read(f"/proc/{pid}/stat").rpartition(b") ")[2].split()
    return fields[19] if fields and fields[0] not in (b"Z", b"X") else b""


def _read(path):
    with suppress(OSError):
        return Path(path).read_bytes()
    return b""


def events(place, out="out"):
    """(seconds since the epoch, text) of every event of the run."""
    lines = (place / out / "events.log").read_text().splitlines()
    return [
        (datetime.fromisoformat(stamp).timestamp(), text) for stamp, _, text in (line.partition(" ") for line in lines)
    ]


def run_args(*providers, file=FAULTY, device=ON_CPU, out="out"):
    """Arguments of a run; without a `file` of providers, the parent needs no torch and starts sooner."""
    flags = [part for name in providers for part in ("-p", name)]
    files = ["--providers", file] if file else []
    return ["run", "tiny.toml", *device, "--no-report", "--no-calibrate", *files, "-o", out, *flags]


def unconverged(budget: str) -> tuple[str, ...]:
    """Options with which every round takes its whole budget."""
    return "--set", f"target_ci=0.00001%,budget_s={budget}"


def read(place, name="cells.csv", out=None):
    return read_rows((out or place / "out") / name)


def verdicts(place):
    found = {}
    for row in read(place):
        found.setdefault((row["provider"], int(row["M"])), set()).add(row["verdict"])
    return found


def check_whole(place, cells, rounds=2, out=None):
    """Every cell has each round once, every passed unit its samples, and no sample is an orphan."""
    rows = read(place, out=out)
    units = [(row["cell_id"], row["round"]) for row in rows]
    assert len(units) == len(set(units))
    passed = [unit for unit, row in zip(units, rows, strict=True) if row["verdict"] == "passed"]
    assert len(passed) == cells * rounds
    samples = [(sample["cell_id"], sample["round"]) for sample in read(place, "samples.csv", out)]
    assert set(samples) == set(passed)
    assert sum(int(row["samples"]) for row in rows if row["samples"]) == len(samples)

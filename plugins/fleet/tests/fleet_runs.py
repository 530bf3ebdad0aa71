"""Sweeps of a fleet in real processes, and what is found in their folders."""

import subprocess
import sys
from contextlib import contextmanager

from tests.cli.tiny_runs import FAULTY, read, unconverged, wait_until

from .ray_nodes import PLANTED, cpu_arch

SMALL = ("--set", "llc_bytes=1MiB", "--no-report", "--no-calibrate", "-o", "out")

SLOW_UNITS = (*unconverged("60ms"), "-a", "M=1..16")
"""32 problems; with one provider in two rounds, each takes some 0.15 s."""


def fleet_args(address, *providers, file=FAULTY, on=()):
    """Arguments of a sweep over the cluster at `address` into out/, on the CPU of this machine unless told."""
    flags = [part for name in providers for part in ("-p", name)]
    files = ["--providers", file] if file else []
    where = ["--address", address, "--on", ",".join(on or (cpu_arch(),))]
    return ["run", "tiny.toml", *where, *SMALL, *files, *flags]


def planted(machine, **what):
    """Return the environment of a node whose CPU is of another kind: `Node`s of one test are not seen by another."""
    return {"PYTHONPATH": str(PLANTED), "PLANTED_MACHINE": machine} | {
        f"PLANTED_{name.upper()}": str(value) for name, value in what.items()
    }


def arch_of(machine):
    """Return the architecture of a planted machine."""
    return cpu_arch().replace(cpu_arch().partition("-")[0], machine)


def rows_by_unit(place):
    """Map (cell as the plan names it, round) to the row; no unit stands there twice."""
    names = ("model", "layer", "scheme", "dtype", "provider", "cache", "M", "N", "K", "round")
    rows = read(place)
    found = {tuple(row[name] for name in names): row for row in rows}
    assert len(found) == len(rows)
    return found


def problems(place, rounds=2):
    """Map the problems that are stored as a whole to their rows, by round."""
    found = {}
    for row in read(place) if (place / "out" / "cells.csv").exists() else ():
        found.setdefault((row["layer"], row["M"]), {})[row["round"]] = row
    return {problem: rows for problem, rows in found.items() if len(rows) == rounds}


def wait_for_problems(place, count, process, rounds=2, seconds=120):
    """Wait until so many problems are stored as a whole; the process must not end meanwhile."""
    wait_until(lambda: len(problems(place, rounds)) >= count, process, f"the storing of {count} problems", seconds)


def assert_kept(place, stored):
    """What was stored as a whole is stored still."""
    now = problems(place, max(map(len, stored.values()), default=0))
    assert {problem: now.get(problem) for problem in stored} == stored


@contextmanager
def started(place, arguments, environment=None, program=(sys.executable, "-m", "rooflens.cli")):
    """Begin a command in a session of its own; it is killed at the end of the block if it has not ended."""
    command = [*program, *map(str, arguments)]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=place, env=environment, start_new_session=True, **streams) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(process, seconds=120):
    """Wait for the end of a command; return its exit code and what it wrote to stderr."""
    _, errors = process.communicate(timeout=seconds)
    return process.returncode, errors

"""Hold the configurations of a scan: each variant runs the default of the shape that it is a variant of.

A default may depend on N and K. So that nothing but the size changes along a scan, the providers are asked, in a
process of their own, for the defaults of the shapes themselves, and a table pins these for all variants.
"""

import json
import multiprocessing
import os
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ..shapes.columns import TUNING
from ..shapes.csv_file import csv_text
from ..shapes.device import Device
from ..shapes.errors import RooflensError, UsageError
from ..shapes.tuned import HELD, Key
from .messages import Setup
from .plan import Cell
from .tables import fields

WAIT_S = 600.0
"""Importing torch and the providers, and starting the device's driver, may take this long."""


@dataclass(frozen=True, slots=True)
class Defaults:
    """What the child process found: its device, and the default of each cell, None where there is nothing to choose."""

    device: Device
    configs: tuple[Mapping[str, Any] | None, ...]


def held_table(varied: Mapping[Cell, Cell], setup: Setup, log: Path) -> str:
    """Return the text of a tuned table that pins each cell of a scan to the default of the cell that it varies.

    A provider without candidates has no rows. Raises UsageError where two shapes of other defaults become the same
    GEMM, and RooflensError when the providers cannot be asked; `log` has what they printed.
    """
    bases = tuple(dict.fromkeys(varied.values()))
    found = _ask(bases, setup, log)
    defaults = dict(zip(bases, found.configs, strict=True))
    rows: dict[Key, tuple[Cell, Mapping[str, Any]]] = {}
    for cell, base in varied.items():
        config = defaults[base]
        if config is None:
            continue
        key = Key.of(found.device, cell.problem, cell.scheme, cell.provider, cell.cache)
        other, earlier = rows.setdefault(key, (base, config))
        if earlier != config:
            raise UsageError(
                f"--scan: {other.shape.label} and {base.shape.label} become the same GEMM ({cell.problem}), but "
                f"{cell.provider} has other defaults for them: scan one of them at a time, by --filter"
            )
    return csv_text(TUNING.names, (_row(number, *item) for number, item in enumerate(rows.items())))


def _row(number: int, key: Key, of: tuple[Cell, Mapping[str, Any]]) -> list[str]:
    base, config = of
    place = {name.rstrip("_"): value for name, value in key._asdict().items()}
    said = {
        "cell_id": f"held-{number}", "search": 0, "candidate": 0, "config": dict(config), "verdict": HELD,
        "reason": f"the default of {base.shape.label} at M={base.problem.M}", "winner": True, "near_tie": False,
        "candidates": 1, "source": "",
    }  # fmt: skip
    return fields(TUNING, place | said)


def _ask(bases: Sequence[Cell], setup: Setup, log: Path) -> Defaults:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_main, args=(theirs, bases, setup, os.getpid(), log), daemon=True)
    process.start()
    theirs.close()
    try:
        answer = ours.recv() if ours.poll(WAIT_S) else None
    except EOFError:
        answer = None
    finally:
        process.kill()
        process.join()
        ours.close()
    if isinstance(answer, RooflensError):
        raise answer
    if not isinstance(answer, Defaults):
        raise RooflensError(f"--scan: the providers could not be asked for their defaults; {log} says why")
    return answer


def _main(connection: Connection, bases: Sequence[Cell], setup: Setup, parent: int, log: Path) -> None:
    """Entry of the child process."""
    from ..kernels import registry
    from ..kernels.provider import support
    from .child import die_with, redirect_output
    from .device import find_device
    from .prepared import require_json

    die_with(parent)
    redirect_output(log)
    try:
        device = find_device(setup.device, setup.llc_bytes)
        providers = registry.load(setup.providers, setup.files)
        configs: list[Mapping[str, Any] | None] = []
        for cell in bases:
            provider = providers[cell.provider]
            answer = support(provider, cell.problem, cell.scheme, device)
            candidates = provider.candidates(cell.problem, cell.scheme, device) if answer.ok else ()
            if candidates:
                require_json(candidates[0])
            configs.append(json.loads(json.dumps(dict(candidates[0]))) if candidates else None)
        connection.send(Defaults(device, tuple(configs)))
    except RooflensError as error:
        connection.send(error)
    except Exception:
        traceback.print_exc()

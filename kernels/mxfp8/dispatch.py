"""dispatch_mx: which kernel multiplies: an envelope, then a table by (K, N, M), then rules, then the stock kernel.

The choice is a value with its reason, recorded with every measurement. What fits nowhere raises; nothing is skipped in
silence.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from ...shapes.device import Device
from ...shapes.errors import RooflensError
from ...shapes.problem import Problem
from ...shapes.schemes.mxfp8 import MxFp8
from ..dispatcher import Choice, Dispatcher
from ..needs import NOT_ON_CPU
from ..provider import AnyProvider, Config, Launch, Support
from .inputs import MxFp8Inputs
from .providers import GEMV, MMA
from .stock import STOCK_TRITON
from .triton_configs import parts, tiles

COLUMNS = ("K", "N", "M", "kernel", "n_sub", "k_splits", "use_hip")
"""Columns of a table. kernel  "gemv" or "mma"; n_sub  BLOCK_N / 16; k_splits  parts of K; use_hip  0: the stock one.

The rows that are shipped were written by the rules of `triton_configs` for 132 compute units, not by timing.
"""

GEMV_LARGEST_M = 16
SMALL_LARGEST_M = 64

_DATA = Path(__file__).parent / "data"
_FUSED: dict[str, AnyProvider] = {"gemv": GEMV, "mma": MMA}


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table: what to run for (K, N, M)."""

    kernel: str
    n_sub: int
    k_splits: int
    use_fused: bool


def read_table(path: Path) -> dict[tuple[int, int, int], Row]:
    """Read a table, (K, N, M) -> row. Raises RooflensError that names file and line of what is wrong."""
    rows: dict[tuple[int, int, int], Row] = {}
    with path.open(encoding="utf-8", newline="") as file:
        reader = csv.DictReader(file)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise RooflensError(f"{path} line 1: the columns must be {','.join(COLUMNS)}")
        for line in reader:
            at = f"{path} line {reader.line_num}"
            try:
                k, n, m, n_sub, k_splits, use = (int(line[name]) for name in COLUMNS if name != "kernel")
            except (TypeError, ValueError):
                raise RooflensError(f"{at}: whole numbers expected in all columns but kernel") from None
            if line["kernel"] not in _FUSED or n_sub not in (1, 2, 4, 8) or k_splits < 1 or use not in (0, 1):
                raise RooflensError(
                    f"{at}: kernel is gemv or mma, n_sub 1, 2, 4 or 8, k_splits 1 or more, use_hip 0 or 1"
                )
            if (k, n, m) in rows:
                raise RooflensError(f"{at}: (K, N, M) = ({k}, {n}, {m}) appears twice")
            rows[k, n, m] = Row(line["kernel"], n_sub, k_splits, use == 1)
    return rows


@cache
def table_of(arch: str) -> Mapping[tuple[int, int, int], Row]:
    """The shipped table of an architecture, empty where there is none."""
    path = _DATA / f"dispatch_{arch}.csv"
    return read_table(path) if path.exists() else {}


def envelope(problem: Problem) -> str:
    """Why the kernels for small M do not take a problem, "" when they do."""
    if problem.K % 32:
        return f"K={problem.K} is not a multiple of 32"
    if problem.M > SMALL_LARGEST_M:
        return f"M={problem.M} is above {SMALL_LARGEST_M}"
    return ""


def choose(
    problem: Problem, scheme: MxFp8, device: Device, table: Mapping[tuple[int, int, int], Row] | None = None
) -> Choice:
    """Decide. `table` None: the one shipped for the architecture. Raises RooflensError when no kernel fits."""
    table = table_of(device.arch) if table is None else table
    row = table.get((problem.K, problem.N, problem.M))
    reason = envelope(problem)
    if not reason and (row is None or row.use_fused):
        kernel = row.kernel if row else ("gemv" if problem.M <= GEMV_LARGEST_M else "mma")
        provider = _FUSED[kernel]
        support = provider.supports(problem, scheme, device)
        if support.ok:
            default = tiles(provider.name, problem, device)[0]
            if row is None:
                return Choice(provider, default.as_json(device.arch), "by rule: no row of the table")
            split = parts(problem, default.block_k, row.k_splits)
            tile = replace(default, block_n=16 * row.n_sub, split_k=split)
            return Choice(provider, tile.as_json(device.arch), "by its row of the table")
        reason = support.reason
    if not reason:
        reason = "by its row of the table"
    support = STOCK_TRITON.supports(problem, scheme, device)
    if not support.ok:
        raise RooflensError(f"no MX-FP8 kernel takes {problem}: {reason}; {STOCK_TRITON.name}: {support.reason}")
    return Choice(STOCK_TRITON, dict(STOCK_TRITON.candidates(problem, scheme, device)[0]), reason)


class DispatchMx(Dispatcher[MxFp8, MxFp8Inputs]):
    """One of the kernels by `choose`; the configuration names it as `route`."""

    family = "mxfp8"
    name = "dispatch_mx"

    def choose(self, problem: Problem, scheme: MxFp8, device: Device) -> Choice:
        """Decide by the shipped table and the rules."""
        return choose(problem, scheme, device)

    def provider_of(self, config: Config) -> AnyProvider:
        """Return the provider that `route` names."""
        return next(provider for provider in (GEMV, MMA, STOCK_TRITON) if provider.name == config["route"])

    def supports(self, problem: Problem, scheme: MxFp8, device: Device) -> Support:
        """Whatever one of the kernels takes; otherwise the reasons of all."""
        return super().supports(problem, scheme, device) if device.is_gpu else Support.no(NOT_ON_CPU)

    def prepare(self, inputs: MxFp8Inputs, config: Config | None = None) -> Launch:
        """Prepare the launch of the chosen provider: there is nothing to choose."""
        launch = super().prepare(inputs)
        launch.config = {"route": launch.dispatched.partition(":")[0], **launch.config}
        return launch


DISPATCH = DispatchMx()

"""What limits explain of the times of stored runs, and what hardware counters say of how limits are counted.

Each function `of_...` yields pieces of text of docs/measured-facts.md.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.roofline.bounds import Bound
from rooflens.analysis.run.pipeline import placed
from rooflens.analysis.run.summarize import summarize
from rooflens.plugins.isa.decoding import decode_seconds
from rooflens.shapes.device import spec
from stored_runs import RESULTS, cells_of, percent, row, taken

FAMILIES = {
    **dict.fromkeys(("mxfp8-decode-quick", "mxfp8-quant-quick"), "MX-FP8"),
    "mxfp8-moe-quick": "MoE",
    "a16w8-deepseek-quick": "A16W8",
    **dict.fromkeys(("fp8-quant-quick", "fp8-train-quick"), "FP8 training"),
    **dict.fromkeys(("ao-dense-quick", "ao-linear-quick", "ao-grouped-quick", "ao-quant-quick"), "torchao"),
}
"""Runs that are stored with schedules of the machine code, without `h200-`, and the kernel family of each."""


def classified(name: str) -> pd.DataFrame:
    """Cells of a stored run of the H200 whose bound class is known, with the columns of `placed` and three more.

    These are run, and two classes: before, without schedules and launches, and slower, if it took twice as long.
    """
    taken.add((f"h200-{name}", ""))
    run = load_run(RESULTS / f"h200-{name}")
    cells = summarize(run)
    unscheduled = cells.assign(schedule_clocks=np.nan, pipe_clocks=np.nan, kernels_s=np.nan, kernels="")
    slow = cells.assign(time_s=2 * cells["time_s"], kernels_s=2 * cells["kernels_s"])
    now, before, slower = (placed(run, frame)[0] for frame in (cells, unscheduled, slow))
    now = now.assign(run=name, before=before["bound_class"], slower=slower["bound_class"])
    return now[now["bound_class"] != ""]


def unexplained(cells: pd.DataFrame, column: str = "bound_class") -> float:
    """Share of cells that no limit explains."""
    return float((cells[column] == Bound.UNEXPLAINED).mean())


def of_limits() -> Iterator[str]:
    """Yield the shares of the cells that no limit explains: per suite before schedules and launches were, and now;
    per family; and by provider, those whose machine code was not read, and those whose main kernel's was.
    """
    cells = pd.concat(map(classified, FAMILIES))
    for name, own in cells.groupby("run", sort=False):
        shares = (unexplained(own, "before"), unexplained(own), unexplained(own[own["schedule_clocks"].notna()]))
        yield row(f"`{name}`", len(own), *map(percent, shares))
    for family, own in cells.groupby(cells["run"].map(FAMILIES), sort=False):
        yield f"{family} {percent(unexplained(own))}"
    gemms = cells[cells["kernels"].str.contains("nvjet_")]
    once, twice = ((gemms[name] == Bound.UNEXPLAINED).sum() for name in ("bound_class", "slower"))
    yield f"Of {len(gemms)} cells with GEMMs of cuBLAS {once} are unexplained; if they took twice as long, {twice}"
    left = cells[cells["bound_class"] == Bound.UNEXPLAINED]
    unread, read = (left[left["schedule_clocks"].isna() == is_unread] for is_unread in (True, False))
    yield f"Of {len(cells)} cells {len(left)} are left. {len(unread)} run machine code that was not read"
    yield f"Of the other {len(read)}"
    for part in (unread, read):
        for provider, count in part["provider"].value_counts().items():
            yield f"`{provider}` {count}"


def of_instructions() -> Iterator[str]:
    """Yield what a schedule counts over what hardware counters saw, by the pipe that it calls the busiest."""
    rows = pd.read_csv(RESULTS / "h200-schedule" / "counters.csv")
    for pipe, clocks, column in (("issue", 1, "instructions"), ("conversion", 8, "conversions")):
        found = rows[rows["pipe"] == pipe]
        ratios = found["pipe_clocks"] / clocks * 4 * found["workgroups"] / found[column]  # four schedulers
        yield f"{len(found)} kernels: {ratios.min():.3f} to {ratios.max():.3f}"


def of_decoding() -> Iterator[str]:
    """Yield how far cells are above the time that decoding takes at least by `rooflens isa`'s rates."""
    providers = ("simt_4bit", "mma_4bit")
    cells = pd.concat(
        (
            *(cells_of(f"h200-{name}") for name in ("mxfp8-decode-quick", "a16w8-deepseek-quick")),
            *(cells_of("h200-w4a16-models-providers", provider) for provider in providers),
        )
    )
    times = cells["time_s"] / decode_seconds(cells, spec("NVIDIA H200 SXM"))
    yield f"{times.count()} cells, the nearest {times.min():.2f}×"
    for provider in providers:
        yield f"`{provider}` {times[(cells['provider'] == provider) & (cells['M'] == 64)].min():.2f}×"


def of_shared_memory() -> Iterator[str]:
    """Yield what GEMMs of cuBLAS and transposing copies of torch do to shared memory and the L1 cache, as counted."""
    rows = pd.read_csv(RESULTS / "h200-schedule" / "shared_memory.csv")
    copies, gemms = (rows[(rows["kernel"] == "copy_") == is_copy] for is_copy in (True, False))
    each = copies["wavefronts"] / (copies["B"] * copies["N"] * copies["K"])
    busy = copies["wavefronts_percent"].max()
    yield f"{each.min():.2f} to {each.max():.2f} wavefronts per element, at up to {busy:.0f} % of one per clock"
    tile = gemms["kernel"].str.extract(r"sm90_[a-z]+_(?P<rows>\d+)x(?P<columns>\d+)").astype(int)
    tiles = -(-gemms["N"] // tile["rows"]) * -(-gemms["M"] // tile["columns"])
    row_words = tiles * 2 * gemms["K"] / 4
    read = gemms["bank_reads"] / row_words / (tile["rows"] + -(-tile["rows"] // 64) * tile["columns"])
    written = gemms["bank_writes"] / row_words / tile.sum(axis=1)
    yield (
        f"{len(gemms)} GEMMs of cuBLAS read {read.min():.2f} to {read.max():.2f} times what the rule says, and write "
        f"{written.min():.2f} to {written.max():.2f} times their operands"
    )
    last = gemms.iloc[-1]
    turns = 100 * last["bank_writes"] * 4 / 128 / 132 / last["elapsed_clocks"]
    reads = last["wavefronts_percent"]
    yield f"reads are served in {reads:.0f} % of the clocks, and writes would take {turns:.0f} % more"

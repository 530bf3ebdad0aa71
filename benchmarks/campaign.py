"""The measurements behind the claims of the documents: what to measure, why, and the device time that is left to do.

1. `ENTRIES` lists arguments of `rooflens run` in three tiers, each with its reason.
2. `standing` compares the cells of an entry with stored runs of its suite and protocol: a problem is done where one of
   them has all its providers, undisturbed, by the default timer, and with the identity that the present kernels have.
3. Without --measure, a table says how many cells of each entry are current, expired or missing, and the device time
   that is left, at the pace of stored runs.
4. --measure runs what is left of the first tier that is not whole, or of --tiers: parts of a few minutes, one per GPU
   at a time, until --within is over. A second call goes on where the first one stopped.
5. --store merges what is current of each entry in --folder, and writes it to --stored, compressed.

    python benchmarks/campaign.py --measure --within 9m --gpus 4
    python benchmarks/campaign.py --store
"""

import json
import lzma
import math
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from io import BytesIO
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from options import options
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.run.summarize import summarize
from rooflens.api.measuring import TurnExecutor, told
from rooflens.api.selection import suite_of
from rooflens.cli.run.run import run as run_command
from rooflens.harness.compare.replay import COORDINATES, coordinates
from rooflens.harness.compare.runner import Turn
from rooflens.harness.machine.device import find_device
from rooflens.harness.plan.plan import plan
from rooflens.harness.sweep.deadline import Deadline
from rooflens.harness.timing.samples import NOT_BLOCKED
from rooflens.shapes.files.stored_file import COLUMNS, by_columns, read_stored
from rooflens.shapes.protocol import LIMITS, Protocol
from rooflens.shapes.request import Request, declared_options
from rooflens.shapes.run_folder.disturbance import disturbances
from rooflens.shapes.run_folder.manifest import MANIFEST, StoredProtocol
from rooflens.shapes.suite import load
from rooflens.shapes.values import seconds
from rooflens.shapes.verdict import RETRIED, Verdict

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "docs"))
from stored_figures import default_timer, expired  # noqa: E402

SUITES, UPSTREAM = ROOT / "benchmarks" / "suites", ROOT / "examples" / "upstream"

CELL = list(COORDINATES)
PROBLEM = [name for name in CELL if name not in ("provider", "cache")]

START_S = 25
"""Imports, operands and ceilings of one run."""

PART_S = 240
"""Device time of one run, by forecast."""

UNIT_S, LARGE_UNIT_S, LARGE_FLOPS = 0.08, 0.5, 1e11
"""Device time of a cell and round while none of its size is stored, and the FLOPs from which a launch is large."""

STORED_AS = {"cells.csv": ".xz", "samples.csv": COLUMNS, "telemetry.csv": ".xz"}
"""Compressed tables, and the ends of their names."""

CURRENT, EXPIRED, MISSING = "current", "expired", "missing"

CHANCE = tuple(verdict for verdict in RETRIED if verdict is not Verdict.OOM)
"""Failures that need not come again; a device that has no other work and too little memory has too little next time."""

SPREAD = ((512, 2048), (2048, 2048), (2048, 768), (1024, 4096), (4096, 4096), (2880, 4096), (3584, 18944),
          (14336, 4096), (5120, 13824), (8192, 8192), (28672, 8192), (2048, 7168))  # fmt: skip
"""(N, K) of the twelve shapes that stand for the forty of llm4bit."""

TWELVE = " or ".join(f"(N == {n} and K == {k})" for n, k in SPREAD)
OURS_4BIT = "-p simt_4bit -p cuda_4bit -p mma_4bit -p dequant_blas -p blas -p stock_triton"
FP8 = "-p cuda_fp8 -p torch_scaled_mm_fp8 -p blas_bf16_fp8 --baseline torch_scaled_mm_fp8 --challenger cuda_fp8"


@dataclass(frozen=True, slots=True)
class Entry:
    """A run: tier, name without that of the device, what asks for it, arguments of `rooflens run`, and which cells.

    `peers` are providers with their files in examples/upstream: to plan does not take the libraries that they import.
    """

    tier: str
    name: str
    why: str
    arguments: str
    condition: str = ""
    peers: tuple[tuple[str, str], ...] = ()

    @property
    def request(self) -> Request:
        """What its arguments ask for."""
        found = run_command.make_context("run", self.arguments.split()).params
        known = {"protocol", *declared_options()}
        return Request.for_command("run", {name: value for name, value in found.items() if name in known})


def _spread(dtype: str) -> Entry:
    return Entry(
        "A", f"llm4bit-{dtype}", f"speedups and crossovers of the 4-bit document in {dtype}",
        f"llm4bit --dtype {dtype} --cache cold -a M=1,4,16,64,256,1024,2048 {OURS_4BIT} --rounds 5 --set budget_s=0.1",
        TWELVE,
    )  # fmt: skip


def _training(pass_: str) -> Entry:
    return Entry(
        "A", f"fp8-{pass_}", f"84 shapes of the training document, {pass_}: ours, cuBLAS and bf16",
        f"fp8-train {FP8} --rounds 2 --set budget_s=0.1", f"scheme == 'fp8-blockwise' and `pass` == '{pass_}'",
    )  # fmt: skip


ENTRIES = (
    *map(_spread, ("fp16", "fp32")),  # bf16: all forty shapes, in tier B
    *map(_training, ("fwd", "bwd", "step")),
    Entry("A", "fp8-train-rounds", "twelve shapes of the training document with intervals",
          f"fp8-train {FP8} --rounds 5 --set budget_s=0.1",
          "scheme == 'fp8-blockwise' and model == 'Llama-2-7B' and `pass` != 'bwd'"),
    Entry("A", "fp8-quant", "quantizers of the training document", "fp8-quant --rounds 3 --set budget_s=0.1"),
    Entry("A", "mxfp8-quant", "quantizers of the MX-FP8 document",
          "mxfp8-quant --cache cold --rounds 5 --set budget_s=0.1"),
    Entry("A", "ao-quant", "five quantizers of torchao's document", "ao-quant --rounds 5 --set budget_s=0.1"),
    Entry("A", "ao-dense", "torchao's dense products", "ao-dense --rounds 3 --set budget_s=0.1"),
    Entry("A", "ao-grouped", "torchao's grouped products, one launch, a loop and bf16",
          "ao-grouped -p cuda_grouped_ao -p grouped_ao -p loop_ao -p loop_bf16_ao -p grouped_mm_bf16_ao --rounds 3 "
          "--set budget_s=0.1", "E in (8, 16)"),
    Entry("A", "ao-grouped-linear", "grouped linears: forward and step, casts inside",
          "ao-grouped-linear -p cuda_grouped_ao -p grouped_mm_bf16_ao --rounds 3 --set budget_s=0.1", "E in (8, 16)"),
    Entry("A", "ao-linear", "dense linears: forward and step, casts inside",
          "ao-linear -p cuda_ao -p blas_bf16_ao --rounds 3 --set budget_s=0.1"),
    Entry("A", "mxfp8-decode", "decode grid of the MX-FP8 document",
          "mxfp8-decode --cache cold -p cuda_mx -p gemv_mx -p mma_mx -p dispatch_mx -p stock_triton_mx -p "
          "small_tile_mx -p blas_bf16_mx -p dequant_blas_mx -a M=1,2,4,8,16,32,64 --rounds 5 --set budget_s=0.1"),
    Entry("A", "mxfp8-moe", "MoE of the MX-FP8 document, all ten shapes",
          "mxfp8-moe --cache cold --rounds 3 --set budget_s=0.1"),
    Entry("A", "mxfp8-moe-weighted", "the second GEMM of the MoE, weighted",
          "mxfp8-moe-weighted --rounds 3 --set budget_s=0.1"),
    Entry("A", "a16w8", "DeepSeek table and the large case of the A16W8 document",
          "a16w8-deepseek --cache cold --rounds 5 --set budget_s=0.1"),
    Entry("B", "llm4bit", "all forty shapes of the 4-bit document, every M",
          f"llm4bit --dtype bf16 --cache cold {OURS_4BIT} --rounds 3 --set budget_s=0.1"),
    Entry("C", "llm4bit-warm", "the 4-bit document, warm",
          f"llm4bit --dtype bf16 --cache warm -a M=1,4,16,64,256 {OURS_4BIT} --rounds 3 --set budget_s=0.1", TWELVE),
    Entry("C", "llm4bit-formats", "nested absmax and FP4 weights on twelve shapes",
          f"{SUITES / 'llm4bit-formats.toml'} --rounds 3 --set budget_s=0.1", TWELVE),
    Entry("C", "llm4bit-bitsandbytes", "the 4-bit document beside the kernels of bitsandbytes",
          "llm4bit --dtype bf16 --cache cold -a M=1,4,16,64 -p cuda_4bit -p simt_4bit -p dequant_blas --rounds 3 "
          "--set budget_s=0.1", TWELVE, (("matmul_4bit", "bitsandbytes_4bit.py"),)),
    Entry("C", "fp8-gradients", "84 shapes of the training document, dgrad and wgrad apart",
          f"{SUITES / 'fp8-gradients.toml'} --rounds 2 --set budget_s=0.1"),
    Entry("C", "w4a16-peers", "INT4 weights beside Marlin, GemLite and torch on twelve shapes",
          "w4a16 --dtype fp16 --cache cold -a M=1,4,16,64 -p torch_int4 -p cuda_4bit -p simt_4bit -p dequant_blas "
          "--rounds 3 --set budget_s=0.1", f"scheme == 'int4-g128' and ({TWELVE})",
          (("marlin", "marlin_w4a16.py"), ("gemlite_4bit", "gemlite_w4a16.py"))),
    Entry("C", "w4a16", "INT4, MXFP4 and NVFP4 weights on twelve shapes",
          "w4a16 --dtype bf16 --cache cold -a M=1,4,16,64 -p simt_4bit -p cuda_4bit -p mma_4bit -p torch_int4 -p "
          "dequant_blas -p blas --rounds 3 --set budget_s=0.1", TWELVE),
)  # fmt: skip


def known_cells(folders: Sequence[Path], suites: set[str], device: str) -> pd.DataFrame:
    """Judge every stored cell of some suites on a device; one row for each, and for each run that has it.

    state    a disturbed cell is missing, and one without all of its rounds; a failure that would come again is current
    folder, suite, conditions   the run
    flops, unit_s   of a launch; device time of the cell and a round in it
    """
    found = [pd.DataFrame(columns=[*CELL, "state", "flops", "unit_s", "folder", "suite", "conditions"])]
    for folder in (path.parent for place in folders for path in sorted(place.glob(f"*/{MANIFEST}"))):
        content = json.loads((folder / MANIFEST).read_text("utf-8"))
        if content.get("suite") not in suites or (content.get("device") or {}).get("name") != device:
            continue
        run = load_run(folder)
        if run.cells.empty:
            continue
        cells = summarize(run)
        passed = cells["verdict"] == "passed"
        old = (expired(run, cells[passed]) | (cells["timer"] != default_timer(run))[passed]).reindex(cells.index)
        unusable = cells["disturbed"].map(may_pass) | (cells["rounds"] < run.manifest.rounds)
        unusable = cells["verdict"].isin(CHANCE) | (passed & unusable)
        cells["state"] = np.select([old.eq(True), unusable], [EXPIRED, MISSING], CURRENT)
        began = pd.to_datetime(run.cells["started_at"], format="ISO8601")
        ended = began + pd.to_timedelta(run.cells["elapsed_s"].fillna(0), unit="s")
        spent = ended.groupby(run.cells["process"]).max() - began.groupby(run.cells["process"]).min()
        elapsed = run.cells.groupby("cell_id")["elapsed_s"].mean()  # NaN where it failed
        overhead = spent.sum().total_seconds() / run.cells["elapsed_s"].sum()
        made = conditions(run.manifest.protocol)
        rows = cells[[*CELL, "state", "flops"]].assign(unit_s=cells["cell_id"].map(elapsed) * overhead)
        found.append(rows.assign(folder=str(folder), suite=run.manifest.suite, conditions=made))
    return pd.concat(found)


def may_pass(disturbed: str) -> bool:
    """Tell whether another measurement may do without what disturbed: not the host's time of a long launch."""
    return any(one.what != NOT_BLOCKED for one in disturbances(disturbed))


def conditions(protocol: Protocol | StoredProtocol) -> str:
    """Write what runs must share to be merged."""
    return str([getattr(protocol, one.name) for one in fields(Protocol) if one.name not in LIMITS])


def standing(entry: Entry, known: pd.DataFrame) -> pd.DataFrame:
    """List the cells of an entry.

    state    the best that a run has
    folder   the run that has all cells of the problem, and current; NaN where none does
    left_s   device time until it is so
    """
    suite = suite_of(entry.request)
    suite = replace(suite, providers=(*suite.providers, *dict(entry.peers)))
    wanted = pd.DataFrame([cell.fields | {"flops": cell.problem.flops} for cell in plan(suite, entry.condition)])
    wanted["unit_s"] = np.where(wanted["flops"] >= LARGE_FLOPS, LARGE_UNIT_S, UNIT_S)
    of_suite = known[known["suite"] == suite.name]
    alike = of_suite[of_suite["conditions"] == conditions(suite.protocol)]
    cells = wanted[CELL].merge(alike, on=CELL, how="left").fillna({"state": MISSING})
    current = cells[cells["state"] == CURRENT].groupby([*PROBLEM, "folder"], as_index=False, sort=False).size()
    complete = current.merge(wanted.groupby(PROBLEM, as_index=False).size()).drop_duplicates(PROBLEM, keep="last")
    cells = cells.sort_values("state").drop_duplicates(CELL)[[*CELL, "state"]]  # current, expired, missing
    cells = wanted.merge(cells, on=CELL).merge(complete[[*PROBLEM, "folder"]], on=PROBLEM, how="left")
    seen = of_suite.groupby(decade(of_suite["flops"]))["unit_s"].mean()
    unit_s = decade(cells["flops"]).map(seen).fillna(cells["unit_s"])
    return cells.assign(left_s=np.where(cells["folder"].isna(), unit_s * suite.protocol.rounds, 0.0))


def decade(flops: "pd.Series[float]") -> "pd.Series[float]":
    """Power of ten of a launch's FLOPs, 0 without any: launches of one take about as long."""
    return flops.astype(float).clip(lower=1).map(math.log10).floordiv(1)


def left_s(cells: pd.DataFrame) -> float:
    """Device time that is left of an entry."""
    sampling = float(cells["left_s"].sum())
    return sampling + START_S * np.ceil(sampling / PART_S)


@dataclass(frozen=True, slots=True)
class Job:
    """A part of an entry: problems that one process measures on one device, all providers of each."""

    entry: Entry
    folder: Path
    cells: pd.DataFrame

    def turn(self, device: str) -> Turn:
        """Return what measures it."""
        asked = self.entry.request
        request = replace(
            asked,
            providers=(*asked.providers, *dict(self.entry.peers)),
            files=tuple(UPSTREAM / file for _, file in self.entry.peers),
            to=self.folder,
            device=device,
        )
        return Turn(request, cells=coordinates(self.cells.to_dict("records")))


def jobs(standings: Mapping[Entry, pd.DataFrame], folder: Path) -> list[Job]:
    """Divide what is left, tier by tier, the shortest entry first, so that most are whole; each part has a folder."""
    found = []
    for entry, cells in sorted(standings.items(), key=lambda one: (one[0].tier, left_s(one[1]))):
        left = cells[cells["folder"].isna()]
        begins = left["left_s"].cumsum() - left["left_s"]
        part = (begins // PART_S).groupby([left[name] for name in PROBLEM]).transform("min")
        free = (place for number in count() if not (place := folder / f"{entry.name}.{number}").exists())
        found += [Job(entry, place, rows) for (_, rows), place in zip(left.groupby(part), free, strict=False)]
    return found


def measure(waiting: list[Job], gpus: int, deadline: float) -> None:
    """Measure jobs on GPUs, each on the next one that is free, until there is no time left for another."""
    lock, stop = threading.Lock(), threading.Event()

    def work(device: str) -> None:
        while True:
            with lock:
                left = deadline - time.monotonic()
                if left < 2 * START_S or not waiting or stop.is_set():
                    return
                job = waiting.pop(0)
            began, lines = time.monotonic(), [""]
            try:
                with TurnExecutor() as turns:
                    until = Deadline(began + left - 10, stop.is_set)
                    is_whole = turns(job.turn(device), told(lines.append), until)
                ended = "whole" if is_whole else "cut short"
            except Exception as error:  # it costs its own part
                ended = f"{type(error).__name__}: {error}"
            took = time.monotonic() - began
            print(f"{device} {job.folder.name}: {ended} after {took:.0f} s {lines[-1]}", flush=True)

    threads = [threading.Thread(target=work, args=(f"cuda:{gpu}",)) for gpu in range(gpus)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    finally:
        stop.set()


def store(entry: Entry, cells: pd.DataFrame, target: Path) -> None:
    """Merge runs that have problems of an entry, and keep them in a new folder with the large tables compressed."""
    with TemporaryDirectory() as scratch:
        runs = enumerate(cells.groupby("folder"))
        parts = [part_of(Path(str(run)), rows, Path(scratch) / str(number)) for number, (run, rows) in runs]
        whole = parts[0]
        if len(parts) > 1:
            whole = Path(scratch) / entry.name
            merge = [sys.executable, "-m", "rooflens", "merge", "-o", entry.name, *(part.name for part in parts)]
            if subprocess.run(merge, stdout=subprocess.DEVNULL, cwd=scratch).returncode:
                return  # it has said what differs
        names = chain([entry.name], (f"{entry.name}-{number}" for number in count(2)))
        place = next(place for name in names if not (place := target / name).exists())
        place.mkdir(parents=True)
        for path in (*whole.glob("*.csv"), whole / MANIFEST):
            content, ending = path.read_bytes(), STORED_AS.get(path.name, "")
            content = by_columns(content) if ending == COLUMNS else content
            content = lzma.compress(content, preset=lzma.PRESET_EXTREME | 9) if ending else content
            (place / f"{path.name}{ending}").write_bytes(content)


def threads(run: str) -> int:
    """CPU threads that a run had: machines of several GPUs have more, and runs of both do not merge."""
    return int(json.loads((Path(run) / MANIFEST).read_text("utf-8"))["threads"])


def part_of(run: Path, cells: pd.DataFrame, target: Path) -> Path:
    """Copy a run with some of its cells alone."""
    target.mkdir()
    contents = {path.name[: path.name.index(".csv") + 4]: read_stored(path) for path in run.glob("*.csv*")}
    tables = {name: pd.read_csv(BytesIO(text), dtype=str, keep_default_na=False) for name, text in contents.items()}
    kept = tables["cells.csv"].merge(cells[CELL].astype(str), on=CELL)["cell_id"]
    for name, rows in tables.items():
        rows = rows[rows["cell_id"].isin(kept)] if "cell_id" in rows else rows
        rows.to_csv(target / name, index=False, lineterminator="\n")
    content = json.loads((run / MANIFEST).read_text("utf-8").replace(f"{ROOT}/", ""))
    content["planned_units"] = kept.nunique() * content["rounds"]
    (target / MANIFEST).write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    return target


def table(standings: Mapping[Entry, pd.DataFrame]) -> Iterator[str]:
    """Yield the lines of the table, tier by tier."""
    for tier in sorted({entry.tier for entry in standings}):
        own = {entry: cells for entry, cells in standings.items() if entry.tier == tier}
        whole = sum(not left_s(cells) for cells in own.values())
        yield f"tier {tier}: {whole} of {len(own)} entries whole, {sum(map(left_s, own.values())) / 60:.0f} min left"
        yield f"  {'':27}{'cells':>7}{CURRENT:>9}{EXPIRED:>9}{MISSING:>9}{'min left':>10}"
        for entry, cells in own.items():
            counts = "".join(f"{(cells['state'] == state).sum():9}" for state in (CURRENT, EXPIRED, MISSING))
            yield f"  {entry.name:27}{len(cells):7}{counts}{left_s(cells) / 60:10.1f}  {entry.why}"


def main() -> None:
    """Print the table, measure, or store."""
    asked = options(
        __doc__, measure=False, store=False, within="9m", gpus=1, tiers="", folder="runs/campaign",
        stored=str(ROOT / "docs" / "results"), on="",
    )  # fmt: skip
    deadline = time.monotonic() + seconds(asked.within, "--within")
    folder, target, here = Path(asked.folder), Path(asked.stored), find_device("auto")
    device = asked.on or (here.name if here.is_gpu else "NVIDIA H200")
    if asked.measure and not (here.is_gpu and device == here.name):
        sys.exit(f"campaign: --measure is for the GPU of this machine, and this is {here.name}")
    model = "-".join(device.lower().split()[1:])  # without the vendor
    entries = [
        replace(entry, name=f"{model}-{entry.name}") for entry in ENTRIES if entry.tier in (asked.tiers or "ABC")
    ]

    def look() -> dict[Entry, pd.DataFrame]:
        suites = {load(entry.arguments.split()[0]).name for entry in entries}
        known = known_cells((folder, target), suites, device)  # what is stored, of two that are current
        return {entry: standing(entry, known) for entry in entries}

    found = look()
    if asked.measure:
        folder.mkdir(parents=True, exist_ok=True)
        next_tier = min((entry.tier for entry, cells in found.items() if left_s(cells)), default="")
        chosen = {entry: cells for entry, cells in found.items() if entry.tier in (asked.tiers or next_tier)}
        measure(jobs(chosen, folder), asked.gpus, deadline)
        found = look()
    print(f"on {device}", *table(found), sep="\n")
    for entry, cells in found.items() if asked.store else ():
        measured = cells[cells["folder"].map(lambda run: Path(str(run)).parent == folder)]
        for _, alike in measured.groupby(measured["folder"].map(threads)):
            store(entry, alike, target)


if __name__ == "__main__":
    main()

"""The measurements behind the claims of the documents: what to measure, why, and how long it takes on an H200.

1. `ENTRIES` lists runs in three tiers, each with its reason. A long one has parts: filters that split its problems.
2. Without --measure, the list is printed: which runs are stored, which are expired or missing, and the device time that
   they need.
3. --measure runs what is not stored, first tier first, one part per GPU at a time, each within its budget, and stops
   before --within is over. A second call goes on where the first one stopped.
4. --store joins the parts of finished runs, and writes them to a folder such as docs/results: times in the digits of
   their timer, tables compressed.

    python benchmarks/campaign.py --measure --within 9m --gpus 4 --tiers AB --folder runs/campaign
    python benchmarks/campaign.py --store docs/results --folder runs/campaign
"""

import gzip
import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from options import options
from rooflens.cli.shared.values import seconds

ROOT = Path(__file__).resolve().parents[1]
DIGITS = 5
"""Significant digits of a time: CUPTI counts 32 ns of launches that take 2 us and more."""

START_S = 25
"""Imports, operands and ceilings of one run."""

SPREAD = ((512, 2048), (2048, 2048), (2048, 768), (1024, 4096), (4096, 4096), (2880, 4096), (3584, 18944),
          (14336, 4096), (5120, 13824), (8192, 8192), (28672, 8192), (2048, 7168))  # fmt: skip
"""(N, K) of the twelve shapes that stand for the forty of llm4bit."""

TRAINED = ("Llama-2-7B", "Llama-2-70B", "Llama-3.1-8B", "Llama-3.1-405B", "Qwen2.5-7B", "Qwen2.5-72B", "Mistral-7B")
OURS_4BIT = "-p simt_4bit -p cuda_4bit -p mma_4bit -p dequant_blas -p blas -p stock_triton"
FP8 = "-p cuda_fp8 -p torch_scaled_mm_fp8 -p blas_bf16_fp8 --baseline torch_scaled_mm_fp8 --challenger cuda_fp8"


def any_of(template: str, *values: object) -> str:
    """Join a condition over values with `or`."""
    return " or ".join(template.format(*(value if isinstance(value, tuple) else (value,))) for value in values)


@dataclass(frozen=True, slots=True)
class Entry:
    """One run: arguments of `rooflens run`, the device time of each of its parts, and what asks for it."""

    tier: str
    name: str
    why: str
    arguments: str
    seconds: float
    parts: tuple[str, ...] = ("",)


def _spread(dtype: str, seconds: float) -> Entry:
    sizes = any_of("N == {} and K == {}", *SPREAD)
    return Entry(
        "A", f"h200-llm4bit-{dtype}", f"speedups and crossovers of the 4-bit document in {dtype}",
        f"llm4bit --dtype {dtype} --cache cold -a M=1,4,16,64,256,1024,2048 {OURS_4BIT} --rounds 5 --budget 0.1s",
        seconds, (sizes,),
    )  # fmt: skip


def _training(pass_: str, seconds: float, *groups: tuple[str, ...]) -> Entry:
    return Entry(
        "A", f"h200-fp8-{pass_}", f"84 shapes of the training document, {pass_}: ours, cuBLAS and bf16",
        f"fp8-train {FP8} --rounds 2 --budget 0.1s", seconds,
        tuple(f"scheme == 'fp8-blockwise' and `pass` == '{pass_}' and model in {group!r}" for group in groups),
    )  # fmt: skip


ENTRIES = (
    _spread("bf16", 240),
    _spread("fp16", 240),
    _spread("fp32", 260),
    _training("fwd", 260, TRAINED[:3] + TRAINED[4:5] + TRAINED[6:], (TRAINED[3], TRAINED[5])),
    _training("bwd", 330, TRAINED[:3] + TRAINED[4:5] + TRAINED[6:], (TRAINED[3],), (TRAINED[5],)),
    _training("step", 380, TRAINED[:3] + TRAINED[4:5] + TRAINED[6:], (TRAINED[3],), (TRAINED[5],)),
    Entry("A", "h200-fp8-train-rounds", "twelve shapes of the training document with intervals",
          f"fp8-train {FP8} --rounds 5 --budget 0.1s", 200,
          ("scheme == 'fp8-blockwise' and model == 'Llama-2-7B' and `pass` != 'bwd'",)),
    Entry("A", "h200-fp8-quant", "quantizers of the training document", "fp8-quant --rounds 3 --budget 0.1s", 110),
    Entry("A", "h200-mxfp8-quant", "quantizers of the MX-FP8 document",
          "mxfp8-quant --cache cold --rounds 5 --budget 0.1s", 120),
    Entry("A", "h200-ao-quant", "five quantizers of torchao's document", "ao-quant --rounds 5 --budget 0.1s", 60),
    Entry("A", "h200-ao-dense", "torchao's dense products", "ao-dense --rounds 3 --budget 0.1s", 300,
          ("M <= 4096", "M > 4096")),
    Entry("A", "h200-ao-grouped", "torchao's grouped products, one launch, a loop and bf16",
          "ao-grouped -p cuda_grouped_ao -p grouped_ao -p loop_ao -p loop_bf16_ao -p grouped_mm_bf16_ao --rounds 3 "
          "--budget 0.1s", 240, ("E in (8, 16)",)),
    Entry("A", "h200-ao-grouped-linear", "grouped linears: forward and step, casts inside",
          "ao-grouped-linear -p cuda_grouped_ao -p grouped_mm_bf16_ao --rounds 3 --budget 0.1s", 150,
          ("E in (8, 16)",)),
    Entry("A", "h200-ao-linear", "dense linears: forward and step, casts inside",
          "ao-linear -p cuda_ao -p blas_bf16_ao --rounds 3 --budget 0.1s", 150),
    Entry("A", "h200-mxfp8-decode", "decode grid of the MX-FP8 document",
          "mxfp8-decode --cache cold -p cuda_mx -p gemv_mx -p mma_mx -p dispatch_mx -p stock_triton_mx -p "
          "small_tile_mx -p blas_bf16_mx -p dequant_blas_mx -a M=1,2,4,8,16,32,64 --rounds 5 --budget 0.1s", 480,
          ("M in (1, 4, 16)", "M in (2, 8, 32, 64)")),
    Entry("A", "h200-mxfp8-moe", "MoE of the MX-FP8 document, all ten shapes",
          "mxfp8-moe --cache cold --rounds 3 --budget 0.1s", 300, ("M in (1, 2, 4, 8)", "M in (16, 32, 64, 128)")),
    Entry("A", "h200-mxfp8-moe-weighted", "the second GEMM of the MoE, weighted",
          "mxfp8-moe-weighted --rounds 3 --budget 0.1s", 180),
    Entry("A", "h200-a16w8", "DeepSeek table and the large case of the A16W8 document",
          "a16w8-deepseek --cache cold --rounds 5 --budget 0.1s", 300, ("dtype == 'bf16'", "dtype == 'fp16'")),
    Entry("B", "h200-llm4bit", "all forty shapes of the 4-bit document, every M",
          f"llm4bit --dtype bf16 --cache cold {OURS_4BIT} --rounds 3 --budget 0.1s", 300,
          ("N * K < 8e6", "8e6 <= N * K < 33e6", "33e6 <= N * K < 65e6", "N * K >= 65e6")),
    Entry("C", "h200-llm4bit-warm", "the 4-bit document, warm",
          f"llm4bit --dtype bf16 --cache warm -a M=1,4,16,64,256 {OURS_4BIT} --rounds 3 --budget 0.1s", 200,
          (any_of("N == {} and K == {}", *SPREAD),)),
    Entry("C", "h200-w4a16", "INT4, MXFP4 and NVFP4 weights on twelve shapes",
          "w4a16 --dtype bf16 --cache cold -a M=1,4,16,64 -p simt_4bit -p cuda_4bit -p mma_4bit -p torch_int4 -p "
          "dequant_blas -p blas --rounds 3 --budget 0.1s", 240, (any_of("N == {} and K == {}", *SPREAD),)),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Job:
    """One part of an entry, measured by one process on one device."""

    entry: Entry
    number: int
    folder: Path

    @property
    def device(self) -> str | None:
        """Device on which it began, and can be resumed; None before."""
        manifest = self.folder / "run.json"
        return json.loads(manifest.read_text("utf-8"))["request"]["device"] if manifest.exists() else None

    def command(self, device: str, left_s: float) -> list[str]:
        """Return the command line that begins or resumes it."""
        start = [sys.executable, "-m", "rooflens", "run", "-o", str(self.folder), "--max-time", f"{left_s:.0f}s"]
        if self.device:
            return [*start, "--resume", "--no-report"]
        chosen = self.entry.parts[self.number]
        filter_ = ["--filter", chosen] if chosen else []
        return [*start, *self.entry.arguments.split(), *filter_, "--no-report", "--device", device]


def jobs_of(entries: list[Entry], folder: Path) -> Iterator[Job]:
    """Parts of entries, tier by tier, the longest first."""
    for tier in sorted({entry.tier for entry in entries}):
        for entry in sorted((one for one in entries if one.tier == tier), key=lambda one: -one.seconds):
            for number in range(len(entry.parts)):
                yield Job(entry, number, folder / f"{entry.name}.{number}")


def is_complete(folder: Path) -> bool:
    """True where a run has every unit that it planned."""
    if not (folder / "run.json").exists() or not (folder / "cells.csv").exists():
        return False
    from rooflens.analysis.frames.load import load_run

    return load_run(folder).missing_units == 0


def measure(jobs: list[Job], gpus: int, deadline: float) -> None:
    """Measure jobs on GPUs, each on the next one that is free, until there is no time left for another."""
    lock = threading.Lock()

    def work(gpu: int) -> None:
        while True:
            with lock:
                left = deadline - time.monotonic()
                job = next((one for one in jobs if one.device in (None, f"cuda:{gpu}")), None)
                if left < 2 * START_S or job is None:
                    return
                jobs.remove(job)
            began = time.monotonic()
            done = subprocess.run(job.command(f"cuda:{gpu}", left - 10), capture_output=True, text=True)
            took = time.monotonic() - began
            last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
            print(f"cuda:{gpu} {job.folder.name}: exit {done.returncode} after {took:.0f} s {last}", flush=True)

    threads = [threading.Thread(target=work, args=(gpu,)) for gpu in range(gpus)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def store(entry: Entry, folder: Path, target: Path) -> None:
    """Join the parts of a finished entry and keep them compressed, with times in the digits of their timer."""
    parts = [folder / f"{entry.name}.{number}" for number in range(len(entry.parts))]
    whole = parts[0]
    if len(parts) > 1:
        whole = folder / entry.name
        subprocess.run([sys.executable, "-m", "rooflens", "merge", "-o", str(whole), *map(str, parts)], check=True)
    place = target / entry.name
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for path in whole.glob("*.csv"):
        text = path.read_text("utf-8")
        if path.name == "samples.csv":
            text = rounded(text)
        if path.name in ("cells.csv", "samples.csv", "telemetry.csv"):
            (place / f"{path.name}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
        else:
            (place / path.name).write_text(text, "utf-8")
    content = json.loads((whole / "run.json").read_text("utf-8"))
    (place / "run.json").write_text(json.dumps(content, indent=1) + "\n", "utf-8")


def rounded(samples: str) -> str:
    """Write the times of samples.csv in the digits that their timer has."""
    header, *lines = samples.splitlines()
    at = header.split(",").index("time_s")
    rows = [line.split(",") for line in lines]
    for row in rows:
        row[at] = f"{float(row[at]):.{DIGITS}g}"
    return "\n".join([header, *(",".join(row) for row in rows)]) + "\n"


def main() -> None:
    """Print the list, measure, or store."""
    asked = options(__doc__, measure=False, within="9m", gpus=1, tiers="ABC", folder="runs/campaign", store="")
    folder = Path(asked.folder)
    entries = [entry for entry in ENTRIES if entry.tier in asked.tiers]
    deadline = time.monotonic() + seconds(asked.within, "--within")
    jobs = list(jobs_of(entries, folder))
    if asked.measure:
        folder.mkdir(parents=True, exist_ok=True)
        measure([job for job in jobs if not is_complete(job.folder)], asked.gpus, deadline)
    for entry in entries:
        mine = [job for job in jobs if job.entry is entry]
        done = sum(is_complete(job.folder) for job in mine)
        print(f"{entry.tier} {entry.name:24} {done} / {len(mine)} parts, {entry.seconds:4.0f} s each: {entry.why}")
        if asked.store and done == len(mine):
            store(entry, folder, Path(asked.store))


if __name__ == "__main__":
    main()

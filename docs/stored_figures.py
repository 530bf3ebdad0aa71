"""The figures of docs/measured-facts.md that follow from stored runs: python docs/stored_figures.py.

Each line is a piece of text that stands there word for word. A ratio is the geometric mean, over the cells that both
providers have, of the time of the other provider over that of the named one; a rate is the median over the cells, of
compulsory bytes or useful FLOPs over time.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from rooflens.analysis.frames.deciding import deciding
from rooflens.analysis.frames.load import load_run
from rooflens.analysis.isa.decoding import decode_seconds
from rooflens.analysis.roofline.bounds import Bound
from rooflens.analysis.roofline.ceilings import Ceilings
from rooflens.analysis.run.pipeline import placed
from rooflens.analysis.run.summarize import summarize
from rooflens.kernels.isa.scan import described_device
from rooflens.kernels.mxfp8.triton_configs import MxTile, filled, tiles
from rooflens.shapes.device import spec
from rooflens.shapes.problem import Problem

RESULTS = Path(__file__).resolve().parent / "results"

PROBLEM = ["op", "B", "E", "top_k", "model", "layer", "N", "K", "M", "pass", "dtype", "scheme", "cache"]


TERA = 1e12

OF_FAMILIES = (
    *("h200-4bit", "h200-mxfp8", "h200-mxfp8-moe", "h200-fp8-84", "h200-fp8-train", "h200-ao-grouped"),
    *("h200-fp8-quant", "h200-ao-quant", "h200-a16w8"),
)
"""Runs of the table of kernel families."""

QUICK_SUITES = (
    *("llm4bit", "mxfp8-decode", "mxfp8-quant", "mxfp8-moe", "a16w8-deepseek", "fp8-quant", "fp8-train"),
    *("ao-dense", "ao-linear", "ao-grouped", "ao-quant"),
)
"""Suites whose quick form is stored with schedules of the machine code."""

SCHEDULED = {f"{suite}-quick": f"h200-{suite}-quick" for suite in QUICK_SUITES} | {
    "fp8-train": "h200-fp8-train-scheduled"
}
"""All suites that are, and their runs."""


def cells_of(name: str, provider: str) -> pd.DataFrame:
    """Cells of one provider of a stored run whose times may decide something."""
    cells = deciding(summarize(load_run(RESULTS / name)))
    return cells[cells["provider"] == provider]


def measured(name: str, pattern: str) -> float:
    """Measured bandwidth of the memory of a stored run, bytes/s, by `pattern` (read, copy, write)."""
    rows = load_run(RESULTS / name).ceilings
    here = (rows["ceiling"] == "bandwidth") & (rows["level"] == "dram") & (rows["pattern"] == pattern)
    return float(rows.loc[here, "value"].iloc[0])


def gemm_peak(name: str) -> float:
    """Measured bf16 GEMM peak of a stored run, FLOP/s."""
    rows = load_run(RESULTS / name).ceilings
    here = (rows["ceiling"] == "peak") & (rows["dtype"] == "bf16") & rows["source"].str.startswith("torch.mm")
    return float(rows.loc[here, "value"].iloc[0])


def published(name: str) -> tuple[float, float]:
    """Published bandwidth (bytes/s) and bf16 peak (FLOP/s) of the device of a stored run."""
    limits = Ceilings.of(load_run(RESULTS / name).ceilings)
    bandwidth, peak = limits.published_bandwidth("dram"), limits.published_peak("bf16")
    assert bandwidth is not None
    assert peak is not None
    return bandwidth.value, peak.value


def rates_by_scheme(name: str, provider: str) -> "pd.Series[float]":
    """Median bandwidth in TB/s by scheme."""
    cells = cells_of(name, provider)
    return cells.groupby("scheme", sort=False)["bandwidth_bytes_per_s"].median() / TERA


def times(name: str) -> pd.DataFrame:
    """Seconds by problem (rows) and provider (columns) of a stored run."""
    cells = summarize(load_run(RESULTS / name))
    return cells[cells["time_s"].notna()].pivot(index=PROBLEM, columns="provider", values="time_s")


def mean(ratios: "pd.Series[float]") -> float:
    """Geometric mean of what is known."""
    return float(np.exp(np.log(ratios.dropna()).mean()))


def by_m(ratios: "pd.Series[float]", form: str) -> str:
    """Write the mean at each M, in order."""
    return ", ".join(f"{mean(part):{form}}" for _, part in ratios.groupby(level="M"))


def figures() -> Iterator[str]:
    """Yield the pieces of text that follow from stored runs."""
    yield from rates()
    yield from ratios()
    yield from explained()
    yield from counted()
    yield from decoded()
    yield from of_cuda_4bit()
    yield from of_default_tiles()
    yield from of_shared_memory()
    yield from of_peers()


def of_cuda_4bit() -> Iterator[str]:
    """Yield what `cuda_4bit` reads of the measured bandwidth, what more rows cost, and how it compares."""
    yield from (
        of_nf4(name, rows) for name, rows in (("h100-cuda4bit", (1, 8, 16, 32, 48, 64)), ("h200-cuda4bit", (1, 8)))
    )
    name = "h100-w4a16"
    cells, seconds = in_all_schemes(cells_of(name, "cuda_4bit")), times(name)
    over = seconds["dequant_blas"] / seconds["cuda_4bit"]
    yield f"{cells.groupby(['N', 'K']).ngroups} layers that all formats have"
    for scheme, mine in cells.groupby("scheme"):
        share = mine.set_index(["N", "K", "M"])["bandwidth_bytes_per_s"].unstack("M") / measured(name, "read")
        sizes = share.index.get_level_values("N") * share.index.get_level_values("K") / 2e6
        parts = [f"{mean(share[1][(sizes >= low) & (sizes < high)]):.0%}" for low, high in ((32, 1e6), (8, 32))]
        taken = mine.set_index(["N", "K", "M"])["time_s"].unstack("M")
        parts.append(f"{mean((taken[8] / taken[1]).dropna()):.2f}×")
        ratios = over.xs(scheme, level="scheme").dropna()
        levels = (ratios.index.get_level_values(name) for name in ("N", "K"))
        ratios = ratios[[shape in share.index for shape in zip(*levels, strict=True)]]
        parts += [f"{mean(ratios.xs(m, level='M')):.2f}×" for m in (1, 16, 32, 64)]
        yield f"| {scheme} | {' | '.join(parts)} |".replace("%", " %")
    counters = pd.read_csv(RESULTS / "h100-cuda4bit" / "counters.csv")
    for (n, k), one in counters.groupby(["N", "K"], sort=False):
        value = one.set_index(one["metric"].str.partition(".")[0])["value"]
        dram = value["dram__bytes_read"] / value["gpu__time_duration"] * 1e12 / measured("h100-cuda4bit", "read")
        names = ("sm__pipe_tensor_op_hmma_cycles_active", "l1tex__data_pipe_lsu_wavefronts", "lts__throughput")
        percent = [*(value[name] for name in names), 100 * dram, value["sm__issue_active"]]
        yield f"| {n} x {k} | {' | '.join(f'{one:.0f} %' for one in percent)} |"


def of_default_tiles() -> Iterator[str]:
    """Yield how the default tiles that a sweep decided on compare with those before, and with the 16-bit product."""
    rows = pd.read_csv(RESULTS / "h200-default-tiles" / "sweep.csv")
    mine, device = rows[rows["provider"] == "mma_mx"], described_device("sm90")
    faster, over = [], []
    for (n, k), one in mine.groupby(["N", "K"]):
        problem = Problem(64, int(n), int(k))
        taken = []
        for tile in (tiles("mma_mx", problem, device)[0], filled(MxTile(64, 128, 128, 8, 3), problem, device)):
            fields = {name: value for name, value in tile.as_json("sm90").items() if name in one.columns}
            taken.append(float(one.loc[(one[list(fields)] == pd.Series(fields)).all(axis=1), "us"].median()))
        faster.append(taken[1] / taken[0])
        over.append(float(one["bf16_us"].iloc[0]) / taken[0])
    means = f"mean {mean(pd.Series(faster)):.2f}"
    yield f"{len(faster)} shapes {min(faster):.2f} to {max(faster):.2f} times as fast, {means}"
    yield f"{min(over):.2f} to {max(over):.2f} of bf16 BLAS"
    mine = rows.query("provider == 'tuned_a16w8' and swap and GROUP_M == 8 and num_warps == 8 and num_stages == 4")
    mine = mine.query("BLOCK_N == 128 and BLOCK_K == 64")
    rate = 2 * 8 * 8192**3 / mine.groupby("BLOCK_M")["us"].median() / 1e6
    yield f"{rate[128]:.0f} to {rate[256]:.0f} TFLOPS"


def in_all_schemes(cells: pd.DataFrame) -> pd.DataFrame:
    """Keep the shapes that have a time at every M in every scheme: a budget may have ended before the others."""
    complete = cells["M"].nunique() * cells["scheme"].nunique()
    return cells[cells.groupby(["N", "K"])["M"].transform("size") == complete]


def of_nf4(name: str, rows: tuple[int, ...]) -> str:
    """Return what a run of `llm4bit` says of `cuda_4bit`."""
    times, megabytes = {}, {}
    for provider in ("cuda_4bit", "simt_4bit", "dequant_blas"):
        cells = cells_of(name, provider)
        times[provider] = cells.pivot_table(index=["N", "K"], columns="M", values="time_s")
        megabytes[provider] = cells[cells["M"] == 1].groupby(["N", "K"])["compulsory_bytes"].first() / 1e6
    mine, size, read = times["cuda_4bit"], megabytes["cuda_4bit"], measured(name, "read")
    share = size * 1e6 / mine[1] / read
    large, medium = (mean(share[(size >= low) & (size < high)]) for low, high in ((32, 1e6), (8, 32)))
    more = mine[8] / mine[1]
    ratios_over = ", ".join(f"{mean((times['dequant_blas'][m] / mine[m]).dropna()):.2f}× at M = {m}" for m in rows)
    ratio = times["simt_4bit"][1] / mine[1]
    slower, largest = int((ratio < 1).sum()), size[ratio < 1].max()
    return (
        f"Geometric means at M = 1: {large:.0%} of the measured read bandwidth where weights take 32 MB and more, "
        f"{medium:.0%} from 8 to 32 MB. M = 8 takes {more.median():.2f} times as long as M = 1, at most "
        f"{more.max():.2f}. Over `dequant_blas`: {ratios_over}. At M = 1 `simt_4bit` is faster on {slower} of the "
        f"{len(mine)} shapes, none above {largest:.0f} MB."
    ).replace("%", " %")


def rates() -> Iterator[str]:
    """Yield those with rates, in the order of the page."""

    def at(provider: str, columns: int, depth: int) -> float:
        cells = cells_of("h200-llm4bit", provider)
        row = cells[(cells["M"] == 1) & (cells["N"] == columns) & (cells["K"] == depth)]
        return float(row["bandwidth_bytes_per_s"].median()) / TERA

    copy, read = (measured("h200-llm4bit", pattern) for pattern in ("copy", "read"))
    largest, square = (8192, 28672), (4096, 4096)
    yield (
        f"({at('simt_4bit', *largest):.2f} TB/s of compulsory bytes on 8192 x 28672, against {read / TERA:.2f} TB/s "
        f"measured reads)"
    )
    yield f"Seen: {at('simt_4bit', *largest) * TERA / read:.0%} on the largest weights".replace("%", " %")
    yield f"({at('simt_4bit', *square):.2f} TB/s on 4096 x 4096)"
    yield (
        f"bitsandbytes' kernel: {at('bitsandbytes_gemm', *largest):.2f} and {at('bitsandbytes_gemm', *square):.2f} TB/s"
    )
    bandwidth, peak = published("h200-llm4bit")
    gemm = gemm_peak("h200-llm4bit")
    yield (
        f"copy {copy / TERA:.2f} TB/s and reads {read / TERA:.2f} TB/s of {bandwidth / TERA:.1f} "
        f"({100 * copy / bandwidth:.0f} and {100 * read / bandwidth:.0f} %); bf16 GEMM {gemm / TERA:.0f} TFLOPS of "
        f"{peak / TERA:.0f} ({100 * gemm / peak:.0f} %)"
    )

    copies, reads = ([measured(name, pattern) / TERA for name in OF_FAMILIES] for pattern in ("copy", "read"))
    yield f"{min(copies):.2f} to {max(copies):.2f} TB/s, reads {min(reads):.2f} to {max(reads):.2f}"
    cells = cells_of("h200-4bit", "simt_4bit")
    seen = cells.loc[(cells["M"] == 1) & (cells["compulsory_bytes"] >= 32e6), "bandwidth_bytes_per_s"]
    yield (
        f"{seen.median() / TERA:.2f} TB/s in the median of {len(seen)} shapes "
        f"({100 * seen.median() / measured('h200-4bit', 'read'):.0f} %), {seen.max() / TERA:.2f} at best"
    )
    cells = cells_of("h200-fp8-train", "specialised_fp8")
    product = cells[(cells["scheme"] == "fp8-blockwise-prequantized") & (cells["pass"] == "fwd")]
    yield f"without it ({product['flops_per_s'].median() / TERA:,.0f} TFLOPS)"
    own, theirs = (
        rates_by_scheme(*names)
        for names in (("h200-fp8-quant", "triton_quant_fp8"), ("h200-ao-quant", "triton_quant_ao"))
    )
    yield f"80 % of the copy bandwidth ({0.8 * measured('h200-fp8-quant', 'copy') / TERA:.2f} TB/s)"
    yield (
        f"rows {own['fp8-quant-row']:.2f}, columns {own['fp8-quant-col']:.2f}, both in one launch "
        f"{own['fp8-quant-rowcol']:.2f}, weight blocks {own['fp8-quant-weight']:.2f}; torchao's "
        + ", ".join(f"{rate:.2f}" for rate in theirs)
    )

    cells = cells_of("cpu-llm4bit-quick", "simd_4bit_cpu")
    cells = cells[(cells["N"] == 4096) & (cells["K"] == 4096)].set_index("M")
    one, read = cells.loc[1, "bandwidth_bytes_per_s"], measured("cpu-llm4bit-quick", "read")
    yield (
        f"{one / 1e9:.0f} GB/s of compulsory bytes at M = 1, {100 * one / read:.0f} % of the measured read bandwidth "
        f"of {read / 1e9:.0f} GB/s"
    )
    yield (
        f"{cells.loc[64, 'flops_per_s'] / TERA:.2f} TFLOPS at M = 64, of a measured bf16 GEMM peak of "
        f"{gemm_peak('cpu-llm4bit-quick') / TERA:.2f}"
    )


def ratios() -> Iterator[str]:
    """Yield those with ratios, in the order of the table of kernel families."""
    found = times("h200-4bit")
    low = found[found.index.get_level_values("M") <= 64]
    better = low["bitsandbytes_gemm"] / low[["simt_4bit", "mma_4bit"]].min(axis=1)
    yield f"{mean(better):.2f}× over {better.count()} cells; M = 1, 4, 16, 32, 64: {by_m(better, '.2f')}"
    at_64 = found.xs(64, level="M")
    yield f"still loses to dequantize + BLAS ({mean(at_64['dequant_blas'] / at_64['mma_4bit']):.2f}×)"

    found = times("h200-mxfp8")
    stock, tiles, dense = (
        found[name] / found["dispatch_mx"] for name in ("stock_triton_mx", "small_tile_mx", "blas_bf16_mx")
    )
    yield f"`dispatch_mx` {mean(stock):.1f}× (M = 1, 4, 16, 64: {by_m(stock, '.1f')}); {mean(tiles):.1f}× over 16-row"
    yield " and **".join(by_m(dense, ".2f").rsplit(", ", 1)) + "** of bf16 BLAS"

    found = times("h200-mxfp8-moe")
    plain, routed = (
        mean(found["stock_triton_moe"] / found[name]) for name in ("grouped_moe", "grouped_with_align_moe")
    )
    yield f"`grouped_moe` {plain:.1f}×, with the routing in the call {routed:.1f}×"

    wide, deep = times("h200-fp8-84"), times("h200-fp8-train")
    forward, step, train = (
        frame["torch_scaled_mm_fp8"] / frame["specialised_fp8"]
        for frame in (wide.xs("fwd", level="pass"), wide.xs("step", level="pass"), deep)
    )
    whole, product = "fp8-blockwise", "fp8-blockwise-prequantized"

    def of_train(ratios: "pd.Series[float]", pass_: str, scheme: str) -> float:
        return mean(ratios.xs((pass_, scheme), level=("pass", "scheme")))

    yield (
        f"{mean(forward):.2f}× over {forward.count()} of the 84 shapes with the quantization in the call; Llama-2-7B "
        f"at M = 8192: {of_train(train, 'fwd', whole):.2f}×, and {of_train(train, 'fwd', product):.2f}× without it"
    )
    again = times("h200-fp8-shared")
    shared = again["shared_fp8"] / again["specialised_fp8"]
    yield f"{of_train(shared, 'step', whole):.2f}× and {of_train(shared, 'step', product):.2f}× (`h200-fp8-shared`)"
    largest = times("h200-fp8-largest").squeeze()
    names = ("specialised_fp8", "torch_scaled_mm_fp8", "blas_bf16_fp8")
    yield " ".join(f"`{name}` {largest[name] * 1e3:.0f}" for name in names)
    yield (
        f"Of cuBLAS: {of_train(train, 'step', whole):.2f}× and {of_train(train, 'step', product):.2f}×; "
        f"{mean(step):.2f}× over {step.count()} of the 84 shapes"
    )

    found = times("h200-ao-grouped")
    grouped = found["grouped_mm_bf16_ao"] / found["grouped_ao"]
    yield f"{mean(grouped):.2f}× over {grouped.count()} cells ({grouped.min():.2f} to {grouped.max():.2f})"


OLDER = ("roof", "mxfp8", "4bit")
"""Runs of before the schedules."""

FAMILIES = {
    "4-bit": list(SCHEDULED)[:1],
    "MX-FP8": list(SCHEDULED)[1:3],
    "MoE": list(SCHEDULED)[3:4],
    "A16W8": list(SCHEDULED)[4:5],
    "FP8 training": [*list(SCHEDULED)[5:7], "fp8-train"],
    "torchao": list(SCHEDULED)[7:11],
    "FP8 training in its quick suites alone": list(SCHEDULED)[5:7],
}


def explained() -> Iterator[str]:
    """Yield the shares of the cells that no limit explains: per suite before schedules and launches were, and now;
    per family; and by provider, those whose machine code was not read, and those whose main kernel's was.
    """
    every = {}
    for suite, stored in SCHEDULED.items():
        run = load_run(RESULTS / stored)
        cells = summarize(run)
        unscheduled = cells.assign(schedule_clocks=np.nan, pipe_clocks=np.nan, kernels_s=np.nan, kernels="")
        slow = cells.assign(time_s=2 * cells["time_s"], kernels_s=2 * cells["kernels_s"])
        before, now, slower = (placed(run, frame)[0] for frame in (unscheduled, cells, slow))
        count = int((now["bound_class"] != "").sum())
        shares = [(frame["bound_class"] == Bound.UNEXPLAINED).sum() / count for frame in (before, now)]
        ours = now[now["schedule_clocks"].notna() & (now["bound_class"] != "")]
        own = (ours["bound_class"] == Bound.UNEXPLAINED).mean()
        yield f"| `{suite}` | {count} | {shares[0]:.0%} | {shares[1]:.0%} | {own:.0%} |".replace("%", " %")
        every[suite] = now.assign(slow_class=slower["bound_class"])[now["bound_class"] != ""]
    for family, suites in FAMILIES.items():
        share = (pd.concat([every[suite] for suite in suites])["bound_class"] == Bound.UNEXPLAINED).mean()
        yield f"{family} {share:.0%}".replace("%", " %")
    cells = pd.concat(every.values())
    gemms = cells[cells["kernels"].str.contains("nvjet_")]
    once, twice = ((gemms[name] == Bound.UNEXPLAINED).sum() for name in ("bound_class", "slow_class"))
    yield f"Of {len(gemms)} cells with GEMMs of cuBLAS {once} are unexplained; if they took twice as long, {twice}"
    left = cells[cells["bound_class"] == Bound.UNEXPLAINED]
    unread = left[left["schedule_clocks"].isna()]
    read = left[left["schedule_clocks"].notna()]
    yield f"Of {len(cells)} cells {len(left)} are left. {len(unread)} run machine code that was not read"
    yield f"Of the other {len(read)}"
    beyond = (read["time_s"] - read["latency_time_s"])[read["provider"] == "mma_4bit"] * 1e6
    yield f"{beyond.min():.0f} to {beyond.max():.0f} µs beyond the schedule"
    older = [placed(run, summarize(run))[0] for run in (load_run(RESULTS / f"h200-{name}") for name in OLDER)]
    shares = [(frame.loc[frame["bound_class"] != "", "bound_class"] == Bound.UNEXPLAINED).mean() for frame in older]
    yield f"{100 * min(shares):.0f} to {100 * max(shares):.0f} % of the cells of"
    for part in (unread, read):
        for provider, count in part["provider"].value_counts().items():
            yield f"`{provider}` {count}"


def counted() -> Iterator[str]:
    """Yield what a schedule counts over what hardware counters saw, by the pipe that it calls the busiest."""
    rows = pd.read_csv(RESULTS / "h200-schedule" / "counters.csv")
    for pipe, clocks, column in (("issue", 1, "instructions"), ("conversion", 8, "conversions")):
        found = rows[rows["pipe"] == pipe]
        ratios = found["pipe_clocks"] / clocks * 4 * found["workgroups"] / found[column]  # four schedulers
        yield f"{len(found)} kernels: {ratios.min():.3f} to {ratios.max():.3f}"


def of_shared_memory() -> Iterator[str]:
    """Yield what GEMMs of cuBLAS and transposing copies of torch do to shared memory and the L1 cache, as counted."""
    rows = pd.read_csv(RESULTS / "h200-schedule" / "shared_memory.csv")
    copies = rows[rows["kernel"] == "copy_"]
    elements = copies["B"] * copies["N"] * copies["K"]
    each, busy = copies["wavefronts"] / elements, copies["wavefronts_percent"]
    yield f"{each.min():.2f} to {each.max():.2f} wavefronts per element, at up to {busy.max():.0f} % of one per clock"
    gemms = rows[rows["kernel"] != "copy_"]
    read, written = [], []
    for one in gemms.itertuples():
        tile_rows, columns = map(int, str(one.kernel).split("_")[3].split("x"))
        tiles = -(-one.N // tile_rows) * -(-one.M // columns)
        per_tile = 2 * one.K * np.array([tile_rows + -(-tile_rows // 64) * columns, tile_rows + columns])
        read.append(4 * one.bank_reads / (tiles * per_tile[0]))
        written.append(4 * one.bank_writes / (tiles * per_tile[1]))
    yield (
        f"{len(gemms)} GEMMs of cuBLAS read {min(read):.2f} to {max(read):.2f} times what the rule says, and write "
        f"{min(written):.2f} to {max(written):.2f} times their operands"
    )
    last = gemms.iloc[-1]
    turns = 100 * last["bank_writes"] * 4 / 128 / 132 / last["elapsed_clocks"]
    reads = last["wavefronts_percent"]
    yield f"reads are served in {reads:.0f} % of the clocks, and writes would take {turns:.0f} % more"


DEEPGEMM_TFLOPS = {
    (4096, 7168, 4096): 1279,
    (7168, 2048, 4096): 1206,
    (7168, 16384, 4096): 1067,
    (4096, 4096, 4096): 1219,
    (4096, 7168, 8192): 1274,
    (7168, 2048, 8192): 1213,
    (7168, 16384, 8192): 1235,
    (12288, 4096, 8192): 1332,
}
"""By (N, K, M), on an H200: tables of NVIDIA's AIConfigurator, measured in SGLang 0.5.14."""


def of_peers() -> Iterator[str]:
    """Yield how 4-bit GEMMs compare with Marlin, GemLite and bitsandbytes, `blas_best` with `blas`, FP8 with cuBLAS."""
    seconds = times("h100-w4a16-peers")
    for provider in ("cuda_4bit", "marlin", "simt_4bit", "blas"):
        ratios = seconds["dequant_blas"] / seconds[provider]
        yield f"| `{provider}` | {by_m(ratios, '.2f').replace(', ', ' | ')} |"
    ratios = seconds["marlin"] / seconds["cuda_4bit"]
    yield f"{ratios.min():.2f} to {ratios.max():.2f} times as fast as Marlin in the {len(ratios)} cells"
    seconds = times("h200-w4a16-peers")
    yield f"{by_m((seconds['dequant_blas'] / seconds['gemlite_4bit']).dropna(), '.2f')} over `dequant_blas`"
    seconds = times("h100-4bit-bitsandbytes")
    cuda, mma = (seconds["matmul_4bit"] / seconds[name] for name in ("cuda_4bit", "mma_4bit"))
    sizes = cuda.index.get_level_values("N") * cuda.index.get_level_values("K") / 2e6
    slower = sizes[cuda < 1]
    yield (
        f"`cuda_4bit` is {mean(cuda):.2f} times as fast as `bitsandbytes.matmul_4bit` over {len(cuda)} shapes, "
        f"{mean(cuda[sizes >= 8]):.2f} times where weights take 8 MB and more; slower on {len(slower)}, of "
        f"{slower.max():.1f} MB at most. `mma_4bit`: {mean(mma):.2f} times, slower on {int((mma < 1).sum())}"
    )
    seconds = times("h100-blas-best")
    ratios = seconds["blas"] / seconds["blas_best"]
    yield f"{mean(ratios):.2f} times as fast as `blas`, between {ratios.min():.2f} and {ratios.max():.2f}"
    cells = cells_of("h100-blas-best", "blas_best")
    shape = [name for name in ratios.index.names if name in cells.columns]
    found = cells.set_index(shape)["config"].map(lambda text: json.loads(text)["found"]).reindex(ratios.index)
    kept, searched = ratios[found == "mm"], ratios[found != "mm"]
    yield f"It kept torch's choice in {len(kept)} of {len(ratios)} cells ({kept.min():.2f} to {kept.max():.2f})"
    gained, lost = (searched > 1.02).sum(), (searched < 0.98).sum()
    yield f"of the other {len(searched)}, {gained} gained more than 2 %, {lost} lost as much"
    cells = pd.concat(cells_of("h100-fp8-deepgemm", name) for name in ("specialised_fp8", "torch_scaled_mm_fp8"))
    cells["tflops"] = 2 * cells["M"] * cells["N"] * cells["K"] / cells["time_s"] / TERA
    for (n, k), one in cells.groupby(["N", "K"], sort=False):
        ours, theirs = (one[one["provider"] == name].set_index("M")["tflops"] for name in one["provider"].unique())
        yield f"| {n} x {k} | " + " | ".join(f"{ours[m]:,.0f} | {theirs[m]:,.0f}" for m in (4096, 8192))
    reached = cells.set_index(["provider", "N", "K", "M"])["tflops"]
    for provider in ("specialised_fp8", "torch_scaled_mm_fp8"):
        near = sum(reached[provider, *shape] >= 0.97 * one for shape, one in DEEPGEMM_TFLOPS.items())
        yield f"`{provider}` is within 3 % of, or above, {near} of these {len(DEEPGEMM_TFLOPS)}"


def decoded() -> Iterator[str]:
    """Yield how far cells are above the time that decoding takes at least by `rooflens isa`'s rates."""
    found = []
    for name in ("roof", "llm4bit-quick", "mxfp8-decode-quick", "a16w8-deepseek-quick"):
        cells = summarize(load_run(RESULTS / f"h200-{name}"))
        found.append(cells.assign(times=cells["time_s"] / decode_seconds(cells, spec("NVIDIA H200 SXM"))))
    cells = pd.concat(found).dropna(subset="times")
    yield f"{len(cells)} cells, the nearest {cells['times'].min():.2f}×"
    for provider in ("simt_4bit", "gemv_4bit_opt", "mma_4bit"):
        at_64 = cells.loc[(cells["provider"] == provider) & (cells["M"] == 64), "times"]
        yield f"`{provider}` {at_64.min():.2f}×"


if __name__ == "__main__":
    print("\n".join(figures()))

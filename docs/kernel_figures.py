"""How fast kernels are in stored runs: the rates that they reach, and how they compare with each other.

Each function `of_...` yields pieces of text of docs/measured-facts.md. A ratio is the geometric mean, over the cells
that both providers have, of the time of the other provider over that of the named one; a rate is the median over the
cells, of compulsory bytes or useful FLOPs over time.
"""

import json
from collections.abc import Iterator
from itertools import combinations

import numpy as np
import pandas as pd
from rooflens.kernels.mxfp8.triton_configs import MxTile, filled, tiles
from rooflens.plugins.isa.compiled.scan import described_device
from rooflens.shapes.problem import Problem
from stored_runs import RESULTS, bandwidth, by_m, by_provider, by_shape, cells_of, limit, mean, percent, row, speedup

REASONS = ("barrier", "short_scoreboard", "long_scoreboard", "wait")
"""Why warps wait, as `ncu` names it: for other warps, shared memory, memory or copies, and fixed latencies."""


def of_binaries() -> Iterator[str]:
    """Yield how many binaries of each Triton kernel compile for AMD GPUs, and which providers launch the same ones."""
    table = pd.read_csv(RESULTS / "isa-amd" / "isa.csv.gz").query("verdict != 'unsupported'")
    binaries = table.drop_duplicates(["arch", "provider", "config", "kernel", "specialization", "code"])
    passed = (binaries["verdict"] == "passed").groupby([binaries["provider"], binaries["arch"]], sort=False)
    texts = passed.sum().astype(str) + " of " + passed.size().astype(str)
    for provider, counts in texts.unstack("arch", fill_value="–").iterrows():
        yield row(f"`{provider}`", *counts)
    launched = table.groupby(["scheme", "M", "arch", "provider"], sort=False)["code"].agg(frozenset).unstack("provider")
    for one, other in combinations([name for name in launched if not name.startswith("dispatch_")], 2):
        both = launched[[one, other]].dropna()
        same = both.index[both[one] == both[other]].to_frame(index=False)
        places = same.groupby("M")["arch"].agg(lambda found: ", ".join(dict.fromkeys(found)))
        for place, rows in places.groupby(places):
            yield f"`{one}` and `{other}` at M = {', '.join(map(str, rows.index))} on {place}"


def of_cpu() -> Iterator[str]:
    """Yield what the 4-bit kernel of CPUs reaches."""
    name = "cpu-llm4bit-quick"
    reads, products = (
        by_shape(cells_of(name, "simd_4bit_cpu"), column).loc[(4096, 4096)] for column in ("tb_per_s", "tflops")
    )
    one, read = 1e3 * reads[1], 1e3 * bandwidth(name, "read")
    yield (
        f"{one:.0f} GB/s of compulsory bytes at M = 1, {percent(one / read)} of the measured read bandwidth of "
        f"{read:.0f} GB/s"
    )
    peak = limit(name, ceiling="peak", dtype="bf16", kind="measured")
    yield f"{products[64]:.2f} TFLOPS at M = 64, of a measured bf16 GEMM peak of {peak:.2f}"


def of_cuda_4bit() -> Iterator[str]:
    """Yield what `cuda_4bit` reads of the measured bandwidth, what more rows cost, and how it compares."""
    yield _of_nf4("h200-cuda4bit", (1, 8, 16, 32, 64))
    yield _disturbed("h200-cuda4bit")
    own = cells_of("h200-cuda4bit", "cuda_4bit")
    share = by_shape(own, "tb_per_s")[1] / bandwidth("h200-cuda4bit", "read")
    size = by_shape(own, "compulsory_bytes")[1]
    large, medium = share[size >= 32e6], share[size.between(8e6, 32e6)]
    yield f"60 % is {_met(mean(large), 0.6)} over {len(large)} shapes of 32 MB and more"
    yield (
        f"45 % for 8 to 32 MB is {_met(mean(medium), 0.45)} over {len(medium)} shapes, "
        f"with {100 * mean(medium):.1f} %, {percent(medium.min())} in the least"
    )
    cells, dequantized = (cells_of("h200-4bit-formats", provider) for provider in ("cuda_4bit", "dequant_blas"))
    for scheme, own in cells.groupby("scheme"):
        seconds = by_shape(own)
        over = by_shape(dequantized[dequantized["scheme"] == scheme]) / seconds
        ratios = (seconds[8] / seconds[1], *(over[m] for m in (1, 16, 32, 64)))
        yield row(scheme, *_read_shares(own, "h200-4bit-formats"), *(f"{mean(one):.2f}×" for one in ratios))


def _disturbed(name: str) -> str:
    cells = cells_of(name)
    return f"{(cells['disturbed'] != '').sum()} of its {len(cells)} cells were disturbed"


def _met(reached: float, goal: float) -> str:
    return "met" if reached >= goal else "missed"


def of_w4a16_models() -> Iterator[str]:
    """Yield how `cuda_4bit` and others compare with dequantize + BLAS on layers of models of 2024 and 2025."""
    name = "h200-w4a16-models"
    for dtype, run in (("bf16", name), ("fp16", f"{name}-fp16"), ("bf16, warm", f"{name}-warm")):
        for scheme, one in speedup(run, "cuda_4bit", "dequant_blas").groupby("scheme"):
            yield row(scheme, dtype, *by_m(one), f"{one.min():.2f}")
    layers = ["model", "layer", "N", "K"]
    counts = [
        cells_of(f"{name}{suffix}", "cuda_4bit").groupby("scheme")[layers].apply(lambda one: len(one.drop_duplicates()))
        for suffix in ("", "-fp16", "-warm")
    ]
    yield f"up to {counts[0].max()} layers in bf16 cold, {max(count.max() for count in counts[1:])} in the others"
    shares = " and ".join(_read_shares(cells_of(name, "cuda_4bit"), name))
    yield f"weights of 32 MB and more, and of 8 to 32 MB, are read at {shares} of the read bandwidth"


def of_w4a16_providers() -> Iterator[str]:
    """Yield how all providers compare with dequantize + BLAS on the same layers."""
    for provider in ("cuda_4bit", "torch_int4", "simt_4bit", "mma_4bit", "stock_triton", "blas", "blas_best"):
        yield row(f"`{provider}`", *by_m(speedup("h200-w4a16-models-providers", provider, "dequant_blas")))


def of_counters() -> Iterator[str]:
    """Yield what hardware counters say of kernels: shares of the peak (of the DRAM, of the measured bandwidth), and how
    many warps of a scheduler wait in a clock in which one issues.
    """
    counters = pd.read_csv(RESULTS / "h200-stream-k" / "counters.csv")
    units = ("sm__pipe_tensor_op_hmma_cycles_active", "l1tex__data_pipe_lsu_wavefronts", "lts__throughput")
    for (provider, m, n, k), one in counters.groupby(["provider", "M", "N", "K"], sort=False):
        value = one.set_index("metric")["value"]
        rate = value["dram__bytes_read"] / value["gpu__time_duration"] / 1e6  # TB/s
        shares = (*value[[*units]], 100 * rate / bandwidth("h200-cuda4bit", "read"), value["sm__issue_active"])
        waits = (value[f"smsp__average_warps_issue_stalled_{reason}_per_issue_active"] for reason in REASONS)
        said = (*(f"{share:.0f} %" for share in shares), *(f"{number:.1f}" for number in waits))
        yield row(f"`{provider}`", m, f"{n} x {k}", *said)
    mx = counters[(counters["provider"] == "cuda_mx") & (counters["M"] == 64)].groupby("metric")["value"]
    matrix, shared, slots = (
        f"{low:.0f} to {high:.0f} %"
        for low, high in ((mx.min()[name], mx.max()[name]) for name in (*units[:2], "sm__issue_active"))
    )
    yield f"Neither matrix units ({matrix}), shared memory ({shared}) nor issue slots ({slots})"


def of_cuda_mx() -> Iterator[str]:
    """Yield how `cuda_mx` compares with the Triton kernels and the 16-bit product."""
    name = "h200-cuda-mx"
    yield _disturbed(name)
    seconds = by_provider(name)
    triton = seconds[["gemv_mx", "mma_mx"]].min(axis=1) / seconds["cuda_mx"]
    dense, small = (speedup(name, "cuda_mx", other) for other in ("blas_bf16_mx", "small_tile_mx"))
    for what, ratios in (("the faster of `gemv_mx` and `mma_mx`", triton), ("bf16 BLAS", dense)):
        yield row(what, *by_m(ratios))
    yield row("`small_tile_mx`", *by_m(small, ".1f"))
    at_64 = dense.xs(64, level="M")
    weights = at_64.index.get_level_values("N") * at_64.index.get_level_values("K") / 1e6
    yield (
        f"at M = 64 it is {at_64.min():.2f} to {at_64.max():.2f} times as fast as bf16 BLAS over {len(at_64)} layers, "
        f"{mean(at_64[weights > 28]):.2f} times where weights take over 28 MB, {mean(at_64[weights < 28]):.2f} below"
    )
    yield f"not to be slower than bf16 BLAS, is {_met(mean(at_64), 1)} in the mean"
    before = mean((seconds["blas_bf16_mx"] / seconds["mma_mx"]).xs(64, level="M"))
    yield f"`mma_mx` {before:.2f} times there"


def of_launches_mx() -> Iterator[str]:
    """Yield what launches of `cuda_mx` at M = 64 consist of, and what other ways of scaling take."""
    ladder = pd.read_csv(RESULTS / "h200-stream-k" / "ladder_mx.csv").pivot_table(
        index="variant", columns="K", values="us", sort=False
    )
    for variant, ratios in (ladder / ladder.loc["as it is"]).iterrows():
        yield row(variant, *(f"{ratio:.2f}" for ratio in ratios))
    scales = pd.read_csv(RESULTS / "h200-stream-k" / "scales_mx.csv").pivot_table(
        index="ROWS", columns="variant", values="us"
    )
    for over, under in (("in bf16", "in fp32"), ("in fp32", "loaded after the product has begun")):
        ratios = scales[over] / scales[under]
        yield f"{ratios.min():.2f} to {ratios.max():.2f} of the time of {'fp32' if under == 'in fp32' else 'before'}"


def of_cuda_a16w8() -> Iterator[str]:
    """Yield how `cuda_a16w8` compares with dequantize + bmm, the Triton kernel and the 16-bit product."""
    name = "h200-a16w8-large"
    ratios = {one: speedup(name, "cuda_a16w8", one) for one in ("dequant_bmm_a16w8", "tuned_a16w8", "bmm_bf16_a16w8")}
    for other, one in ratios.items():
        yield row(f"`{other}`", *by_m(one.xs("bf16", level="dtype")))
    over = ratios["dequant_bmm_a16w8"].xs("bf16", level="dtype")
    yield f"{over.min():.2f} times in the least of {len(over)} cells, below 1 in {(over < 1).sum()}"
    large = cells_of(name).query("B == 16").set_index(["provider", "dtype"])
    for dtype in ("bf16", "fp16"):
        speeds = (f"{one.xs((16, dtype), level=('B', 'dtype')).item():.2f}×" for one in ratios.values())
        yield row("16 x 8192³", dtype, f"{large['tflops']['cuda_a16w8', dtype]:.0f} TFLOPS", *speeds)
    mine, other = (large.loc[provider] for provider in ("cuda_a16w8", "dequant_bmm_a16w8"))
    overlap = (mine["time_low_s"] < other["time_high_s"]) & (other["time_low_s"] < mine["time_high_s"])
    yield f"In {'neither' if overlap.all() else 'one' if overlap.any() else 'either'} type do the intervals decide"
    snr = cells_of(name).groupby(["provider", "dtype"])["snr_db"].median()
    bf16, fp16 = snr["cuda_a16w8"][["bf16", "fp16"]]
    bf16_once, fp16_once = snr["dequant_bmm_a16w8"][["bf16", "fp16"]]
    yield f"{bf16:.1f} dB in bf16 and {fp16:.1f} in fp16, {bf16_once:.1f} and {fp16_once:.1f} where"


def of_tiles_a16w8() -> Iterator[str]:
    """Yield what tiles of 128 rows take of the time of those of 256."""
    sweep = pd.read_csv(RESULTS / "h200-a16w8-large" / "tiles.csv")
    tiles = sweep["B"] * np.ceil(sweep["M"] / sweep["COLUMNS"]) * np.ceil(sweep["N"] / 128)
    each = sweep.assign(us=sweep["us"] / np.ceil(tiles / 132))  # the tiles that a block, one per SM, takes at most
    each = each.pivot_table(index=["B", "M", "N", "K"], columns="COLUMNS", values="us")
    low, middle, high = (each[128] / each[256]).quantile([0.25, 0.5, 0.75])
    yield f"{middle:.2f} of the time of one of 256, {low:.2f} to {high:.2f} between the quartiles of {len(each)}"


def _of_nf4(name: str, rows: tuple[int, ...]) -> str:
    """Return what a run of `llm4bit` says of `cuda_4bit`."""
    cells, simt, dequantized = (cells_of(name, provider) for provider in ("cuda_4bit", "simt_4bit", "dequant_blas"))
    seconds, others = by_shape(cells), by_shape(dequantized)
    large, medium = _read_shares(cells, name)
    more, slower = seconds[8] / seconds[1], by_shape(simt)[1] / seconds[1] < 1
    over = ", ".join(f"{mean(others[m] / seconds[m]):.2f}× at M = {m}" for m in rows)
    least = (others[[*rows]] / seconds[[*rows]]).min().min()
    largest = by_shape(cells, "compulsory_bytes")[1][slower].max() / 1e6
    return (
        f"Geometric means at M = 1: {large} of the measured read bandwidth where weights take 32 MB and more, "
        f"{medium} from 8 to 32 MB. M = 8 takes {more.median():.2f} times as long as M = 1 in the median, at most "
        f"{more.max():.2f}. Over `dequant_blas`: {over}; {least:.2f}× in the least cell. At M = 1 `simt_4bit` is "
        f"faster on {slower.sum()} of the {len(seconds)} shapes, none above {largest:.1f} MB."
    )


def of_launches() -> Iterator[str]:
    """Yield what launches of `cuda_4bit` at M = 1 consist of, and what other ways of copying and multiplying take."""
    us, rates = _ladder()
    less = us.div(us["as it is"], axis=0)
    medium = less.index.get_level_values("N") * less.index.get_level_values("K") * 0.5625e-6 < 32
    for variant in less.columns:
        yield row(variant, *(f"{mean(less.loc[of, variant]):.2f}" for of in (medium, ~medium)))
    yield f"{len(less)} layers of 8 to 132 MB, {medium.sum()} of them below 32"
    for of in (medium, ~medium):
        names = ("as it is", "without products", "plain loads of as many bytes")
        whole, free, loads = (percent(mean(rates.loc[of, name])) for name in names)
        yield f"{whole} of the read bandwidth, {free} if products cost nothing, and plain loads {loads}"
    variants = pd.read_csv(RESULTS / "h200-stream-k" / "variants_4bit.csv").pivot_table(
        index=["M", "N", "K"], columns="variant", values="us"
    )
    together = (variants["parts together"] / variants["parts one by one"]).dropna().groupby("M")
    first, second = (f"{together.min()[m]:.2f} to {together.max()[m]:.2f}" for m in (1, 32))
    yield f"takes {first} of the time that it took when they were loaded block by block at M = 1, {second} at M = 32"
    yield f"over {together.count().max()} sizes on the same card"
    tried = variants.div(variants["as it is"], axis=0).dropna(how="all", subset=["as it is"])
    yield f"Variants at M = 1, over {len(tried)} sizes of 8 to 32 MB"
    ratio = {variant: f"{mean(one.dropna()):.2f}" for variant, one in tried.items() if one.notna().any()}
    yield f"{ratio['5 stages']} with 5 stages instead of 10"
    yield f"{ratio['6 stages']} with 6, {ratio['8 stages']} with 8, {ratio['4 stages']} with 4"
    yield (
        f"tensor maps fetched by the copying warp {ratio['maps fetched by the copying warp']}, not fetched ahead "
        f"{ratio['maps not fetched ahead']}, X copied before W {ratio['X copied before W']}, registers not handed over "
        f"{ratio['registers not handed over']}"
    )
    later = pd.read_csv(RESULTS / "h200-stream-k" / "later.csv")
    for steps, word in ((1, "One step takes"), (2, "two"), (4, "four")):
        ratios = (later[f"later_{steps}_us"] / later["later_0_us"]).groupby(later["provider"]).median()
        first, second = (f"{ratios[name]:.2f}" for name in ("cuda_4bit", "cuda_mx"))
        yield (
            f"{word} {first} of the time (`cuda_4bit`) and {second} (`cuda_mx`)"
            if steps == 1
            else f"{word} {first} and {second}"
        )
    yield f"medians over {len(later)} sizes"
    launches = pd.read_csv(RESULTS / "h200-stream-k" / "copies.csv")
    us = launches[launches["M"] == 1].pivot_table(index=["N", "K", "ROWS", "BLOCKS"], columns="variant", values="us")
    yield f"take {mean((us['three warps issue the copies'] / us['as it is']).dropna()):.2f} of the time of one"
    both = (us["stages in turns by two groups of 8 warps"] / us["one group of 8 warps"]).dropna()
    yield f"take {mean(both):.2f} of the time of one group, over {len(both)} tilings"


def _ladder() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Microseconds of variants of launches at M = 1, by N, K, and the shares of the read bandwidth that those make."""
    launches = pd.read_csv(RESULTS / "h200-stream-k" / "ladder.csv")
    us = launches.pivot_table(index=["N", "K"], columns="variant", values="us", sort=False)
    terabytes = us.index.get_level_values("N") * us.index.get_level_values("K") * 0.5625e-12
    return us, (1e6 / us).mul(terabytes, axis=0) / bandwidth("h200-cuda4bit", "read")


def _read_shares(cells: pd.DataFrame, name: str) -> list[str]:
    """Write the shares of the read bandwidth at M = 1, of 32 MB and more, and of 8 to 32 MB."""
    size, rate = (by_shape(cells, column)[1] for column in ("compulsory_bytes", "tb_per_s"))
    bounds = ((32e6, np.inf), (8e6, 32e6))
    return [percent(mean(rate[(size >= low) & (size < high)]) / bandwidth(name, "read")) for low, high in bounds]


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
    gain = mean(pd.Series(faster))
    yield (
        f"{len(faster)} shapes {min(faster):.2f} to {max(faster):.2f} times as fast as with the tiles before, "
        f"mean {gain:.2f}"
    )
    yield f"{min(over):.2f} to {max(over):.2f} of bf16 BLAS"
    mine = rows.query("provider == 'tuned_a16w8' and swap and GROUP_M == 8 and num_warps == 8 and num_stages == 4")
    mine = mine.query("BLOCK_N == 128 and BLOCK_K == 64")
    rate = 2 * 8 * 8192**3 / mine.groupby("BLOCK_M")["us"].median() / 1e6
    yield f"{rate[128]:.0f} to {rate[256]:.0f} TFLOPS"


def of_gemlite() -> Iterator[str]:
    """Yield how GemLite compares with dequantize + BLAS."""
    yield f"{', '.join(by_m(speedup('h200-w4a16-peers', 'gemlite_4bit', 'dequant_blas')))} over `dequant_blas`"


def of_4bit_peers() -> Iterator[str]:
    """Yield how 4-bit GEMMs compare with Marlin and bitsandbytes."""
    for provider in ("cuda_4bit", "marlin", "simt_4bit", "blas"):
        yield row(f"`{provider}`", *by_m(speedup("h200-marlin", provider, "dequant_blas")))
    ratios = speedup("h200-marlin", "cuda_4bit", "marlin")
    yield f"{ratios.min():.2f} to {ratios.max():.2f} times as fast as Marlin in the {len(ratios)} cells"
    cuda = speedup("h200-4bit-bitsandbytes", "cuda_4bit", "matmul_4bit")
    sizes = cuda.index.get_level_values("N") * cuda.index.get_level_values("K") / 2e6
    yield (
        f"`cuda_4bit` is {mean(cuda):.2f} times as fast as `bitsandbytes.matmul_4bit` over {len(cuda)} shapes, "
        f"{mean(cuda[sizes >= 8]):.2f} times where weights take 8 MB and more, {cuda.min():.2f} in the least cell"
    )


def of_blas_best() -> Iterator[str]:
    """Yield what searching cuBLASLt's list gains over torch's choice."""
    ratios = speedup("h200-blas-best", "blas_best", "blas")
    yield f"{mean(ratios):.2f} times as fast as `blas`, between {ratios.min():.2f} and {ratios.max():.2f}"
    configs = by_provider("h200-blas-best", "config").loc[ratios.index, "blas_best"]
    found = configs.map(lambda text: json.loads(text)["found"])
    kept, searched = ratios[found == "mm"], ratios[found != "mm"]
    yield f"It kept torch's choice in {len(kept)} of {len(ratios)} cells ({kept.min():.2f} to {kept.max():.2f})"
    gained, lost = (searched > 1.02).sum(), (searched < 0.98).sum()
    yield f"of the other {len(searched)}, {gained} gained more than 2 %, {lost} lost as much"
    long, short = (
        pd.read_csv(RESULTS / "h200-stream-k" / f"cuda_4bit_{name}_filler.csv") for name in ("long", "short")
    )
    seemed = short["us"][long["us"] <= 18]
    late = percent((seemed >= 21).mean())
    yield f"of {len(seemed)} configurations that take 18 µs at most, {late} seemed to take 21 and more"

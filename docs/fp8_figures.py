"""How fast FP8 products and training in FP8 are in stored runs; see `kernel_figures` for what the functions yield."""

from collections.abc import Iterator

import pandas as pd
from stored_runs import RESULTS, by_provider, cells_of, mean, row, speedup

DEEPGEMM_TFLOPS = {
    4096: {(4096, 7168): 1279, (7168, 2048): 1206, (7168, 16384): 1067, (4096, 4096): 1219},
    8192: {(4096, 7168): 1274, (7168, 2048): 1213, (7168, 16384): 1235, (12288, 4096): 1332},
}
"""By M and (N, K), on an H200: tables of NVIDIA's AIConfigurator, measured in SGLang 0.5.14."""

DEEPGEMM_GROUPED_TFLOPS = {(4096, 7168): 1346, (7168, 2048): 1214}
"""By N and K, on an H800, 4 groups of 8192 rows or 8 of 4096: README of deepseek-ai/DeepGEMM at 55ab91f."""


def of_fp8_training() -> Iterator[str]:
    """Yield how the specialised FP8 kernels compare with cuBLAS and the shared one, and grouped ones with bf16."""
    own, cublas = "specialised_fp8", "torch_scaled_mm_fp8"
    forward, step = (speedup("h200-fp8-84", own, cublas).xs(name, level="pass") for name in ("fwd", "step"))

    def both(name: str, other: str, of: str) -> list[str]:
        """Write the means of one pass, with the quantization in the call and without."""
        schemes = ("fp8-blockwise", "fp8-blockwise-prequantized")
        ratios = speedup(name, own, other).xs(of, level="pass")
        return [f"{mean(ratios.xs(scheme, level='scheme')):.2f}×" for scheme in schemes]

    yield (
        f"{mean(forward):.2f}× over {forward.count()} of the 84 shapes with the quantization in the call; Llama-2-7B "
        f"at M = 8192: {', and '.join(both('h200-fp8-train', cublas, 'fwd'))} without it"
    )
    yield f"{' and '.join(both('h200-fp8-shared', 'shared_fp8', 'step'))} (`h200-fp8-shared`)"
    largest = by_provider("h200-fp8-largest").squeeze()
    yield " ".join(f"`{name}` {largest[name] * 1e3:.0f}" for name in (own, cublas, "blas_bf16_fp8"))
    products = " and ".join(both("h200-fp8-train", cublas, "step"))
    yield f"Of cuBLAS: {products}; {mean(step):.2f}× over {step.count()} of the 84 shapes"
    grouped = speedup("h200-ao-grouped", "grouped_ao", "grouped_mm_bf16_ao")
    yield f"{mean(grouped):.2f}× over {grouped.count()} cells ({grouped.min():.2f} to {grouped.max():.2f})"


def of_cuda_fp8() -> Iterator[str]:
    """Yield the rates of blockwise FP8 products in CUDA C++ beside others, dense and grouped, and of variants."""
    problem, own, others = ["M", "N", "K"], "cuda_fp8", ("specialised_fp8", "torch_scaled_mm_fp8")
    names = (own, *others)
    cells = pd.concat(cells_of("h200-fp8-deepgemm", name) for name in names)
    rates = cells.pivot_table(index=problem, columns="provider", values="tflops")[[*names]]
    theirs = {(m, *shape): rate for m, rows in DEEPGEMM_TFLOPS.items() for shape, rate in rows.items()}
    for key, reached in rates.iterrows():
        said = f"{theirs[key]:,}" if key in theirs else ""
        yield row(key[0], f"{key[1]} x {key[2]}", *(f"{one:,.0f}" for one in reached), said).replace("|  |", "| |")
    over = {name: f"{mean(rates[own] / rates[name]):.2f}" for name in others}
    yield f"{' and '.join(over.values())} times as fast as `{'` and `'.join(others)}`"
    ratio = pd.Series({key: rates.at[key, own] / rate for key, rate in theirs.items()})
    yield f"{ratio.min():.2f} to {ratio.max():.2f} times DeepGEMM's figure in {len(ratio)}"
    h100, h200 = (mean(speedup(f"{device}-fp8-deepgemm", own, others[1])) for device in ("h100", "h200"))
    yield f"{h100:.3f} times as fast as cuBLAS on an H100, {h200:.3f} on the H200"
    names = ("cuda_grouped_ao", "grouped_ao", "grouped_mm_bf16_ao")
    cells = pd.concat(cells_of("h200-fp8-grouped", name) for name in names)
    rates = cells.pivot_table(index=["E", "N", "K", "scheme"], columns="provider", values="tflops")[[*names]]
    for key, reached in rates.groupby(level=["E", "N", "K"]):
        random, equal = (reached.xs(scheme, level="scheme").iloc[0] for scheme in ("ao-grouped", "ao-grouped-balanced"))
        published = DEEPGEMM_GROUPED_TFLOPS[key[1:]]
        yield row(
            key[0],
            f"{key[1]} x {key[2]}",
            f"{random.iloc[0]:,.0f}",
            *(f"{one:,.0f}" for one in equal),
            f"{published:,}",
        )
    dense = speedup("h200-cuda-ao-dense", "cuda_ao", "gemm_ao")
    of_suites = {
        "`cuda_grouped_ao` over `grouped_ao`": speedup("h200-cuda-ao-grouped", *names[:2]),
        **{f"`cuda_ao` over `gemm_ao`, {scheme}": one for scheme, one in dense.groupby("scheme")},
        **{
            f"`{mine}` over `{other}`, a linear": speedup(run, mine, other)
            for run, mine, others_of in (
                ("h200-cuda-ao-linear", "cuda_ao", ("gemm_ao", "blas_bf16_ao")),
                ("h200-cuda-ao-grouped-linear", "cuda_grouped_ao", ("grouped_ao", "grouped_mm_bf16_ao")),
            )
            for other in others_of
        },
    }
    for products, one in of_suites.items():
        yield row(products, len(one), f"{mean(one):.2f}×", f"{one.min():.2f} to {one.max():.2f}")
    for pass_ in ("fwd", "bwd", "step"):
        speeds = (speedup("h200-cuda-fp8-train", own, other).xs(pass_, level="pass") for other in others)
        yield row(pass_, *(f"{mean(one):.2f}×" for one in speeds))
    yield from _of_fp8_variants(own, others[0])


def _of_fp8_variants(own: str, other: str) -> Iterator[str]:
    """Yield speeds of variants of the FP8 product, what counters say of it, and hazards that a tool reports."""
    folder, problem = RESULTS / "h200-fp8-products", ["M", "N", "K"]
    rows = pd.read_csv(folder / "variants.csv")
    calls = {
        call: one.pivot_table(index=problem, columns="kernel", values="tflops") for call, one in rows.groupby("call")
    }
    for variant, one in rows[rows["kernel"] == own].groupby("variant", sort=False):
        last = one[one["call"] == one["call"].max()].set_index(problem)["tflops"]
        if "16 rows" not in variant and "3 stages" not in variant:  # those differ little
            yield row(variant, f"{mean(last / calls[one['call'].max()][other]):.2f}×", len(last))
    copied = pd.read_csv(folder / "scales.csv").pivot_table(
        index=["scales", "E", *problem], columns="copied", values="tflops"
    )
    first, second, third, last = (
        copied[name]
        for name in (
            "a step ahead, by the warps that multiply",
            "two steps ahead, by the warps that multiply",
            "by one warp, word by word",
            "by three warps, four steps at a time",
        )
    )
    dense = copied.index.get_level_values("E") == 1
    for layout in ("rows", "columns"):
        mine = dense & (copied.index.get_level_values("scales") == f"{layout} next to each other")
        yield f"{mean((second / first)[mine]):.2f}"
        yield f"{mean((last / third)[mine]):.2f}"
    counters = pd.read_csv(folder / "counters.csv")
    units = ["sm__pipe_tensor_op_hmma_cycles_active", "l1tex__data_pipe_lsu_wavefronts"]
    for kernel in (own, other):
        one = counters[(counters["kernel"] == kernel) & (counters["N"] == 12288)].set_index("metric")["value"]
        yield " and ".join(f"{one[unit]:.0f} %" for unit in units)
    by_row = pd.read_csv(folder / "rows.csv").pivot_table(index=problem, columns="variant", values="tflops", sort=False)
    for variant, one in by_row.drop(columns="cuBLAS").items():
        yield row(variant, f"{mean(one / by_row['cuBLAS']):.2f}×")
    stalls = "smsp__average_warps_issue_stalled_dispatch_stall_per_issue_active"
    for kernel in ("cuda_ao", "torch_scaled_mm", "gemm_ao"):
        value = counters[counters["kernel"] == kernel].set_index("metric")["value"]
        active = (f"{value[unit]:.0f} %" for unit in (*units, "sm__issue_active"))
        yield row(f"`{kernel}`", *active, f"{value[stalls]:.1f}")
    shared = pd.read_csv(folder / "sharing.csv")
    clean, spoiled = shared[shared["provider"] == own], shared.query("provider != @own and N == 65664")
    sums = clean.groupby("others")[["different", "launches"]].sum()
    alone, busy = (f"{sums['different'][others]} of {sums['launches'][others]:,}" for others in (0, 3))
    yield f"{alone} launches of `{own}` alone and {busy} beside three others"
    rest = shared.query("provider != @own and N != 65664").groupby("device", sort=False)[["nan", "launches"]].sum()
    yield ", ".join(f"{one['nan']} of {one['launches']:,} on the {device[-4:]}" for device, one in rest.iterrows())
    counts = spoiled.groupby(["device", "others"])[["nan", "launches"]].sum()
    alone, busy, other = (counts.loc[at] for at in (("NVIDIA H200", 0), ("NVIDIA H200", 3), ("NVIDIA H100", 3)))
    assert other["nan"] == other["launches"]
    yield f"had a tile of NaN in {busy['nan']} of {busy['launches']} launches on the H200"
    yield f"in {alone['nan']} of {alone['launches']:,} alone"
    yield f"in all {other['nan']:,} launches on an H100"
    hazards = pd.read_csv(folder / "racecheck.csv").groupby("variant")["hazards"].sum()
    yield f"{hazards['as it is']} hazards"
    yield f"{hazards['every lane arrives']} where every lane arrives"
    yield f"{hazards['every lane arrives, before it has read']} where"

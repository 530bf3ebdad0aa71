"""How fast FP8 products are in stored runs; see `kernel_figures` for what the functions yield."""

from collections.abc import Iterator

import pandas as pd
from stored_runs import RESULTS, mean, row, speedup


def of_cuda_fp8() -> Iterator[str]:
    """Yield speeds of linears in CUDA C++ over others, and of variants of the product."""
    for run, mine, others in (
        ("h200-cuda-ao-linear", "cuda_ao", ("gemm_ao", "blas_bf16_ao")),
        ("h200-cuda-ao-grouped-linear", "cuda_grouped_ao", ("grouped_ao", "grouped_mm_bf16_ao")),
    ):
        for other in others:
            one = speedup(run, mine, other)
            ratios = f"{mean(one):.2f}×", f"{one.min():.2f} to {one.max():.2f}"
            yield row(f"`{mine}` over `{other}`", len(one), *ratios)
    yield from _of_fp8_variants("cuda_fp8")


def _of_fp8_variants(own: str) -> Iterator[str]:
    """Yield speeds of variants of the FP8 product, what counters say of it, and hazards that a tool reports."""
    folder, problem = RESULTS / "h200-fp8-products", ["M", "N", "K"]
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
    one = counters[(counters["kernel"] == own) & (counters["N"] == 12288)].set_index("metric")["value"]
    yield " and ".join(f"{one[unit]:.0f} %" for unit in units)
    by_row = pd.read_csv(folder / "rows.csv").pivot_table(index=problem, columns="variant", values="tflops", sort=False)
    for variant, one in by_row.drop(columns="cuBLAS").items():
        yield row(variant, f"{mean(one / by_row['cuBLAS']):.2f}×")
    stalls = "smsp__average_warps_issue_stalled_dispatch_stall_per_issue_active"
    for kernel in ("cuda_ao", "torch_scaled_mm"):
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

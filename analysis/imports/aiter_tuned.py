"""aiter's tuned tables: GEMM, batched GEMM and fused MoE, times in microseconds (column `us`).

Source: ROCm/aiter @e404860, headers of aiter/configs/*.csv and aiter/configs/model_configs/*.csv:
`[gfx,][cu_num,][B,]M,N,K,[q_dtype_w|bias,dtype,outdtype,scaleAB,bpreshuffle,][libtype,]kernelId|solidx,splitK,us,
kernelName,...` (also in lower case), and `[gfx,]cu_num,token,model_dim,inter_dim,expert,topk,act_type,dtype,q_dtype_a,
q_dtype_w,q_type,use_g1u1,doweight_stage1,...,us1,...,us2,...,us,...`. A row is the best kernel of its problem: which
library it came from is the result, not the case.
"""

from collections.abc import Mapping

from ...shapes.errors import UsageError
from ...shapes.problem import Op, Pass
from .entries import Imported, ImportedCase, case_of, imported
from .table import ImportedTable, Reader

SOURCE = "aiter tuned table"

STORAGE = ("q_type", "q_dtype_a", "q_dtype_w", "outdtype", "scaleAB", "bpreshuffle")
"""Columns that say how operands are stored: together the scheme."""

DETAIL = (
    *("bias", "act_type", "use_g1u1", "doweight_stage1", "gate_mode", "shared_expert_id", "max_m"),
    *("hidden_pad", "intermediate_pad", "xbf16", "flat", "_tag"),
)
"""Other columns that tell cases apart: the layer."""

MOE = ("token", "model_dim", "inter_dim", "expert", "topk")

"""Columns of its sizes: M, K, N, E and top_k."""

TOLERATED = 0.05
"""errRatio, the share of elements outside rtol = atol = 1e-2, that the tuner of blockscale GEMMs accepts."""


def matches(table: ImportedTable) -> bool:
    """Tell by the header."""
    tuned = any(name in table for name in ("cu_num", "gfx", "libtype", "kernelName", "splitK"))
    return tuned and (_is_moe(table) or any(all(name in table for name in names) for names in ("MNK", "mnk")))


def read(table: ImportedTable, columns: Mapping[str, str]) -> Imported:
    """One case per row; rows with `us` 0 or inf were not timed."""
    if "us" not in table:
        raise UsageError(
            f"{table.where} line 1: column us is missing: an untuned table has no times; give the tuned one"
        )

    def case(row: int, column: str, reading: Reader) -> ImportedCase:
        is_moe, of = _is_moe(table), table.text(row, "q_dtype_w")
        op = Op.MOE_GEMM if is_moe or "-moe-" in of else Op.GROUPED_GEMM if "E" in table else Op.GEMM
        # FLOPs are those of both stages, gate and up counted when there are both.
        products = 1 if not is_moe else 3 if table.text(row, "use_g1u1", "0") in ("1", "True") else 2
        letters = "BMNK" if "M" in table else "bmnk"
        sizes, _ = table.sized(row, MOE if is_moe else (*letters, "E", "top_k"))
        return case_of(
            table,
            row,
            "token" if is_moe else letters[1],
            reading(row),
            sizes,
            op,
            Pass.FWD,
            products,
            provider="aiter",
            device=_device(table, row),
            layer=" ".join(["fused_moe" if is_moe else "gemm", *_said(table, row, DETAIL)]),
            dtype=table.text(row, "dtype").removeprefix("torch."),
            scheme=" ".join(_said(table, row, STORAGE)),
            config=" ".join(_said(table, row, ("libtype", "kernelId", "solidx", "splitK", "block_m", "ksplit"))),
            kernels=" ".join(filter(None, (table.text(row, f"kernelName{stage}") for stage in ("", "1", "2")))),
        )

    notes = [f"{SOURCE}: one measurement of the winner of each search: the winner's luck is in its time"]
    inexact = sum(_error(table, row) > TOLERATED for row in range(len(table)))
    if inexact:
        notes.append(f"{table.where}: errRatio of {inexact} rows is above {TOLERATED:g}, which the tuner let pass")
    return imported(SOURCE, table, {"us": "0.000001"}, case, notes)


def _said(table: ImportedTable, row: int, names: tuple[str, ...]) -> list[str]:
    return [f"{name}={text.removeprefix('torch.')}" for name in names if (text := table.text(row, name))]


def _is_moe(table: ImportedTable) -> bool:
    return all(name in table for name in MOE)


def _device(table: ImportedTable, row: int) -> str:
    units = table.text(row, "cu_num")
    return " ".join(filter(None, (table.text(row, "gfx"), f"{units} CU" if units else "")))


def _error(table: ImportedTable, row: int) -> float:
    """Largest errRatio of a row, as a share; some tables write percent."""
    worst = 0.0
    for name in ("errRatio", "err_ratio", "err1", "err2"):
        text = table.text(row, name)
        try:
            worst = max(worst, float(text.rstrip("%")) / (100 if text.endswith("%") else 1))
        except ValueError:
            continue
    return worst

"""What stored compiles say per provider and architecture: ranges of registers, and for how many a claim holds."""

import json
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import pandas as pd

from ...analysis.comparison.machine_code import GROUP
from ...analysis.frames.tables import flat_settings
from ...shapes.conditions import rows_where
from ...shapes.errors import UsageError, quote
from ...shapes.run_folder.columns_isa import ISA
from ...shapes.verdict import Verdict


def binaries(frame: pd.DataFrame) -> pd.DataFrame:
    """Keep the rows that were compiled, and of those of one GROUP with equal machine code the first."""
    return frame.loc[frame["verdict"] == Verdict.PASSED].drop_duplicates([*GROUP, "code"])


def summarize(frame: pd.DataFrame) -> pd.DataFrame:
    """One row per GROUP, in the order of their first rows. Counts of binaries, and ranges over them.

    binaries, failed (neither compiled nor unsupported), unsupported (problems), with_spills, with_byte_stores,
    with_short_stores, with_dwordx4_stores, with_matrix; lowest and highest vgprs, agprs, occupancy and
    decode_per_weight (None where unknown); matrix_instructions: all names.
    """
    rows = []
    for key, group in frame.groupby(GROUP, sort=False):
        compiled = binaries(group)
        declined = group["verdict"] == Verdict.UNSUPPORTED
        row: dict[str, Any] = dict(zip(GROUP, key, strict=True))
        row |= {
            "binaries": len(compiled),
            "failed": len(group) - int((group["verdict"] == Verdict.PASSED).sum()) - int(declined.sum()),
            "unsupported": int(group.loc[declined, "problems"].sum()),
            "with_spills": int((compiled["scratch_bytes"] > 0).sum()),
            "with_byte_stores": int((compiled["store_byte"] > 0).sum()),
            "with_short_stores": int((compiled["store_short"] > 0).sum()),
            "with_dwordx4_stores": int((compiled["store_dwordx4"] > 0).sum()),
            "with_matrix": int((compiled["matrix"] > 0).sum()),
        }
        for name in ("vgprs", "agprs", "occupancy", "decode_per_weight"):
            values = compiled[name].dropna()
            row[f"{name}_low"], row[f"{name}_high"] = (values.min(), values.max()) if len(values) else (None, None)
        names = {name for text in compiled["matrix_instructions"] for name in text.split()}
        row["matrix_instructions"] = " ".join(sorted(names))
        rows.append(row)
    return pd.DataFrame(rows)


def check_claim(frame: pd.DataFrame, claim: str) -> pd.DataFrame:
    """Say for how many binaries of each GROUP a condition over the columns of isa.csv holds, `holds` of `binaries`.

    `claim` is a pandas query such as "store_short == 0". Raises UsageError for what is not a condition.
    """
    compiled = binaries(frame)
    found = compiled.assign(holds=condition(compiled, claim, "--claim"))
    counted = found.groupby(GROUP, sort=False)["holds"].agg(["sum", "size"]).reset_index()
    return counted.rename(columns={"sum": "holds", "size": "binaries"}).assign(claim=claim)


def select(frame: pd.DataFrame, expression: str) -> pd.DataFrame:
    """Keep the rows for which a condition over the columns of isa.csv holds. Raises UsageError when none is left."""
    kept = frame.loc[condition(frame, expression, "--filter")]
    if kept.empty:
        raise UsageError(f"--filter {quote(expression)} leaves no row of {len(frame)}")
    return kept


def condition(frame: pd.DataFrame, expression: str, option: str) -> "pd.Series[bool]":
    """Evaluate a condition per row; what is unknown does not hold. Raises UsageError that names `option`."""
    return rows_where(frame, expression, option, f"the columns of {ISA.file}", "store_short == 0 and arch == 'gfx950'")


def config_text(config: str) -> str:
    """Write a configuration of isa.csv for a reader: "BLOCK_M=16 wgrad.num_warps=4"."""
    return " ".join(f"{name}={value}" for name, value in flat_settings(json.loads(config or "{}")))


def sizes_text(row: Mapping[Hashable, Any]) -> str:
    """Write the sizes of a row that are not 1: "M=16 N=4096 K=4096"."""
    return " ".join(
        f"{name}={row[name]}" for name in ("B", "E", "top_k", "M", "N", "K") if row[name] != 1 or name == "M"
    )


def counts_text(row: Mapping[Hashable, Any], prefix: str, names: Sequence[str]) -> str:
    """Write those counts that are not 0: "1x short, 8x dwordx4"."""
    found = [(name, row[f"{prefix}{name}"]) for name in names]
    return ", ".join(f"{int(number)}x {name}" for name, number in found if not pd.isna(number) and number)

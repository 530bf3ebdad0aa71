"""Records of PyTorch's benchmark database, version 3: one per cell and metric.

Source: pytorch/test-infra @3c0eb5c, clickhouse_db_schema/oss_ci_benchmark_v3/schema.sql; and @630cc2d,
.github/scripts/upload_benchmark_results.py, which reads such a file and adds what identifies the job: `timestamp`,
`repo`, `head_sha`, ... and `runners`. So none of these stands here. Values of an `extra_info` are texts.
"""

from collections.abc import Iterator
from typing import Any

from ...analysis.run.pipeline import Analysis
from ...shapes.problem import SIZES
from ...shapes.scheme import DType
from ...shapes.schemes import parse_scheme
from ..view import Row
from .measured import as_json, measured, rounded


def content(analysis: Analysis) -> bytes:
    """Write the latency (us) and the TFLOPS of each cell; the values of a metric are the medians of its rounds."""
    medians = analysis.rounds.groupby("cell_id")["median_s"].agg(list)
    return as_json(
        [
            {**_described(analysis, name, row), "metric": metric}
            for name, row in measured(analysis)
            for metric in _metrics(row, medians[row["cell_id"]])
        ]
    )


def _described(analysis: Analysis, name: str, row: Row) -> dict[str, Any]:
    device, versions = analysis.run.device, analysis.run.manifest.environment
    scheme = parse_scheme(row["scheme"], DType(row["dtype"]))
    extra = {"benchmark": name, "suite": row["suite"], "pass": row["pass"], "cache": row["cache"]}
    extra |= {"device": device.name, "arch": device.arch, "timer": row["timer"], "config": row["config"]}
    versions = {tool: versions[tool] for tool in ("rooflens", "torch", "triton") if tool in versions}
    return {
        "benchmark": {
            "name": "rooflens",
            "mode": "training" if len(scheme.passes) > 1 else "inference",
            "dtype": row["scheme"],
            "extra_info": extra,
        },
        "model": {
            "name": f"{row['model']} {row['layer']}",
            "type": row["op"],
            "backend": row["provider"],
            "origins": [row["suite"]],
            "extra_info": {size: str(row[size]) for size in SIZES},
        },
        "inputs": {
            "activations": {"dtype": row["dtype"], "extra_info": {}},
            "weights": {"dtype": row["scheme"], "extra_info": {}},
        },
        "dependencies": {
            tool: {"repo": "", "branch": "", "sha": "", "version": version, "extra_info": {}}
            for tool, version in versions.items()
        },
    }


def _metrics(row: Row, medians_s: list[float]) -> Iterator[dict[str, Any]]:
    yield _metric("latency", "us", [time * 1e6 for time in medians_s])
    if row["flops"]:
        yield _metric("tflops", "TFLOPS", [row["flops"] / time / 1e12 for time in medians_s])


def _metric(name: str, unit: str, values: list[float]) -> dict[str, Any]:
    return {"name": name, "benchmark_values": [rounded(value) for value in values], "extra_info": {"unit": unit}}

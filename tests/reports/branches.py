"""Comparisons with a planted truth, as values, for the chapters on two versions."""

import math

import numpy as np
from rooflens.analysis.comparison.effects import Order, Versions, measure_effects, sum_of_passes
from rooflens.analysis.comparison.result import SUM, SUMMED, Result, Side
from rooflens.analysis.comparison.unverified import as_unverified, rank_unverified
from rooflens.reports.build import build_comparison
from rooflens.reports.model import CodeBlock
from rooflens.shapes import shapeset

from ..analysis.compared import versions

TRAINING = {"dtype": "bf16", "scheme": "fp8-blockwise", "provider": "mine"}


ROW = {"model": "m", "M": 16, "N": 64, "K": 64, "base_s": 2e-3, "head_s": 1e-3}
"""One case of a table."""


def result_of(planted: Versions, **more) -> Result:
    """What a comparison of these versions finds."""
    effects = measure_effects(planted)
    summed = sum_of_passes(planted, SUMMED, SUM)
    if planted.order is Order.IMPORTED:
        found = rank_unverified(effects)
        more = {"unverified": found} | more
    sides = {"base": Side("base", "runs/base"), "head": Side("head", "runs/head")}
    sums = measure_effects(summed) if len(summed.cases) else None
    if planted.order is Order.IMPORTED:
        effects, sums = as_unverified(effects), as_unverified(sums) if sums is not None else None
    return Result(
        **{**sides, "order": planted.order, "effects": effects, "sums": sums, "null": None, "notes": ()} | more
    )


def report_of(planted: Versions, **more):
    """The report on them, and its tables by their ids."""
    return build_comparison(result_of(planted, **more))


def table_of(rows, times=("base_s", "head_s"), order=Order.IMPORTED, step_s=0.0, **columns) -> Versions:
    """Cases with one time each in base and head, from rows (dicts with model, layer, M, N, K, pass and the times)."""
    base, head = (np.array([row[name] for row in rows], dtype=float) for name in times)
    sizes = {name: [int(row[name]) for row in rows] for name in ("M", "N", "K")}
    told = {"model": [row["model"] for row in rows], "layer": [row.get("layer", "gemm") for row in rows]}
    passes = [row.get("pass", "fwd") for row in rows]
    products = {"fwd": 1, "bwd": 2, "step": 3}
    flops = [2.0 * m * n * k * products[p] for m, n, k, p in zip(*sizes.values(), passes, strict=True)]
    return versions(
        np.log(head / base)[:, None], times=base, order=order,
        **{**TRAINING, **sizes, **told, "pass_": passes, "flops": flops, "resolution_s": step_s, **columns},
    )  # fmt: skip


def training(change, rounds=8, noise=0.003, seed=0, keep=lambda shape, M: True, **columns) -> Versions:
    """84 problems x fwd and bwd of the training set; `change(shape, M, pass)` is the planted ln(head / base)."""
    rng = np.random.default_rng(seed)
    cases = [
        (shape, M, pass_)
        for shape in shapeset.load("fp8_blockwise_train84")
        for M in shape.Ms
        if keep(shape, M)
        for pass_ in ("fwd", "bwd")
    ]
    effects = np.array([[change(*case)] for case in cases]) + rng.normal(0, noise, (len(cases), rounds))
    flops = np.array([2.0 * M * shape.N * shape.K * (2 if pass_ == "bwd" else 1) for shape, M, pass_ in cases])
    rates = {"fwd": 1400e12, "bwd": 1000e12}
    times = flops / np.array([rates[pass_] for *_, pass_ in cases])
    sizes = {name: [getattr(shape, name) for shape, *_ in cases] for name in ("model", "layer", "N", "K")}
    return versions(
        effects, times=times,
        **{**TRAINING, **sizes, "M": [M for _, M, _ in cases], "pass_": [case[2] for case in cases], "flops": flops}
        | columns,
    )  # fmt: skip


def gain(share):
    """Effect of a throughput gain."""
    return -math.log1p(share)


def less(share):
    """The change of time that a throughput gain is, as a report writes it."""
    return f"{100 * (1 / (1 + share) - 1):+.2f}%".replace("-", "−")


def codes(report):
    return [block for part in report.walk() for block in part.blocks if isinstance(block, CodeBlock)]


def digest_of(report):
    (code,) = (code for code in codes(report) if code.digest)
    return code.text


def exactly(shape, M, pass_):
    """Forward 1 % slower, backward 20 % faster."""
    return gain(-0.01 if pass_ == "fwd" else 0.20)

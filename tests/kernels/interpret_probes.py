"""Run probes in Triton's interpreter. Started with TRITON_INTERPRET=1; cases come and results go as JSON."""

import json
import sys

import torch
from devices import CPU
from rooflens.kernels.probes.probe import Pattern
from rooflens.kernels.probes.triton import floors as triton_floors
from rooflens.kernels.probes.triton import streams as triton_streams


def run_sweep(case: dict) -> dict:
    """Sweep over a ramp of odd numbers; return what is in memory, one number per block where a block has but one."""
    words = triton_streams.BLOCK_WORDS
    pattern, order = Pattern(case["pattern"]), triton_streams.VisitOrder(**case["order"])
    halves = 2 if pattern is Pattern.COPY else 1
    data = torch.arange(1, 2 * halves * order.blocks * words, 2, dtype=torch.int64).mul(987654321).to(torch.int32)
    before = data.clone()
    probe = triton_streams.sweep(pattern, data, order, ".cg")
    probe.run()
    if pattern is Pattern.READ:
        sums = torch.zeros(order.programs, dtype=torch.int32)
        triton_streams.read_kernel[(order.programs,)](
            data, sums, order.blocks, order.step, order.visits, BLOCK=words, MODIFIER=".cg"
        )
        return {"moved": probe.moved_bytes, "changed": not torch.equal(data, before), "sums": sums.tolist()}
    if pattern is Pattern.WRITE:
        offset = data.view(order.blocks, words) - torch.arange(words, dtype=torch.int32)
        uniform = bool((offset == offset[:, :1]).all())
        return {"moved": probe.moved_bytes, "uniform": uniform, "visits": (offset[:, 0] - 1).tolist()}
    source, target = data.view(2, order.blocks, words)
    kept = torch.equal(source, before.view(2, order.blocks, words)[0])
    copied = [bool(torch.equal(source[block], target[block])) for block in range(order.blocks)]
    return {"moved": probe.moved_bytes, "kept": kept, "copied": copied}


def run_tile(case: dict) -> dict:
    torch.manual_seed(case["seed"])
    x, w, y = triton_floors.tile_operands(CPU)
    probe = triton_floors.tile_launch(x, w, y)
    probe.run()
    exact = x.double() @ w.double().t()
    return {"moved": probe.moved_bytes, "error": float((y.double() - exact).abs().max() / exact.abs().max())}


def run_empty(case: dict) -> dict:
    probe = triton_floors.empty_launch(CPU)
    probe.run()
    return {"moved": probe.moved_bytes}


if __name__ == "__main__":
    handlers = {"sweep": run_sweep, "tile": run_tile, "empty": run_empty}
    print(json.dumps([handlers[case["step"]](case) for case in json.load(sys.stdin)]))

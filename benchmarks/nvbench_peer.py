"""nvbench beside our event timer, on the same kernels: python benchmarks/nvbench_peer.py (needs a GPU and cuda-bench).

A row shows the wall time that nvbench takes by its own defaults for its cold measurement, its mean GPU time and number
of samples, and what `measure` takes for a median within +-1 % in the same process.
"""

import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import torch
from rooflens.harness.machine.device import find_device
from rooflens.harness.telemetry.source import telemetry
from rooflens.harness.timing.accelerator import accelerator
from rooflens.harness.timing.cache import Flush, flushed
from rooflens.harness.timing.event_timer import EventTimer
from rooflens.harness.timing.measure import measure
from rooflens.harness.timing.stop import StopRule
from rooflens.kernels import registry
from rooflens.kernels.inputs import make_inputs
from rooflens.shapes.problem import Problem
from rooflens.shapes.protocol import Protocol
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme

CASES = (("simt_4bit", 1, 1024, 2048), ("simt_4bit", 1, 4096, 4096), ("blas", 16, 4096, 4096))


def main() -> None:
    device = find_device("auto")
    try:
        import cuda.bench as bench
    except ImportError:
        print("needs cuda-bench: pip install cuda-bench")
        return
    if not device.is_gpu:
        print("needs a GPU")
        return
    torch.cuda.set_device(device.index)
    machine, flush, source = accelerator(device), Flush(device), telemetry(device)
    scheme = parse_scheme("nf4-g64", DType.BF16)
    walls: dict[str, float] = {}
    ours: dict[str, tuple[float, float, int]] = {}

    def register(provider: str, m: int, n: int, k: int) -> None:
        name = f"{provider}_M{m}_{n}x{k}"
        inputs = make_inputs(Problem(M=m, N=n, K=k), scheme, device, seed=0)
        launch = registry.load([provider])[provider].prepare(inputs).run

        def run(state: "bench.State") -> None:
            def work(task: "bench.Launch") -> None:
                with torch.cuda.stream(torch.cuda.ExternalStream(task.get_stream().addressof())):
                    launch()

            began = time.perf_counter()
            state.exec(work, batched=False)
            walls[name] = time.perf_counter() - began
            began = time.perf_counter()
            timer = EventTimer(machine, flushed(launch, flush))
            taken = measure(flushed(launch, flush), timer, StopRule.of(Protocol(), timer.resolution_s), machine, source)
            ours[name] = time.perf_counter() - began, median(taken.times_s), len(taken.times_s)

        bench.register(run).set_name(name)

    for case in CASES:
        register(*case)
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "nvbench.json"
        bench.run_all_benchmarks([sys.argv[0], "--json", str(result), "--quiet"])
        found = json.loads(result.read_text())
    print(f"{'kernel':32} {'nvbench ms':>11} {'mean us':>9} {'samples':>8}", end=" ")
    print(f"{'ours ms':>9} {'median us':>10} {'samples':>8}")
    for one in found["benchmarks"]:
        said = {entry["tag"]: entry for state in one["states"] for entry in state["summaries"] or ()}
        values = [
            float(said[tag]["data"][0]["value"])
            for tag in ("nv/cold/time/gpu/mean", "nv/cold/sample_size")
            if tag in said
        ]
        mean, samples = values if len(values) == 2 else (float("nan"), float("nan"))
        wall, time_s, count = ours[one["name"]]
        print(
            f"{one['name']:32} {walls[one['name']] * 1e3:11.1f} {mean * 1e6:9.2f} {samples:8.0f} "
            f"{wall * 1e3:9.1f} {time_s * 1e6:10.2f} {count:8}"
        )


if __name__ == "__main__":
    main()

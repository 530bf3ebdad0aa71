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
from rooflens.harness.timing.cache import flushed
from timing import Kernel, Machine, kernels

CASES = (("simt_4bit", 1, 1024, 2048), ("simt_4bit", 1, 4096, 4096), ("blas", 16, 4096, 4096))


def main() -> None:
    machine = Machine()
    try:
        import cuda.bench as bench
    except ImportError:
        print("needs cuda-bench: pip install cuda-bench")
        return
    if not machine.device.is_gpu:
        print("needs a GPU")
        return
    walls: dict[str, float] = {}
    ours: dict[str, tuple[float, float, int]] = {}

    def register(kernel: Kernel) -> None:
        name = kernel.label.replace(" ", "_")

        def run(state: "bench.State") -> None:
            def work(task: "bench.Launch") -> None:
                with torch.cuda.stream(torch.cuda.ExternalStream(task.get_stream().addressof())):
                    kernel.launch()

            began = time.perf_counter()
            state.exec(work, batched=False)
            walls[name] = time.perf_counter() - began
            began = time.perf_counter()
            taken = machine.measure("event", flushed(kernel.launch, machine.flush))
            ours[name] = time.perf_counter() - began, median(taken.times_s), len(taken.times_s)

        bench.register(run).set_name(name)

    for kernel in kernels(CASES, machine.device):
        register(kernel)
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

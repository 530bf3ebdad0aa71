"""Latency and rate of the instructions that kernels of quantized GEMMs are made of, on the GPU at hand.

One warp runs a chain in which each instruction needs the result of the last: its latency. Then 32 warps run eight
chains each on one multiprocessor: the lanes that it serves per clock. `plugins/isa/compiled/schedule.py` takes both
from here.

    python benchmarks/instruction_costs.py      (needs CuPy)
"""

import cupy
import numpy as np

ITERATIONS = 64

INSTRUCTIONS = {
    "mad.lo.s32": "mad.lo.s32 {x}, {x}, {b}, {c};",
    "lop3": "lop3.b32 {x}, {x}, {b}, {c}, 0x96;",
    "prmt": "prmt.b32 {x}, {x}, {b}, {c};",
    "shf": "shf.l.wrap.b32 {x}, {x}, {b}, {c};",
    "pack bf16x2": "cvt.rn.bf16x2.f32 {x}, {x}, {x};",
    "f16 -> f32": "{{.reg .b16 l, h; mov.b32 {{l, h}}, {x}; cvt.f32.f16 {x}, l;}}",
    "f16 -> bf16": "{{.reg .b16 l, h; mov.b32 {{l, h}}, {x}; cvt.rn.bf16.f16 l, l; mov.b32 {x}, {{l, h}};}}",
    "e4m3x2 -> f16x2": "{{.reg .b16 l, h; mov.b32 {{l, h}}, {x}; cvt.rn.f16x2.e4m3x2 {x}, l;}}",
    "u8 -> f32": "{{.reg .b16 l, h; mov.b32 {{l, h}}, {x}; cvt.rn.f32.u8 {x}, l;}}",
    "ex2": "ex2.approx.ftz.f32 {x}, {x};",
    "shfl": "shfl.sync.bfly.b32 {x}, {x}, 1, 31, 0xffffffff;",
    "bar": "bar.sync 0;",
}
"""Name -> PTX of an instruction on registers of 32 bits: {x} is read and written, {b} and {c} are read. Chains of
additions and multiply-adds are not here: the assembler shortens them."""


def clocks(ptx: str, threads: int, chains: int, unroll: int) -> float:
    """Return the clocks per instruction of a warp, with `chains` independent chains; the shortest of three launches."""
    inline = ptx.format(x="%0", b="%1", c="%2")
    turn = "\n".join(f'asm volatile("{inline}" : "+r"(x[{chain}]) : "r"(b), "r"(c));' for chain in range(chains))
    body = "\n".join([turn] * unroll)
    source = f"""
    extern "C" __global__ void run(unsigned* out, unsigned b, unsigned c, int n, long long* taken) {{
        unsigned x[{chains}];
        for (int i = 0; i < {chains}; i++) x[i] = out[threadIdx.x] + i;
        __syncthreads();
        long long began = clock64();
        #pragma unroll 1
        for (int r = 0; r < n; r++) {{ {body} }}
        __syncthreads();
        if (threadIdx.x == 0) *taken = clock64() - began;
        unsigned sum = 0;
        for (int i = 0; i < {chains}; i++) sum += x[i];
        out[threadIdx.x] = sum;
    }}"""
    arch = f"sm_{cupy.cuda.Device().compute_capability}a"
    kernel = cupy.RawKernel(source, "run", backend="nvrtc", options=(f"--gpu-architecture={arch}",))
    out, taken = cupy.ones(1024, dtype=cupy.uint32), cupy.zeros(1, dtype=cupy.int64)
    seen = []
    for _ in range(3):
        kernel((1,), (threads,), (out, np.uint32(0x3F800419), np.uint32(0x3F000003), np.int32(ITERATIONS), taken))
        seen.append(int(taken[0]))
    return min(seen) / (ITERATIONS * unroll * chains)


if __name__ == "__main__":
    print("instruction        latency (clocks)  lanes per clock and multiprocessor")
    for name, ptx in INSTRUCTIONS.items():
        latency = clocks(ptx, threads=32, chains=1, unroll=32)
        rate = 1024 / clocks(ptx, threads=1024, chains=8, unroll=8)
        print(f"{name:18} {latency:16.1f}  {rate:34.0f}")

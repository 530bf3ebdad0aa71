"""Run the chains in Triton's interpreter. Started with TRITON_INTERPRET=1; cases come and results go as JSON."""

import json
import sys

import torch
from rooflens.kernels.probes.triton import vector


def run(case: dict) -> list:
    pattern, width = case["pattern"], case["block"]
    out = torch.empty(1, width, dtype=torch.float32 if pattern == "fma" else torch.int32)
    asm = {"ASM": ""} if pattern == "fma" else {}
    vector.KERNELS[pattern][(1,)](
        out, **vector.operands(pattern, case["rounds"]), BLOCK=width, STEPS=case["steps"], **asm
    )
    return out[0].tolist()


if __name__ == "__main__":
    print(json.dumps([run(case) for case in json.load(sys.stdin)]))

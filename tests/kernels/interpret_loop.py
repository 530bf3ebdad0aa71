"""Run the least kernel with a loop in Triton's interpreter, to see whether it runs any."""

import torch
import triton_probes

triton_probes.loop_kernel[(1,)](torch.empty(1), 5)

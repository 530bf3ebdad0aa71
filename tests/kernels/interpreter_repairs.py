"""Give Triton's interpreter the bf16 and the FP8 of the hardware; import it where TRITON_INTERPRET=1 is set."""

import numpy as np
import torch
import triton.language as tl
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

FP8 = {
    tl.float8e4nv: torch.float8_e4m3fn,
    tl.float8e4b8: torch.float8_e4m3fnuz,
    tl.float8e5: torch.float8_e5m2,
}


def repair():
    """Replace what the interpreter of Triton up to 3.9 does wrong.

    bf16  is kept as its bits in uint16, which tl.dot multiplies as integers (here they are widened to fp32 first), and
          truncated where fp32 becomes bf16 (here it rounds to nearest even, as torch and the GPUs do)
    FP8   narrowing from fp32 loses the carry of the mantissa: 127.4 becomes 64 (here torch narrows, to nearest even)
    """
    dot, cast, narrow = InterpreterBuilder.create_dot, InterpreterBuilder.cast_impl, InterpreterBuilder.create_fp_to_fp

    def widen(handle):
        if handle.dtype.scalar == tl.bfloat16:
            handle.data = (handle.data.astype(np.uint32) << 16).view(np.float32)
            handle.dtype = tl.float32
        return handle

    def create_dot(self, a, b, d, input_precision, max_num_imprecise_acc):
        return dot(self, widen(a), widen(b), d, input_precision, max_num_imprecise_acc)

    def cast_impl(self, src, dst_type):
        if src.dtype.scalar != tl.float32 or dst_type.scalar != tl.bfloat16:
            return cast(self, src, dst_type)
        rounded = torch.from_numpy(np.ascontiguousarray(src.data)).to(torch.bfloat16).view(torch.uint16)
        return TensorHandle(rounded.numpy().reshape(src.data.shape), tl.bfloat16)

    def create_fp_to_fp(self, src, dst_type, rounding_mode):
        wanted = FP8.get(dst_type.scalar)
        if src.dtype.scalar != tl.float32 or wanted is None:
            return narrow(self, src, dst_type, rounding_mode)
        narrowed = torch.from_numpy(np.ascontiguousarray(src.data)).to(wanted).view(torch.uint8)
        return TensorHandle(narrowed.numpy().reshape(src.data.shape), dst_type.scalar)

    InterpreterBuilder.create_dot = create_dot
    InterpreterBuilder.cast_impl = cast_impl
    InterpreterBuilder.create_fp_to_fp = create_fp_to_fp

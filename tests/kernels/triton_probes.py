"""Small Triton kernels that expose single steps to tests. Imported by name in child processes (PYTHONPATH)."""

import os

import triton
import triton.language as tl
from rooflens.kernels.fourbit.triton.decode import byte_permute, decode_word, load_table


@triton.jit
def permute_kernel(a, b, selector, out, BLOCK: tl.constexpr, ISA: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, byte_permute(tl.load(a + i), tl.load(b + i), tl.load(selector + i), ISA))


@triton.jit
def decode_kernel(
    words, out, P3: tl.constexpr, P2: tl.constexpr, P1: tl.constexpr, P0: tl.constexpr, BLOCK: tl.constexpr,
    ISA: tl.constexpr,
):  # fmt: skip
    """out[i, j] = decoded element j of words[i], fp32 [BLOCK, 8]."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    table = load_table(P3, P2, P1, P0, ISA)
    e0, e1, e2, e3, e4, e5, e6, e7 = decode_word(tl.load(words + i), table, P3, P2, P1, P0, ISA)
    tl.store(out + i * 8 + 0, e0)
    tl.store(out + i * 8 + 1, e1)
    tl.store(out + i * 8 + 2, e2)
    tl.store(out + i * 8 + 3, e3)
    tl.store(out + i * 8 + 4, e4)
    tl.store(out + i * 8 + 5, e5)
    tl.store(out + i * 8 + 6, e6)
    tl.store(out + i * 8 + 7, e7)


@triton.jit
def loop_kernel(out, n):
    """out[0] = n (n - 1) / 2, by a loop whose bounds are known at run time only."""
    total = 0.0
    for i in tl.range(tl.program_id(0), n, 1, num_stages=2):
        total += i
    tl.store(out, total)


@triton.jit
def mistake_kernel(out):
    tl.store(out, tl.load(out + tl.arange(0, 3)))  # 3 is not a power of two


class _Aborting:
    @property
    def params(self):
        os.abort()


aborting_kernel = _Aborting()

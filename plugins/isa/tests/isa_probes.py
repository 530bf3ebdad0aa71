"""Kernels and providers for the tests of `rooflens isa`: a pair that stores alike but in another order, and misfits.

`plain` and `transposed` compute out[N, M] = (A B)^T, whose rows run along M: the first stores its accumulator as it is,
two bytes at a time, the second transposes it beforehand, so that a lane holds neighbours.
"""

import os
import time

import triton
import triton.language as tl
from rooflens.kernels.aot import BuildRequest, kernel_path, large_operands
from rooflens.kernels.provider import Provider, Support


@triton.jit
def product_kernel(a, b, out, M, N, K, T: tl.constexpr, BK: tl.constexpr, TRANSPOSED: tl.constexpr):
    m, n = tl.program_id(0) * T + tl.arange(0, T), tl.program_id(1) * T + tl.arange(0, T)
    k = tl.arange(0, BK)
    acc = tl.zeros([T, T], tl.float32)
    for start in range(0, K, BK):
        left = tl.load(a + m[:, None] * K + start + k[None, :])
        right = tl.load(b + n[None, :] * K + start + k[:, None])
        acc = tl.dot(left, right, acc)
    if TRANSPOSED:
        tl.store(out + n[:, None] * M + m[None, :], tl.trans(acc.to(out.dtype.element_ty)))
    else:
        tl.store(out + n[None, :] * M + m[:, None], acc.to(out.dtype.element_ty))


class Misfit:
    """Looks like a jit function until it is compiled."""

    params = ()

    def __init__(self, what):
        self.what = self.cache_key = what

    @property
    def __name__(self):
        os.abort() if self.what == "abort" else time.sleep(60)


aborting_kernel, sleeping_kernel = Misfit("abort"), Misfit("sleep")


class Probe(Provider):
    """Compiled only: it is never launched."""

    def supports(self, problem, scheme, device):
        return Support.no("needs matrix instructions for bf16") if device.arch == "sm89" else Support.yes()

    def candidates(self, problem, scheme, device):
        return [{"T": 64, "num_warps": 4}, {"T": 128, "num_warps": 8}]

    def prepare(self, inputs, config=None):
        raise AssertionError("not to be launched")


class Plain(Probe):
    name = "plain"
    transposed = False

    def builds(self, problem, scheme, device, config):
        sizes = {"M": problem.M, "N": problem.N, "K": problem.K}
        constants = {"T": config["T"], "BK": 32, "TRANSPOSED": self.transposed}
        large = large_operands({"out": problem.M * problem.N * 2})
        arguments = {**dict.fromkeys(("a", "b", "out"), "*bf16"), **sizes}
        return [
            BuildRequest(kernel_path(product_kernel), arguments, constants, {"num_warps": config["num_warps"]}, large)
        ]


class Transposed(Plain):
    name = "transposed"
    transposed = True


class Aborting(Probe):
    name = "aborting"

    def builds(self, problem, scheme, device, config):
        return [BuildRequest(f"{__name__}:aborting_kernel", {}, {}, {"num_warps": config["num_warps"]})]


class Sleeping(Probe):
    name = "sleeping"

    def builds(self, problem, scheme, device, config):
        return [BuildRequest(f"{__name__}:sleeping_kernel", {}, {}, {"num_warps": config["num_warps"]})]


class Faulty(Probe):
    name = "faulty"

    def builds(self, problem, scheme, device, config):
        raise KeyError("num_stages")


PROVIDERS = [Plain(), Transposed(), Aborting(), Sleeping(), Faulty()]

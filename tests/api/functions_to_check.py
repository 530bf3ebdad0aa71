"""A norm in one honest form and many others: what `rooflens bench FILE` reads, and every other door is tried with.

`WRONG`, `FAILED`, `UNCHECKED` and `HONEST` name what becomes of each. Weights are close to one, and the norm of a row
is close to the root of its length, so that the product alone is nearly right.
"""

from functools import lru_cache, partial

import torch

_generator = torch.Generator().manual_seed(0)
x = torch.randn(16, 512, generator=_generator)
w = 1 + 0.1 * torch.randn(512, generator=_generator)
out, own_out, workspace = (torch.zeros_like(x) for _ in range(3))


def norm(x, w, scale=1.0):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True)) * w * scale


def bench_norm():
    return norm(x, w)


class Counter:
    def __init__(self):
        self.calls = 0

    def __call__(self):
        self.calls += 1
        return self.calls


def from_call(number, otherwise):
    """Be honest before the call of this number, then do something else."""
    count = Counter()
    return lambda: norm(x, w) if count() < number else otherwise()


def fail():
    raise ValueError("out of\norder")


def left_alone():
    return out


def remembered():
    kept = {}

    def call():
        if "y" not in kept:
            kept["y"] = norm(x, w)
        return kept["y"]

    return call


@lru_cache
def kept_by_the_interpreter():
    return norm(x, w)


ahead = norm(x, w)


def into_own():
    torch.mul(norm(x, w), 1, out=own_out)


def one_column_off():
    y = norm(x, w)
    y[:, 7] += 1
    return y


WRONG = {
    "input": lambda: x,
    "product": lambda: x * w,
    "constant": lambda: torch.ones(16, 512),
    "not_a_number": lambda: norm(x, w).log(),
    "one_column": one_column_off,
    "half": lambda: norm(x, w).half(),
    "transposed": lambda: norm(x, w).t(),
    "two": lambda: (norm(x, w), norm(x, w)),
    "less_precise": lambda: norm(x.bfloat16(), w.bfloat16()).float(),
    "remembered": remembered(),
    "remembered_copy": lambda: kept_by_the_interpreter().clone(),
    "ahead": lambda: ahead,
    "writes_nothing": left_alone,
    "right_once": from_call(2, lambda: x),
    "right_until_timed": from_call(20, lambda: x),
    "random": lambda: torch.nn.functional.dropout(norm(x, w), 0.01),
}

FAILED = {"at_once": fail, "later": from_call(20, fail)}

UNCHECKED = {"nothing": lambda: None, "ahead_copied": lambda: ahead.clone(), "a_number": lambda: 3}


def written():
    out.copy_(norm(x, w))


def written_beside_a_workspace():
    workspace.copy_(x * w)
    return torch.mul(workspace, torch.rsqrt(x.square().mean(-1, keepdim=True)), out=own_out)


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(w)

    def forward(self):
        return norm(x, self.w)


HONEST = {
    "other_order": lambda: (x.double() / x.double().square().mean(-1, keepdim=True).sqrt() * w).float(),
    "library": lambda: torch.nn.functional.rms_norm(x, (512,), w),
    "written": written,
    "written_own": into_own,
    "beside_a_workspace": written_beside_a_workspace,
    "tuple": lambda: (norm(x, w),),
    "nested": lambda: {"y": [norm(x, w)], "extra": None},
    "arguments": partial(norm, x, w),
    "keywords": partial(norm, x=x, w=w, scale=1.0),
    "layer": Layer(),
    "in_parts": lambda: torch.cat([norm(part, w) for part in x.split(4)]),
    "copied_weights": partial(lambda mine: norm(x, mine), w.clone()),
}

BENCH = {"norm": bench_norm} | WRONG | FAILED | UNCHECKED | HONEST

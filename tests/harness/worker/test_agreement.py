"""What functions of the user reach, and when their outputs can be compared with a baseline's."""

from functools import partial
from itertools import pairwise

import pytest
import torch
from rooflens.harness.worker import agreement
from rooflens.harness.worker.agreement import Agreement, reached
from rooflens.shapes.errors import CorrectnessError

GLOBAL = torch.ones(3)


def nothing():
    return None


def compared(baseline, call):
    """Return why two functions cannot be compared, "" where they agree, "own" or "wrong"."""
    found = Agreement(baseline, {"mine": call}, nothing)
    try:
        reason = found.begin("mine")
        for _ in range(4):
            found.check("mine")
    except CorrectnessError:
        return "wrong"
    return {"agrees": "", "agrees, own operands": "own"}.get(reason, reason)


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape)))


def test_what_a_function_refers_to_is_reached():
    held, default, argument, inner = (torch.zeros(size) for size in (1, 2, 4, 5))

    class Slotted:
        __slots__ = ("tensor",)

    holder = Slotted()
    holder.tensor = torch.zeros(6)

    def helper():
        return [one * inner for one in (GLOBAL,)]

    def call(argument, default=default):
        return held, helper(), holder

    found = reached(partial(call, argument))
    assert sorted(one.numel() for one in found.values()) == [1, 2, 3, 4, 5, 6]
    assert reached(lambda: torch.zeros(3)) == {}
    layer = torch.nn.Linear(2, 3)
    assert {one.data_ptr() for one in layer.parameters()} == reached(lambda: layer(argument)).keys() - {
        argument.data_ptr()
    }


def test_memory_is_one_tensor_however_many_views_it_has():
    x = drawn(8, 8)
    views = [x[2:], x.t(), x[0].expand(4, 8)]
    assert reached(lambda: views).keys() == {x.untyped_storage().data_ptr()}
    assert compared(lambda: views[2] + 1, lambda: x[0].expand(4, 8).clone().add_(1)) == ""


@pytest.mark.parametrize(
    ("baseline", "words"),
    [
        (lambda: None, "the baseline returns no tensor"),
        (lambda: torch.rand(64), "the baseline's own output differs between calls"),
        (lambda: "text", "the baseline returns no tensor"),
        (lambda: torch.zeros(64), "all that the baseline computes is 0 or not finite"),
        (lambda: (torch.full((8, 8), torch.nan), torch.zeros(3, dtype=torch.int64)), "all that the baseline computes"),
    ],
)
def test_a_baseline_that_decides_nothing(baseline, words):
    assert words in compared(baseline, lambda: torch.ones(64))
    assert words in compared(baseline, baseline)


def test_a_baseline_that_keeps_its_output_makes_no_other_wrong():
    x, kept = drawn(64), []

    def keeps():
        kept.append(x * 2)
        return kept[0]

    assert "differs between calls" in compared(keeps, lambda: x * 2)
    kept.clear()
    assert "does not follow" in compared(lambda: keeps().clone(), lambda: x * 2)


def test_operands_in_another_form_follow_what_is_shared():
    x, w = drawn(8, 64), drawn(32, 64)
    packed = w.t().contiguous()
    assert compared(lambda: x @ w.t(), lambda: x @ packed) == "own"
    other_x = x.clone()
    assert "may hold the result" in compared(lambda: x @ w.t(), lambda: other_x @ packed)
    scaled = (x @ w.t()) / 2
    assert "does not follow" in compared(lambda: x @ w.t(), lambda: scaled + scaled + 0 * x[:, :1])


def test_packed_bytes_are_changed_and_indices_are_not():
    packed = torch.randint(0, 256, (1 << 12,), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    code = torch.linspace(-1, 1, 16)
    pairs = torch.cartesian_prod(code, code)

    def nibbles():
        return code[torch.stack((packed >> 4, packed & 15), dim=1).int()]

    assert compared(nibbles, lambda: pairs[packed.int()]) == "own"
    ahead = nibbles()
    assert "does not follow" in compared(nibbles, lambda: ahead + 0 * packed[:1])
    x, ends = drawn(10, 4), torch.tensor([0, 3, 7, 10])

    def sums():
        return torch.stack([x[begin:end].sum(0) for begin, end in pairwise(ends)])

    assert compared(sums, lambda: torch.segment_reduce(x, "sum", offsets=ends, axis=0)) == ""


def test_a_function_that_works_in_place():
    x, own = drawn(64), drawn(64)
    assert compared(lambda: x.add_(1), lambda: torch.add(x, 1, out=x)) == ""
    assert compared(lambda: x + 1, lambda: x.add_(1)) == ""
    assert compared(lambda: x.add_(1), lambda: x.add_(2)) == "wrong"
    assert "may hold the result" in compared(lambda: x + 1, lambda: own.add_(1))
    assert torch.equal(x, drawn(64))


def test_outputs_that_are_written():
    x, out, own = drawn(64), torch.zeros(64), torch.zeros(64)
    scratch = torch.zeros(64)

    def both():
        scratch.copy_(x)
        own.copy_(scratch * 2)

    def writes():
        out.copy_(x * 2)

    assert compared(writes, lambda: torch.mul(x, 2, out=out)) == ""
    assert compared(writes, lambda: [own.copy_(x * 2).numel()]) == ""
    assert compared(writes, lambda: None) == "wrong"
    assert compared(writes, lambda: x * 2) == ""
    assert "writes what the baseline returns" in compared(lambda: x * 2, both)
    writes()  # what is right before the first call is no proof
    assert compared(writes, lambda: None) == "wrong"
    assert compared(writes, lambda: torch.mul(x, 2, out=out)) == ""


def test_what_is_not_finite_in_both_is_alike():
    x = drawn(8, 8)
    x[0] = 0
    mask = torch.full((8, 8), -torch.inf).triu(1)
    assert compared(lambda: x.sum(1, keepdim=True).log() + mask, lambda: mask + x.sum(1)[:, None].log()) == ""
    assert compared(lambda: x + mask, lambda: x) == "wrong"
    assert compared(lambda: x, lambda: x + mask) == "wrong"


def test_a_baseline_that_takes_no_other_operands():
    a = torch.eye(16) + 0.999

    def strict():
        if not torch.equal(a, a.t()):
            raise ValueError("not symmetric")
        return torch.linalg.cholesky(a)

    assert compared(strict, lambda: torch.linalg.cholesky(a)) == ""
    assert compared(strict, lambda: a) == "wrong"


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16, torch.complex64, torch.float8_e4m3fn])
def test_types(dtype):
    x = drawn(32, 32).to(dtype)
    x = x + 1j * x.t() if x.is_complex() else x
    assert compared(lambda: x.clone(), lambda: x.clone()) == ""
    assert compared(lambda: x.clone(), lambda: x.t().contiguous()) == "wrong"


def test_products_are_as_precise_as_torch_is_told(monkeypatch):
    x, w = drawn(32, 64), drawn(64, 32)

    def like_tf32():
        return (x.half().float() @ w.half().float()).clone()

    assert compared(lambda: x @ w, like_tf32) == "wrong"
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "high")
    assert compared(lambda: x @ w, like_tf32) == ""
    assert compared(lambda: x @ w, lambda: (x.bfloat16() @ w.bfloat16()).float()) == "wrong"


def test_what_the_baseline_leaves_is_no_output():
    x, shared = drawn(64), {}

    def baseline():
        shared["y"] = x * 2
        return shared["y"]

    assert compared(baseline, lambda: (x, shared["y"].clone())[1]) == "wrong"


class Holder:
    memo = None, None


@pytest.mark.parametrize(
    "known_by", [lambda x: x[0].item(), lambda x: x.sum().item(), lambda x: tuple(x.tolist()), lambda x: x._version]
)
def test_what_is_kept_for_operands_that_are_known_again_is_wrong(known_by):
    x = drawn(64)

    def keeps(memo):
        if (key := known_by(x)) not in memo:
            memo.clear()
            memo[key] = x * 2
        return memo[key]

    def keeps_out_of_reach():
        if Holder.memo[0] != known_by(x):
            Holder.memo = known_by(x), x * 2
        return Holder.memo[1]

    assert compared(lambda: x * 2, partial(keeps, {})) == "wrong"
    assert compared(lambda: x * 2, partial(keeps, {known_by(x): x * 2})) == "wrong"
    assert compared(lambda: x * 2, keeps_out_of_reach) == "wrong"


def test_integers_have_to_be_right_to_the_bit():
    x = drawn(256)
    assert compared(lambda: (8 * x).int(), lambda: (8 * x).round().int()) == "wrong"
    assert compared(lambda: x > 0, lambda: x.sign() == 1) == ""
    assert compared(lambda: x > 0, lambda: x > 1e-2) == "wrong"


def test_shapes_that_hold_little():
    x = drawn(8)
    assert compared(lambda: x.sum(), lambda: x.flip(0).sum()) == ""
    assert compared(lambda: x.sum(), lambda: x.sum() * 2) == "wrong"
    assert compared(lambda: (x * 2, x[:0]), lambda: (x + x, x[:0])) == ""


class Late(torch.Tensor):
    """Computes when it is read."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        plain = [one.as_subclass(torch.Tensor) * 2 if isinstance(one, cls) else one for one in args]
        return function(*plain, **(kwargs or {}))


@pytest.mark.parametrize(
    "returned", [lambda x: x.as_subclass(Late), lambda x: torch.empty(64, device="meta"), lambda x: x.to_sparse()]
)
def test_what_has_no_elements_in_memory_is_no_output(returned):
    x = drawn(64)
    assert "returns no tensor" in compared(lambda: x * 2, lambda: returned(x))


def test_autograd_does_not_notice():
    x = torch.nn.Parameter(drawn(16))
    loss = x.square().sum()
    assert compared(lambda: x * 2, lambda: x + x) == ""
    assert not x._version
    loss.backward()
    assert torch.equal(x.grad, 2 * x)
    with torch.inference_mode():
        inference = drawn(16)
    assert compared(lambda: inference * 2, lambda: inference + inference) == ""


def test_too_much_memory_is_left_alone(monkeypatch):
    monkeypatch.setattr(agreement, "MOST_BYTES", 100)
    x, w = drawn(64), drawn(64)
    ahead = x * w
    assert compared(lambda: x * w, lambda: w * x) == ""
    assert compared(lambda: x * w, lambda: x) == "wrong"
    assert "may hold the result" in compared(lambda: x * w, lambda: ahead.clone())
    assert compared(lambda: x * w, lambda: ahead) == "wrong"


def test_what_a_function_raises_is_raised():
    x = drawn(4)
    with pytest.raises(ZeroDivisionError):
        compared(lambda: x * 1, lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        compared(lambda: 1 / 0, lambda: x)

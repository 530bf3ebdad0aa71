"""Copies of the operands make launches cold only if each reads a weight of its own: what shares one is refused."""

import functools
import hashlib
from functools import partial

import pytest
import torch
from rooflens.harness.isolation.faults import IncorrectError
from rooflens.harness.plan.plan import Cell
from rooflens.harness.timing.accelerator import TorchHost
from rooflens.harness.worker.bench import Bench
from rooflens.harness.worker.messages import ChosenConfig
from rooflens.harness.worker.operands import Operands
from rooflens.harness.worker.prepared import prepare
from rooflens.kernels import registry
from rooflens.kernels.inputs import make_inputs, make_weight, other_weight
from rooflens.kernels.provider import Launch, Provider
from rooflens.kernels.reference import measure_all
from rooflens.shapes.problem import Problem
from rooflens.shapes.protocol import Protocol
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme
from rooflens.shapes.shapeset import Shape
from rooflens.shapes.suite import Cache

from .test_operands import CASES, CPU, HONEST, are_alike

HOST = TorchHost()
CHOSEN = ChosenConfig(None, "default")


def operands_of(name, problem):
    scheme = parse_scheme(name, DType.BF16)
    weight = make_weight(problem, scheme, CPU, 0)
    found = Operands(make_inputs(problem, scheme, CPU, 0, weight), functools.cache(partial(other_weight, weight)))
    found.draw(1)
    return found


class Packs(Provider):
    """A product with a packed weight; `keep(inputs, pack)` returns what says which one a launch reads."""

    family, name = "fourbit", "packs"

    def __init__(self, keep):
        self._keep = keep

    def prepare(self, inputs, config=None):
        weight, out = self._keep(inputs, lambda: inputs.dequantized().t().contiguous()), inputs.empty_output()
        return Launch(lambda: torch.mm(inputs.x, weight(), out=out), out)


def in_a_dictionary(key, is_lazy=False):
    """Keep packed weights, and what their keys are made of, as a library does that lives as long as the process."""
    kept, alive = {}, []

    def keep(inputs, pack):
        alive.append(inputs)

        def find():
            if key(inputs) not in kept:
                kept[key(inputs)] = pack()
            return kept[key(inputs)]

        if not is_lazy:
            find()
        return find

    return keep


def in_an_attribute(is_first):
    class Library:
        weight = None

    def keep(inputs, pack):
        if Library.weight is None or not is_first:
            Library.weight = pack()
        return lambda: Library.weight

    return keep


def cached():
    """Keep the latest shapes only, as `functools.lru_cache` does."""
    packs = {}
    find = functools.lru_cache(maxsize=4)(lambda n, k: packs[n, k]())

    def keep(inputs, pack):
        packs[inputs.problem.N, inputs.problem.K] = pack
        return partial(find, inputs.problem.N, inputs.problem.K)

    return keep


def in_one_buffer():
    """Pack into scratch memory of the right size, which the launches of a shape have in common."""
    scratch = {}

    def keep(inputs, pack):
        packed = pack()
        buffer = scratch.setdefault(packed.shape, torch.empty_like(packed)).copy_(packed)
        return lambda: buffer

    return keep


SHARED = {
    "by shape": lambda: in_a_dictionary(lambda inputs: (inputs.problem.N, inputs.problem.K)),
    "by shape, at the first launch": lambda: in_a_dictionary(lambda inputs: inputs.packed.shape, is_lazy=True),
    "by number of bytes": lambda: in_a_dictionary(lambda inputs: inputs.packed.nbytes),
    "by scheme and problem": lambda: in_a_dictionary(lambda inputs: (inputs.scheme, inputs.problem)),
    "by scales, which are alike": lambda: in_a_dictionary(lambda inputs: inputs.absmax.sum().item()),
    "the first of a class": lambda: in_an_attribute(is_first=True),
    "the latest of a class": lambda: in_an_attribute(is_first=False),
    "lru_cache": cached,
    "one buffer": in_one_buffer,
}

OWN = {
    "in the launch": lambda: lambda inputs, pack: partial(torch.Tensor.view_as, packed := pack(), packed),
    "by address": lambda: in_a_dictionary(lambda inputs: inputs.packed.data_ptr()),
    "by identity": lambda: in_a_dictionary(lambda inputs: id(inputs.weight)),
    "none": lambda: lambda inputs, pack: pack,
}


def check(provider, operands, copies):
    inputs = operands.inputs
    shape = Shape("model", "layer", inputs.problem.N, inputs.problem.K)
    cell = Cell("suite", shape, inputs.problem, inputs.scheme, provider.name, Cache.COLD)
    ready = prepare(provider, operands.copies(copies), CHOSEN, HOST, other=operands.other(copies))
    bench = Bench(CPU, Protocol())
    for seed in (1, 2):  # of every round
        operands.draw(seed)
        bench.check(ready, operands, cell)
        bench.check_negated(ready, operands, cell)
    assert len(ready.launches) == copies
    return ready


@pytest.mark.parametrize("copies", [2, 5])
@pytest.mark.parametrize("keep", SHARED.values(), ids=SHARED)
def test_a_weight_that_copies_share_is_found(keep, copies):
    with pytest.raises(IncorrectError, match="second weight of the same shape"):
        check(Packs(keep()), operands_of("nf4-g64-nested", Problem(3, 32, 128)), copies)


@pytest.mark.parametrize("keep", SHARED.values(), ids=SHARED)
def test_where_there_is_one_copy_nothing_is_shared(keep):
    check(Packs(keep()), operands_of("nf4-g64", Problem(3, 32, 128)), 1)


@pytest.mark.parametrize("keep", OWN.values(), ids=OWN)
def test_weights_of_their_own_are_right(keep):
    """Also over problems of one weight, whose copies may come to lie where others were: the other weight stays."""
    scheme, problem, provider = parse_scheme("nf4-g64", DType.BF16), Problem(1, 32, 128), Packs(keep())
    weight = make_weight(problem, scheme, CPU, 0)
    other = functools.cache(partial(other_weight, weight))
    for rows in (1, 2, 3):
        check(provider, Operands(make_inputs(Problem(rows, 32, 128), scheme, CPU, 0, weight), other), 4)


def test_equal_weights_that_are_known_by_their_content_are_not_found():
    """A limitation, which docs/measuring.md states."""
    keep = in_a_dictionary(lambda inputs: hashlib.sha256(inputs.packed.numpy().tobytes()).digest())
    check(Packs(keep), operands_of("nf4-g64", Problem(3, 32, 128)), 3)


@pytest.mark.parametrize(("name", "problem"), CASES, ids=[case[0] for case in CASES])
def test_another_weight_differs_in_its_data_alone_and_every_product_tells(name, problem):
    operands = operands_of(name, problem)
    inputs, other = operands.inputs, operands.other()
    assert are_alike((inputs, other))
    pairs = zip(inputs.constant, other.constant, strict=True)
    assert sum(not torch.equal(mine.double(), theirs.double()) for mine, theirs in pairs) == 1
    assert operands.other(1) is None
    for provider in registry.load(HONEST[name], []).values():
        assert check(provider, operands_of(name, problem), 2).other == []
        launch = provider.prepare(other)
        launch()
        assert any(accuracy.failure(inputs.scheme) for accuracy in measure_all(launch.outputs, operands.truth))
        for accuracy in measure_all(launch.outputs, other.reference()):
            assert accuracy.failure(inputs.scheme) == ""

"""A plain function as a provider: which operands it gets, where its output goes, and what is said of a wrong one."""

import functools
from collections.abc import Mapping

import pytest
import rooflens
import torch
from rooflens.harness.isolation.faults import ProviderError
from rooflens.harness.worker.operands import Operands
from rooflens.kernels import registry
from rooflens.kernels.functions import operand_names
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.provider import Role, support
from rooflens.kernels.reference import measure_all
from rooflens.kernels.source_hash import source_hash
from rooflens.shapes.errors import UsageError
from rooflens.shapes.problem import Op, Problem
from rooflens.shapes.schemes.probes import PROBES

from ..environments import ROOT
from .devices import CPU
from .synthetic import scheme_of

FOURBIT = (Problem(5, 96, 512), scheme_of("nf4-g64", "fp32"))


def decoded(packed, absmax, code):
    nibbles = torch.stack((packed >> 4, packed & 15), dim=1).view(absmax.numel(), -1)
    return code[nibbles.int()] * absmax[:, None]


def returns(x, packed, absmax, code):
    return x @ decoded(packed, absmax, code).to(x.dtype).view(-1, x.shape[1]).t()


def writes(out, x, packed, absmax, code):
    out.copy_(returns(x, packed, absmax, code))


def forgets(x):
    x @ x.t()


@pytest.fixture(scope="module")
def inputs():
    return make_inputs(*FOURBIT, CPU, 0)


@pytest.mark.parametrize("kernel", [returns, writes])
def test_a_function_computes_on_fresh_activations_at_every_call(inputs, kernel):
    provider = rooflens.function(kernel, family="fourbit")
    assert (provider.name, provider.family, provider.role) == (kernel.__name__, "fourbit", Role.CANDIDATE)
    launch = provider.prepare(inputs)
    for seed in (1, 2):
        inputs.refresh_activations(seed)
        launch()
        (accuracy,) = measure_all(launch.outputs, inputs.reference())
        assert not accuracy.failure(inputs.scheme)


@pytest.mark.parametrize(
    ("kernel", "options", "words"),
    [
        (lambda x, weights: x, {"name": "mine"}, r"^mine\(x, weights\): weights is no operand of fourbit: there are "),
        (lambda x, /: x, {"name": "mine"}, r"^mine\(x\): x is positional-only"),
        (functools.partial(returns), {}, "give name="),
        (min, {}, "cannot be read"),
        (returns, {"family": "fourbits"}, "did you mean fourbit"),
    ],
)
def test_what_is_no_kernel_gets_a_line(kernel, options, words):
    with pytest.raises(UsageError, match=words) as error:
        rooflens.function(kernel, **{"family": "fourbit"} | options)
    assert "\n" not in str(error.value)


def test_parameters_with_defaults_keep_them(inputs):
    asked = []

    def kernel(x, packed, absmax, code, block=64):
        asked.append(block)
        return returns(x, packed, absmax, code)

    rooflens.function(kernel, family="fourbit").prepare(inputs)()
    assert set(asked) == {64}


def test_a_function_without_a_result_is_told_to_return_one(inputs):
    launch = rooflens.function(forgets, family="fourbit").prepare(inputs)
    launch()
    with pytest.raises(ProviderError, match=r"its output is a NoneType, .* return one"):
        Operands(inputs).outputs_of(launch)


def test_a_function_is_called_in_its_launch_only(inputs):
    """Where it hangs, the limit of a launch ends it, and not that of a build."""
    calls = []
    launch = rooflens.function(lambda x, out: calls.append(x), family="fourbit", name="counts").prepare(inputs)
    assert not calls
    launch()
    assert len(calls) == 1


@pytest.mark.parametrize(("scheme", "problem"), PROBES, ids=lambda value: value if isinstance(value, str) else "")
def test_operands_of_every_family_are_attributes_of_its_inputs(scheme, problem):
    parsed = scheme_of(scheme)
    problem = Problem(128, 128, 256, op=problem.op, E=problem.E, top_k=problem.top_k, B=problem.B)
    made = make_inputs(problem, parsed, CPU, 0)
    names = operand_names(parsed.family)
    assert not {"device", "seed", "activations", "weights"} & set(names)
    operands = [getattr(made, name, None) for name in names]
    assert any(isinstance(one, torch.Tensor) or (isinstance(one, Mapping) and one) for one in operands)


def test_a_problem_without_an_operand_is_declined():
    provider = rooflens.function(lambda a, a_scale, b, b_scale: a, family="torchao", name="gemm")
    product = (Problem(256, 128, 256), scheme_of("ao-1x128-128x128"))
    quantize = (Problem(256, 1, 384, op=Op.QUANTIZE), scheme_of("ao-act-lhs"))
    assert support(provider, *product, CPU).ok
    answer = support(provider, *quantize, CPU)
    assert not answer.ok
    assert "no operand a, a_scale, b, b_scale" in answer.reason
    assert not support(provider, *FOURBIT, CPU).ok


def test_the_hash_follows_the_file_of_the_function(tmp_path):
    text = (ROOT / "examples" / "my_function.py").read_text("utf-8")
    hashes = []
    for folder, code in (("a", text), ("b", text), ("c", text.replace("packed & 15", "packed % 16"))):
        (tmp_path / folder).mkdir()
        file = tmp_path / folder / "mine.py"
        file.write_text(code, "utf-8")
        (provider,) = registry.load((), [file]).values()
        hashes.append(source_hash(provider))
    assert hashes[0] == hashes[1] != hashes[2]

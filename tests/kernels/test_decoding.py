"""Roles against what launches really read: encoded operands are overwritten behind the back of a prepared launch.

A launch whose result changes decodes them itself. One whose result stays took something out of them beforehand: decoded
values, which makes it a reference, or the same bits in another order: FP8 takes half of the memory of bf16, 4-bit less.
"""

import gc
from collections.abc import Iterator

import pytest
import torch
from rooflens.harness.machine.device import find_device
from rooflens.kernels import registry
from rooflens.kernels.dispatcher import Dispatcher
from rooflens.kernels.inputs import Inputs, Tensors, make_inputs
from rooflens.kernels.mxfp8 import blas as mx_blas
from rooflens.kernels.mxfp8_moe import blas as moe_blas
from rooflens.kernels.mxfp8_moe.inputs import MoeInputs
from rooflens.kernels.provider import AnyProvider, Role, support
from rooflens.kernels.reference import measure_all
from rooflens.shapes.device import Device
from rooflens.shapes.problem import Op, Pass, Problem
from rooflens.shapes.scheme import DType

from .checks import bits, results, same
from .contract_cases import moe, schemes
from .devices import H200
from .synthetic import operands, scheme_of

ENCODED = {
    "fourbit": ("nf4-g64", Problem(1, 4096, 4096)),
    "fp8train": ("fp8-blockwise-prequantized", Problem(128, 4096, 4096)),
    "torchao": ("ao-1x128-128x128", Problem(128, 4096, 4096)),
    "mxfp8": ("mxfp8-rceil", Problem(1, 4096, 4096)),
    "mxfp8_moe": ("mxfp8-moe-rceil", Problem(64, 4096, 4096, op=Op.MOE_GEMM, E=1)),
    "a16w8": ("a16w8-128x128", Problem(1, 4096, 4096)),
}
"""By family, a problem whose weights are given encoded and outweigh everything else."""

pytestmark = pytest.mark.usefixtures("eager")


def supported(provider: AnyProvider, device: Device) -> Iterator[Inputs]:
    """Inputs with the largest weight of each scheme, forward: later passes find W quantized, and may keep it."""
    for scheme, problems in schemes(provider.family, DType.BF16):
        able = [one for one in problems if one.pass_ is Pass.FWD and support(provider, one, scheme, device).ok]
        if able:
            yield make_inputs(max(able, key=lambda one: one.N * one.K), scheme, device, seed=11)


def encoded(inputs: Inputs) -> Tensors:
    """What has to be decoded, or quantized and decoded, without routing: where weights alone are encoded, not X."""
    found = inputs.weights if inputs.scheme.family in ("fourbit", "a16w8") else (*inputs.activations, *inputs.weights)
    dense = {tensor.data_ptr() for tensor in decoded(inputs)}
    integers = (torch.int32, torch.int64)
    return tuple(tensor for tensor in found if tensor.dtype not in integers and tensor.data_ptr() not in dense)


def decoded(inputs: Inputs) -> Tensors:
    """Copies of activations that torchao's inputs keep decoded for whoever multiplies without decoding."""
    dense = getattr(inputs, "dense", ())
    return (*([inputs.a_dense] if hasattr(inputs, "a_dense") else []), *(dense if isinstance(dense, tuple) else ()))


def overwrite(inputs: Inputs) -> None:
    """Put other values into the encoded operands, so that torch counts no change of them (`saved.Saved` asks it)."""
    other = make_inputs(inputs.problem, inputs.scheme, inputs.device, seed=12)
    for mine, theirs in zip(encoded(inputs), encoded(other), strict=True):
        mine.data.view(torch.uint8).copy_(theirs.view(torch.uint8))


def storages() -> dict[int, int]:
    """Bytes of each memory that a tensor lies in, by its address."""
    gc.collect()
    tensors = [found for found in gc.get_objects() if issubclass(type(found), torch.Tensor) and not found.is_meta]
    return {found.untyped_storage().data_ptr(): found.untyped_storage().nbytes() for found in tensors}


def kept_bytes(provider: AnyProvider, inputs: Inputs) -> int:
    """Bytes of all tensors that a launch holds besides operands and results."""
    before = storages()
    launch = provider.prepare(inputs)
    results = {output.untyped_storage().data_ptr() for output in launch.outputs}
    return sum(size for at, size in storages().items() if at not in before and at not in results)


def check(provider: AnyProvider, device: Device) -> int:
    """Return the number of schemes that it could be checked with."""
    every = list(supported(provider, device))
    for inputs in every:
        where = f"{provider.name} {inputs.scheme.name} {inputs.problem}"
        launch = provider.prepare(inputs)
        before = bits(results(launch))
        assert same(before, bits(results(launch))), f"{where}: not the same twice"
        overwrite(inputs)
        stays = same(before, bits(results(launch)))
        for tensor in decoded(inputs):
            tensor.data.fill_(torch.nan)
        if provider.role is Role.REFERENCE:
            assert stays, f"{where}: decodes in its launch, so it is no reference"
        elif stays:
            problem = inputs.problem
            experts = len(inputs.groups()) if isinstance(inputs, MoeInputs) else problem.E  # those that are hit
            dense_bytes = 2 * problem.B * experts * problem.N * problem.K
            assert kept_bytes(provider, inputs) < 0.75 * dense_bytes, f"{where}: reads operands decoded beforehand"
        else:
            after = bits(results(launch))
            assert not any(output.isnan().any() for output in launch.outputs if output.is_floating_point()), where
            assert not same(before, after), where
    return len(every)


def test_a_reference_and_nothing_else_reads_decoded_operands_on_the_cpu(provider: AnyProvider) -> None:
    if not check(provider, find_device("cpu")):
        pytest.skip("does not run on a CPU")


@pytest.mark.parametrize(
    ("where", "function", "reference", "decoding", "scheme", "problem", "x", "weights"),
    [
        (mx_blas, "prepare_decode", "blas_bf16_mx", "dequant_blas_mx", "mxfp8-rceil", Problem(5, 33, 256),
         (5, 256), [(33, 256)]),
        (moe_blas, "dequantizer", "loop_bf16_moe", "dequant_loop_moe", "mxfp8-moe-rceil", moe(5, 48, 160, 6, 3),
         (5, 160), [(48, 160)]),
    ],
)  # fmt: skip
def test_a_reference_decodes_changed_activations_once_and_nothing_in_the_call(
    monkeypatch, where, function, reference, decoding, scheme, problem, x, weights
):
    """One role, one meaning: a layer in bf16 has its activations in bf16."""
    decoded: list[tuple[int, ...]] = []
    original = getattr(where, function)

    def counting(*operands):
        run = original(*operands)
        return lambda: (decoded.append(tuple(operands[-1].shape)), run())

    monkeypatch.setattr(where, function, counting)
    inputs = operands(problem, scheme, seed=3)
    launch = registry.load([reference])[reference].prepare(inputs)
    launch()
    launch()
    assert x in decoded
    assert len(decoded) == len(set(decoded))
    for change in (inputs.negate, lambda: inputs.refresh_activations(7), lambda: inputs.x_scale.add_(1)):
        decoded.clear()
        change()
        launch()
        launch()
        assert decoded == [x]
        assert measure_all(launch.outputs, inputs.reference())[0].passes(inputs.scheme)
    launch = registry.load([decoding])[decoding].prepare(inputs)
    for _ in range(2):
        decoded.clear()
        launch()
        assert decoded == [x, *weights * (len(inputs.groups()) if isinstance(inputs, MoeInputs) else 1)]


@pytest.mark.gpu
def test_a_reference_and_nothing_else_reads_decoded_operands_on_a_gpu(provider: AnyProvider) -> None:
    if not check(provider, find_device("cuda")):
        pytest.skip("does not run on this GPU")


def test_the_memory_that_a_launch_touches_is_that_of_its_role_on_a_gpu(provider: AnyProvider) -> None:
    """W takes 2 N K bytes decoded and N K / 2 or more as it is stored: a reference reads the first alone."""
    name, problem = ENCODED[provider.family]
    scheme = scheme_of(name)
    if not support(provider, problem, scheme, H200).ok:
        pytest.skip("does not take this problem")
    if isinstance(provider, Dispatcher):
        pytest.skip("launches the kernels of other providers")
    config = next(iter(provider.candidates(problem, scheme, H200)), {})
    touched = provider.working_set_bytes(problem, scheme, config)
    dense, stored = 2 * problem.N * problem.K, scheme.compulsory_bytes(problem)
    if provider.role is Role.REFERENCE:
        assert dense < touched < dense + problem.N * problem.K / 2
    elif provider.role is Role.DEQUANT_BLAS:
        assert touched > dense + problem.N * problem.K / 2
    else:
        assert stored <= touched
        assert touched < stored + dense or provider.role is Role.UPSTREAM  # bitsandbytes_dequant decodes into a buffer

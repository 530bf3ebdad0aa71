"""What the registry says of a provider on a CPU is what the provider says itself."""

import importlib.util
import os
import shutil

import pytest
import torch
from rooflens.harness.machine.device import find_device
from rooflens.kernels import cpu_info, registry
from rooflens.kernels.provider import support
from rooflens.shapes.schemes.probes import probes

CPU = find_device("cpu")


@pytest.fixture(params=["as it is", "bare"])
def machine(request, monkeypatch):
    """This machine, and one without a compiler and without the packages that a provider may call."""
    if request.param == "bare":
        found = importlib.util.find_spec
        absent = ("bitsandbytes", "torchao", "aiter", "primus_turbo")
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in absent else found(name))
        monkeypatch.setattr(shutil, "which", lambda name: None)


@pytest.mark.usefixtures("machine")
def test_every_statement_is_the_providers_own():
    said, asked = {}, {}
    for name, provider in registry.load(registry.BUILTIN).items():
        shipped = registry.BUILTIN[name]
        answers = [support(provider, problem, scheme, CPU) for scheme, problem in probes(provider.family)]
        asked[name] = (provider.family, provider.role.value, any(answer.ok for answer in answers))
        reason = shipped.on_cpu(CPU)
        assert reason is not None, f"{name}: torch is imported to answer for it"
        said[name] = (shipped.family, shipped.role, not reason)
        if reason:
            assert reason in [answer.reason for answer in answers]
    assert said == asked


def test_a_provider_of_a_package_that_is_here_is_asked(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    assert registry.BUILTIN["aiter_mx"].on_cpu(CPU) is None


def test_capability_is_the_one_that_torch_finds():
    if "ATEN_CPU_CAPABILITY" in os.environ:
        pytest.skip("torch was told what to find")
    assert cpu_info.torch_capability() in ("", torch.backends.cpu.get_cpu_capability())


@pytest.mark.parametrize(
    "flags, capability",
    [
        ("fma avx avx2", "AVX2"),
        ("fma avx2 avx512f avx512vl avx512bw avx512dq", "AVX512"),
        ("fma avx2 avx512f", "AVX2"),
        ("avx avx2", ""),
        ("", ""),
    ],
)
def test_capability_by_the_flags_of_a_cpu(tmp_path, monkeypatch, flags, capability):
    monkeypatch.delenv("ATEN_CPU_CAPABILITY", raising=False)
    monkeypatch.setattr(cpu_info, "CPUINFO", tmp_path / "cpuinfo")
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\nflags\t\t: {flags}\n\nprocessor\t: 1\nflags\t\t: none\n")
    assert cpu_info.torch_capability() == capability


def test_an_order_to_torch_is_left_to_torch(monkeypatch):
    monkeypatch.setenv("ATEN_CPU_CAPABILITY", "default")
    assert cpu_info.torch_capability() == ""

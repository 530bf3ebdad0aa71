"""What is read from the binary of a launch: the same as of a compile ahead of time, once per binary and machine."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from rooflens.kernels import aot
from rooflens.kernels.geometry import Binary
from rooflens.plugins.isa.compiled import launched
from rooflens.plugins.isa.compiled.binary import warps_of
from rooflens.plugins.isa.compiled.launched import arch_of, facts

from tests.environments import printed_by

CHILD = Path(__file__).parent / "launched_child.py"


@pytest.fixture(autouse=True)
def no_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(launched, "_known", {})
    monkeypatch.setenv("ROOFLENS_CACHE", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Per architecture what a child compiled: of Triton's binary, and of a compile ahead of time."""
    cache = str(tmp_path_factory.mktemp("triton"))
    environment = {"TRITON_CACHE_DIR": cache, "TRITON_DEFAULT_FP_FUSION": "1", "ROOFLENS_CACHE": cache}
    done = printed_by(sys.executable, CHILD, env={**_environment(), **environment})
    assert done.returncode == 0, done.stderr
    return {row["arch"]: row for row in json.loads(done.stdout)}


def _environment():
    import os

    return {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}


@pytest.mark.parametrize("arch", ["sm90", "gfx942", "gfx1201"])
def test_a_launch_and_a_compile_ahead_of_time_agree(compiled, arch):
    row = compiled[arch]
    assert row["decode_per_weight"] == row["isa_decode_per_weight"]
    assert 2 < row["decode_per_weight"] < 30
    assert row["decode_integer_per_weight"] == row["isa_decode_integer_per_weight"]
    if arch == "sm90":  # two permutes per weight, and the shift and mask that each pair of them needs
        assert 2 < row["decode_integer_per_weight"] < row["decode_per_weight"]
    else:
        assert row["decode_integer_per_weight"] is None
    simds = 4 if arch.startswith("gfx") else 1
    assert row["resident"] == row["isa_occupancy"] * simds / row["isa_warps"] >= 1


def fake(cubin=b"a cubin", registers=128, shared=49152, arch=90):
    target = SimpleNamespace(backend="cuda", arch=arch)
    metadata = SimpleNamespace(target=target, shared=shared, num_warps=4)
    return SimpleNamespace(metadata=metadata, asm={"ptx": ".reqntid 128", "cubin": cubin}, n_regs=registers)


def figures(binary):
    """Resident workgroups and the two figures of decoding."""
    found = facts(binary)
    return (found.resident, *found.decoding)


def test_architectures():
    assert arch_of(fake()) == "sm90"
    target = SimpleNamespace(backend="hip", arch="gfx942:sramecc+:xnack-")
    assert arch_of(SimpleNamespace(metadata=SimpleNamespace(target=target))) == "gfx942"


def test_resident_workgroups_by_the_limits_of_an_sm():
    # H200: 4 warps of 128 registers: 16 warps, 4 workgroups; 228 KiB hold 4 of 48 KiB and 1 KiB
    assert figures(Binary(fake())) == (4, None, None)
    assert figures(Binary(fake(b"2", registers=255))) == (2, None, None)
    assert figures(Binary(fake(b"3", shared=100 << 10))) == (2, None, None)
    assert figures(Binary(fake(b"4", shared=300 << 10))) == (None, None, None)  # cannot be
    assert figures(Binary(fake(b"5", registers=None))) == (None, None, None)  # not loaded
    assert figures(Binary(fake(b"6", arch=75), decoded=64)) == (None, None, None)  # unknown limits


SASS = """
        /*0000*/                   LDG.E R2, desc[UR4][R4.64] ;
.L_x_0:
        /*0010*/                   LDG.E R3, desc[UR4][R4.64+0x80] ;
        /*0020*/                   LOP3.LUT R6, R2, 0xf, RZ, 0xc0, !PT ;
        /*0030*/                   FFMA R7, R6, R8, R7 ;
        /*0040*/               @P0 BRA `(.L_x_0) ;
        /*0050*/                   EXIT ;
"""


def test_a_disassembly_is_kept_for_other_processes(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(launched, "disassembly", lambda cubin: asked.append(cubin) or SASS)
    assert figures(Binary(fake(), decoded=64)) == (4, 2 * 128 / 64, 128 / 64)  # two instructions of 4 warps of 32 lanes
    assert figures(Binary(fake(), decoded=128)) == (4, 2.0, 1.0)  # another tile of the same code
    other = facts(Binary(fake(), decoded=64, loop_rank=1))  # of a second loop, which there is not
    assert (other.decoding.per_weight, other.schedule) == (None, None)
    scheduled = facts(Binary(fake(), decoded=64)).schedule
    launched._known.clear()
    assert figures(Binary(fake(), decoded=64)) == (4, 4.0, 2.0)
    assert facts(Binary(fake(), decoded=64)).schedule == scheduled
    assert scheduled.iteration.pipes["issue"] == 4
    assert len(asked) == 3
    assert len(list((tmp_path / "cache" / "instructions").iterdir())) == 3


@pytest.mark.parametrize("error", [FileNotFoundError("nvdisasm"), subprocess.CalledProcessError(1, "nvdisasm")])
def test_without_a_disassembler_nothing_is_said_and_nothing_kept(monkeypatch, error, tmp_path):
    def fails(cubin):
        raise error

    monkeypatch.setattr(launched, "disassembly", fails)
    assert figures(Binary(fake(), decoded=64)) == (4, None, None)
    assert not (tmp_path / "cache" / "instructions").exists()


def test_a_cache_that_cannot_be_written_costs_nothing(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ROOFLENS_CACHE", str(tmp_path / "file"))
    monkeypatch.setattr(launched, "disassembly", lambda cubin: SASS)
    assert figures(Binary(fake(), decoded=64)) == (4, 4.0, 2.0)


def test_a_kept_figure_that_is_none_is_read_anew(monkeypatch, tmp_path):
    monkeypatch.setattr(launched, "disassembly", lambda cubin: SASS)
    assert figures(Binary(fake(), decoded=64)) == (4, 4.0, 2.0)
    (kept,) = (tmp_path / "cache" / "instructions").iterdir()
    for damaged in ("", "null", "[1, 2, 3]"):
        kept.write_text(damaged)
        launched._known.clear()
        assert figures(Binary(fake(), decoded=64)) == (4, 4.0, 2.0)


@pytest.mark.gpu
def test_cuda_counts_the_same_resident_workgroups():
    """By the driver's own occupancy function, on a kernel with and without shared memory."""
    import ctypes

    import torch
    from rooflens.harness.machine.device import find_device
    from rooflens.kernels.inputs import make_inputs
    from rooflens.kernels.registry import load
    from rooflens.shapes.problem import Problem
    from rooflens.shapes.scheme import DType
    from rooflens.shapes.schemes import parse_scheme

    device = find_device("cuda")
    if device.is_rocm or f"{device.arch}" not in aot.KNOWN_ARCHES:
        pytest.skip("asks CUDA's driver, on an architecture whose limits are known")
    driver = ctypes.CDLL("libcuda.so.1")
    for name, m in (("simt_4bit", 1), ("gemv_4bit", 1), ("mma_4bit", 64), ("stock_triton", 256)):
        provider = load([name])[name]
        inputs = make_inputs(Problem(m, 4096, 4096), parse_scheme("nf4-g64", DType.BF16), device, seed=1)
        binary = provider.prepare(inputs).geometry.binary
        torch.cuda.synchronize()
        compiled, count = binary.compiled, ctypes.c_int()
        threads = 32 * warps_of(device.arch, compiled.asm["ptx"])
        code = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            ctypes.byref(count), ctypes.c_void_p(compiled.function), threads, ctypes.c_size_t(compiled.metadata.shared)
        )
        assert code == 0
        assert facts(binary).resident == count.value, name

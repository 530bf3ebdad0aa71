"""The identity: moves with what the device runs and how it is timed, and with nothing else."""

import ast
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from rooflens.kernels import identity, registry
from rooflens.shapes.device import Device

from .planted_files import forgotten, planted

ROW = {"kernels": ["gemm_kernel"], "config": {"BLOCK_M": 16}, "timer": "profiler", "cold_by": "flush"}
DEVICE = Device("cuda", 0, "NVIDIA H200", "NVIDIA", "sm90", 132, 50 << 20, 50 << 20, 141 << 30, "GPU-1")
VERSIONS = {"torch": "2.11.0"}
FILES = {
    "mine.py": """
import torch
from rooflens.kernels.provider import Launch, Provider
from kernels_of_test import gemm, library_call

class Mine(Provider):
    name = "mine"

    def prepare(self, inputs, config=None):
        return Launch(lambda: gemm.gemm_kernel[(1,)](inputs.x), inputs.empty_output(), {"BLOCK_M": 16})

class Theirs(Provider):
    name = "theirs"

    def prepare(self, inputs, config=None):
        return Launch(library_call.multiply, inputs.empty_output())

PROVIDERS = [Mine(), Theirs()]
""",
    "kernels_of_test/__init__.py": "",
    "kernels_of_test/gemm.py": '''
import triton
import triton.language as tl
from .parts import scaled

LOG2E: tl.constexpr = tl.constexpr(1.4426950408889634)
UNUSED = 3

@triton.jit
def gemm_kernel(x, BM: tl.constexpr):
    """Multiply."""
    tl.store(x, scaled(tl.load(x), LOG2E))  # in place

@triton.jit
def other_kernel(x):
    tl.store(x, 0.0)
''',
    "kernels_of_test/parts.py": """
import triton

@triton.jit
def scaled(value, by):
    return value * by
""",
    "kernels_of_test/library_call.py": """
import torch

def multiply():
    return torch.mm(1, 2)
""",
    "cuda.py": """
from rooflens.kernels.provider import Launch, Provider

class Cuda(Provider):
    name = "mine"
    sources = ("gemm.cu",)

    def prepare(self, inputs, config=None):
        return Launch(print, inputs.empty_output())

PROVIDERS = [Cuda()]
""",
    "gemm.cu": '// A kernel.\n#include "gemm.cuh"\n\n__global__ void gemm_kernel() { int a = 1; /* one */ }\n',
    "function.py": """
import rooflens
from kernels_of_test.gemm import gemm_kernel

def helper(x):
    return x + 1

def multiply(x, out):
    gemm_kernel[(1,)](helper(x))

PROVIDERS = [rooflens.function(multiply, family="fourbit", name="mine")]
""",
}


pytestmark = pytest.mark.usefixtures("clean_imports")


@pytest.fixture
def folder(tmp_path):
    return planted(tmp_path, FILES)


def identity_of(folder, file="mine.py", name="mine", device=DEVICE, versions=VERSIONS, **columns):
    with forgotten():
        provider = registry.load([], [folder / file])[name]
        row = ROW | columns
        launched = identity.code_of(provider).launched(row["kernels"], provider.role, device.is_gpu, versions)
    return identity.identity(launched, row, device)


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text("utf-8")
    assert old in text
    file.write_text(text.replace(old, new), "utf-8")


@pytest.mark.parametrize(
    ("name", "old", "new", "moves"),
    [
        ("gemm.py", "  # in place", "", False),
        ("gemm.py", '"""Multiply."""', '"""Another word."""', False),
        ("gemm.py", '    """Multiply."""\n', "", False),
        ("gemm.py", "scaled(tl.load(x), LOG2E)", "scaled(\n        tl.load(x),\n        LOG2E,\n    )", False),
        ("gemm.py", "UNUSED = 3", "UNUSED = 4", False),
        ("gemm.py", "tl.store(x, 0.0)", "tl.store(x, 1.0)", False),  # of a kernel that the launch does not run
        ("parts.py", "import triton\n", '"""A module."""\nimport os\nimport triton\n', False),
        ("../mine.py", "[(1,)]", "[(2,)]", False),  # host code
        ("gemm.py", "1.4426950408889634", "1.44", True),
        ("gemm.py", "tl.store(x, scaled", "tl.store(x + 1, scaled", True),
        ("gemm.py", "@triton.jit\ndef gemm_kernel", '@triton.jit(do_not_specialize=["x"])\ndef gemm_kernel', True),
        ("parts.py", "value * by", "value + by", True),
    ],
)
def test_lines_and_constants_of_a_kernel_move_it_and_what_no_device_runs_does_not(folder, name, old, new, moves):
    before = identity_of(folder)
    edit(folder / "kernels_of_test" / name, old, new)
    assert (identity_of(folder) != before) is moves


def test_moved_files_leave_it(folder, tmp_path_factory):
    before = identity_of(folder)
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    shutil.copytree(folder, elsewhere, dirs_exist_ok=True)
    assert identity_of(elsewhere) == before
    package = elsewhere / "kernels_of_test"
    (package / "gemm.py").rename(package / "products.py")
    edit(elsewhere / "mine.py", "import gemm, library_call", "import library_call, products as gemm")
    edit(package / "products.py", "from .parts import scaled\n", "")
    text = (package / "parts.py").read_text("utf-8").replace("import triton\n", "")
    edit(package / "products.py", "UNUSED = 3\n", text)
    (package / "parts.py").unlink()
    assert identity_of(elsewhere) == before


def test_another_device_of_the_model_and_another_triton_leave_it(folder):
    before = identity_of(folder)
    assert identity_of(folder, device=replace(DEVICE, uuid="GPU-2", index=1)) == before
    assert identity_of(folder, versions={"torch": "2.13.0", "triton": "3.9.0"}) == before


def test_configuration_timer_cold_and_model_move_it(folder):
    found = [
        identity_of(folder),
        identity_of(folder, config={"BLOCK_M": 32}),
        identity_of(folder, timer="event"),
        identity_of(folder, cold_by="rotation"),
        identity_of(folder, cold_by=""),
        identity_of(folder, device=replace(DEVICE, name="NVIDIA H100 80GB HBM3")),
        identity_of(folder, kernels=["other_kernel"]),
    ]
    assert len(set(found)) == len(found)


def test_a_library_is_its_version(folder):
    before = identity_of(folder, name="theirs", kernels=["nvjet_sm90"])
    edit(folder / "kernels_of_test" / "gemm.py", "1.4426950408889634", "1.44")
    assert identity_of(folder, name="theirs", kernels=["nvjet_sm90"]) == before
    assert identity_of(folder, name="theirs", kernels=["nvjet_sm90"], versions={"torch": "2.13.0"}) != before


def test_a_kernel_of_a_library_beside_ours_adds_its_version(folder):
    both = ["gemm_kernel", "void at::native::elementwise_kernel"]
    assert identity_of(folder, kernels=both) != identity_of(folder, kernels=both, versions={"torch": "2.13.0"})


def test_comments_of_cuda_leave_it_and_code_moves_it(folder):
    (folder / "gemm.cuh").write_text("// nothing\n")
    before = identity_of(folder, "cuda.py")
    edit(folder / "gemm.cu", "// A kernel.\n", "")
    edit(folder / "gemm.cu", "int a = 1; /* one */ }", "int a  =  1;  }  // one")
    assert identity_of(folder, "cuda.py") == before
    edit(folder / "gemm.cu", "=  1", "=  2")
    edited = identity_of(folder, "cuda.py")
    assert edited != before
    (folder / "gemm.cuh").write_text("int b;")
    assert identity_of(folder, "cuda.py") not in (before, edited)


def test_text_that_no_file_can_be_named_is_no_source(folder):
    before = identity_of(folder)
    text = f'name = "mine"\n    texts = "a\\0b.cu", "{"é" * 190}.cpp", "two\\nlines.c"\n'
    edit(folder / "mine.py", 'name = "mine"\n', text)
    assert identity_of(folder) == before


def test_text_in_quotes_is_no_comment():
    assert identity.without_comments('a("//x"); // y\n\n  b(\'"\'); /* z\n*/ c;') == 'a("//x");\nb(\'"\'); c;'


@pytest.mark.parametrize(("old", "new"), [("return x + 1", "return x + 2"), ("(helper(x))", "(helper(x + 1))")])
def test_a_plain_function_is_its_code_and_its_kernels(folder, old, new):
    before = identity_of(folder, "function.py")
    edit(folder / "function.py", "\n\ndef helper", "\n# a comment\ndef helper")
    assert identity_of(folder, "function.py") == before
    edit(folder / "function.py", old, new)
    changed = identity_of(folder, "function.py")
    assert changed != before
    edit(folder / "kernels_of_test" / "gemm.py", "1.4426950408889634", "1.44")
    assert identity_of(folder, "function.py") not in (before, changed)


TREE = 'def f(x, *, y: int = 1):\n    """Docs."""\n    return [f"{x}", x[1:2], None, ...] if y else -x ** 2.0\n'


def test_a_tree_is_written_alike_by_every_python():
    written = (
        "FunctionDef3 name= 'f' args= arguments3 args= [1 arg1 arg= 'x' kwonlyargs= [1 arg2 arg= 'y' annotation= Name1 "
        "id= 'int' kw_defaults= [1 Constant1 value= 1 body= [1 Return1 value= IfExp3 test= Name1 id= 'y' body= List1 "
        "elts= [4 JoinedStr1 values= [1 FormattedValue2 value= Name1 id= 'x' conversion= -1 Subscript2 value= Name1 "
        "id= 'x' slice= Slice2 lower= Constant1 value= 1 upper= Constant1 value= 2 Constant0 Constant1 value= Ellipsis "
        "orelse= UnaryOp2 op= USub0 operand= BinOp3 left= Name1 id= 'x' op= Pow0 right= Constant1 value= 2.0"
    )
    assert identity.normalised(ast.parse(TREE).body[0]) == written


FIRST = {(one.family, one.role): name for name, one in reversed(registry.BUILTIN.items())}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=() if name in FIRST.values() else pytest.mark.slow) for name in registry.BUILTIN],
)
def test_every_shipped_provider_has_code_of_its_own_or_a_package(name):
    provider = registry.load([name])[name]
    code = identity.code_of(provider)
    assert code.kernels or code.sources or "torch" in code.packages
    assert not code.host
    suffixes = {suffix for suffix, _ in code.sources}
    assert (".cu" in suffixes) == ("cuda" in name or name == "dispatch_mx")

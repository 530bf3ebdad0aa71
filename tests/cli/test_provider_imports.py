"""A provider file can import its repository, in every command and in workers, but never instead of what is installed.

In processes of their own: what the tests have imported already would hide what stands in for it.
"""

import json

import pytest

from ..harness.repositories import repository
from .tiny_runs import ON_CPU, fresh, write_suite, write_traced

PROVIDER = """
import torch, triton
from helper_beside import REPEAT
from package_of_repo import SCALE
from package_in_src import OFFSET
from rooflens.kernels.provider import Launch, Provider
from tests import SHARED

class Mine(Provider):
    name = "mine"

    def prepare(self, inputs, config=None):
        from package_of_repo.late import multiply

        weight, out = inputs.dequantized().t(), inputs.empty_output()
        return Launch(lambda: multiply(inputs.x, weight, out), out)

PROVIDERS = [Mine()]
"""

SHADOW = "raise RuntimeError('a folder of the repository was imported')\n"

FILES = {
    "bench/gemm.py": PROVIDER,
    "bench/helper_beside.py": "REPEAT = 1\n",
    "package_of_repo/__init__.py": "SCALE = 1\n",
    "package_of_repo/late.py": "import torch\n\ndef multiply(x, w, out):\n    torch.mm(x, w, out=out)\n",
    "src/package_in_src/__init__.py": "OFFSET = 0\n",
    "tests/__init__.py": "SHARED = 1\n",
    "kernels/__init__.py": SHADOW,
    "torch/__init__.py": SHADOW,
    "triton/__init__.py": SHADOW,
    "numpy.py": SHADOW,
}

SMALL = ("tiny.toml", *ON_CPU, "-p", "mine", "-a", "M=1", "--filter", "layer == 'q'", "-o", "out")


def test_the_list_of_providers_imports_the_repository_and_says_why_others_are_not_available(tmp_path):
    repository(tmp_path / "repo", FILES)
    done = fresh(tmp_path, "list", "providers", "--json", "--providers", "repo/bench/gemm.py")
    found = json.loads(done.stdout)
    assert found["device"]
    rows = {row["name"]: row for row in found["providers"]}
    assert next(iter(rows)) == "mine", "those of one's own file come first"
    assert rows["mine"] == {"name": "mine", "family": "", "role": "candidate", "supported": True, "reason": ""}
    assert (rows["dequant_blas"]["supported"], rows["dequant_blas"]["role"]) == (True, "dequant_blas")
    assert not [name for name, row in rows.items() if not row["supported"] and not row["reason"]]
    roles = {row["role"] for row in rows.values()}
    assert {"reference"} < roles <= {"candidate", "dequant_blas", "stock_triton", "reference", "upstream"}


@pytest.mark.parametrize(
    "command",
    [
        ("run", *SMALL, "--rounds", 1, "--no-calibrate", "--no-report", "--strict"),
        pytest.param(("tune", *SMALL), marks=pytest.mark.slow),
    ],
    ids=lambda command: command[0],
)
def test_every_command_imports_the_repository_and_none_of_its_namesakes(tmp_path, command):
    repository(tmp_path / "repo", FILES)
    done = fresh(write_suite(tmp_path), *command, "--providers", "repo/bench/gemm.py")
    assert "was imported" not in done.stderr


def test_a_command_imports_a_file_once_before_it_has_a_worker(tmp_path, invoke):
    invoke("run", "llm4bit-quick", "--dry-run", "--providers", write_traced(tmp_path, "fourbit"))
    assert (tmp_path / "imports").read_text() == "x"

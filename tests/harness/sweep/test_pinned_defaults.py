"""The table that holds the configurations of a scan, from a real child process on the CPU."""

import csv
import dataclasses
import io
from pathlib import Path

import pytest
from rooflens.harness.plan.extra_cells import scanned
from rooflens.harness.plan.plan import plan
from rooflens.harness.sweep.pinned_defaults import pinned_table
from rooflens.harness.worker.messages import Setup
from rooflens.shapes import suite, tuned
from rooflens.shapes.errors import Interrupted, UsageError
from rooflens.shapes.protocol import Protocol
from rooflens.shapes.scan import Scan

KERNELS = Path(__file__).parents[1] / "scanned_providers.py"


def table(tmp_path, sizes, text):
    """The held table of shapes (N, 128) that are scanned."""
    quick = suite.load("llm4bit-quick").override(axes={"M": (1,)}, providers=("tiled", "dequant_blas"))
    shapes = [dataclasses.replace(quick.shapes[0], layer=f"l{n}", N=n, K=128) for n in sizes]
    cells = plan(dataclasses.replace(quick, shapes=tuple(shapes), schemes=("nf4-g64",)))
    setup = Setup("cpu", Protocol(), ("tiled", "dequant_blas"), (KERNELS,))
    varied = scanned(cells, Scan.parse(text))
    return varied, pinned_table(varied, setup, tmp_path / "log")


def test_each_variant_is_pinned_to_the_default_of_its_shape(tmp_path):
    varied, content = table(tmp_path, [64], "N=16,32,64,100")
    path = tmp_path / "tuned.csv"
    path.write_text(content)
    found = {key.N: dict(choice.config) for key, choice in tuned.load(path).choices.items() if key.provider == "tiled"}
    assert found == {n: {"BLOCK_N": 32} for n in (16, 32, 64, 100)}
    assert "the default of " + next(iter(varied.values())).shape.label + " at M=1" in content
    assert {row["time_s"] for row in csv.DictReader(io.StringIO(content))} == {""}  # no time is made up


SILENT = """
import time
from rooflens.kernels.provider import Provider
class Silent(Provider):
    name = "silent"
    def prepare(self, inputs, config=None): ...
    def candidates(self, problem, scheme, device):
        print("asked")
        time.sleep(1000)
PROVIDERS = [Silent()]
"""


def test_a_provider_that_does_not_answer_is_waited_for_until_a_stop(tmp_path):
    (tmp_path / "silent.py").write_text(SILENT)
    log = tmp_path / "log"
    quick = suite.load("llm4bit-quick").override(axes={"M": (1,)}, providers=("silent",))
    varied = scanned(plan(dataclasses.replace(quick, shapes=quick.shapes[:1])), Scan.parse("N=48"))
    setup = Setup("cpu", Protocol(), ("silent",), (tmp_path / "silent.py",))
    with pytest.raises(Interrupted):
        pinned_table(varied, setup, log, lambda: log.exists() and "asked" in log.read_text())


def test_shapes_that_become_one_GEMM_with_two_defaults_are_refused(tmp_path):
    with pytest.raises(UsageError, match=r"become the same GEMM .* tiled has other defaults"):
        table(tmp_path, [32, 64], "N=48")
    table(tmp_path, [64, 128], "N=48")  # their defaults are the same

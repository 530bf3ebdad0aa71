"""What an exception becomes: a verdict, and a reason that names the user's own line."""

import json

import pytest
import torch
from rooflens.harness.isolation.faults import ProviderError, explain
from rooflens.kernels import registry
from rooflens.kernels.provider import DeclinedError
from rooflens.shapes.verdict import Verdict

KERNELS = """
import json
import torch
from rooflens.kernels.provider import Provider
from rooflens.shapes.schemes.fourbit import FourBit


class Mine(Provider):
    name = "mine"

    def prepare(self, inputs, config=None):
        return {
            "own": lambda: inputs.missing,
            "torch": lambda: torch.mm(torch.ones(2, 3), torch.ones(2, 3)),
            "library": lambda: json.loads("{"),
            "rooflens": lambda: FourBit.parse(7, 7),
        }[inputs]()


PROVIDERS = [Mine()]
"""


def caught(action):
    try:
        action()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


@pytest.fixture
def mine(tmp_path):
    file = tmp_path / "my_kernels.py"
    file.write_text(KERNELS)
    return registry.load((), [file])["mine"]


@pytest.mark.parametrize(("what", "line"), [("own", 13), ("torch", 14), ("library", 15), ("rooflens", 16)])
def test_the_reason_ends_with_the_innermost_line_of_the_users_file(mine, what, line):
    verdict, reason = explain(caught(lambda: mine.prepare(what)), "measuring")
    assert verdict is Verdict.RUNTIME_ERROR
    assert reason.startswith("measuring: ")
    assert reason.endswith(f"(my_kernels.py:{line})")


def test_a_long_text_does_not_cost_the_line(tmp_path):
    file = tmp_path / "talks.py"
    file.write_text(
        KERNELS.replace('name = "mine"', 'name = "talks"').replace(
            "return {", 'raise ValueError("x" * 9999)\n        return {'
        )
    )
    _, reason = explain(caught(lambda: registry.load((), [file])["talks"].prepare("own")), "measuring")
    assert reason.endswith("x (talks.py:12)")
    assert len(reason) < 600


def test_an_error_that_was_never_in_a_file_of_the_users_has_no_line():
    assert explain(ProviderError("do not"), "measuring") == (Verdict.RUNTIME_ERROR, "measuring: do not")
    assert explain(DeclinedError("not now"), "measuring")[0] is Verdict.UNSUPPORTED
    assert explain(torch.OutOfMemoryError("full"), "measuring") == (Verdict.OOM, "measuring: OutOfMemoryError: full")
    told = "CUDA out of memory. Tried to allocate 13.00 GiB. GPU 0 has a total capacity of 139.80 GiB."
    advice = " Including non-PyTorch memory, this process has 131.43 GiB memory in use. Of the allocated memory ..."
    assert explain(torch.OutOfMemoryError(told + advice), "x")[1] == f"x: OutOfMemoryError: {told}"
    assert explain(json.JSONDecodeError("bad", "", 0), "x")[1] == "x: JSONDecodeError: bad: line 1 column 1 (char 0)"

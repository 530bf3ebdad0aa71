"""Who can be compared on a device, asked before anything is measured."""

import pytest
from rooflens.harness.plan.plan import contests, plan
from rooflens.harness.worker.worker_info import without_rival
from rooflens.kernels import registry
from rooflens.shapes import suite
from rooflens.shapes.device import Device

CPU = Device("cpu", 0, "a CPU", "", "x86-64", 2, 32 << 20, 1 << 20, 1 << 34)


def told(name, providers=(), filter_expression=""):
    chosen = suite.load(name).override(providers=providers)
    return without_rival(registry.load(chosen.providers), contests(plan(chosen, filter_expression)), CPU)


@pytest.mark.parametrize("name", ["mxfp8-quant-quick", "ao-quant-quick", "fp8-quant-quick"])
def test_a_quantizer_suite_has_nothing_to_compare_on_a_cpu(name):
    text = told(name)
    assert text.startswith("nothing to compare on a CPU: only torch_quant_")
    assert "not triton_quant_" in text
    assert "need a GPU" in text


@pytest.mark.parametrize("name", ["llm4bit-quick", "fp8-train-quick", "mxfp8-decode-quick", "a16w8-deepseek-quick"])
def test_the_other_suites_have_their_baselines(name):
    assert told(name) == ""


def test_where_nobody_can_run_that_is_what_is_said():
    assert told("llm4bit-quick", ("simt_4bit", "mma_4bit"), "M == 1").startswith(
        "nothing to compare on a CPU: no provider can run, not simt_4bit, mma_4bit (Triton kernels need a GPU"
    )


def test_whoever_asked_for_one_provider_is_not_told():
    assert told("mxfp8-quant-quick", ("torch_quant_mx",)) == ""
    assert told("mxfp8-quant-quick", ("triton_quant_mx",)) == ""


class Foreign:
    """A provider of the user's, which may do anything when it is asked."""

    name = "foreign"

    def supports(self, *_):
        raise SystemExit


def test_providers_of_the_user_are_not_asked():
    chosen = suite.load("mxfp8-quant-quick").override(providers=("torch_quant_mx", "foreign"))
    providers = registry.load(["torch_quant_mx"]) | {"foreign": Foreign()}
    assert without_rival(providers, contests(plan(chosen)), CPU) == ""

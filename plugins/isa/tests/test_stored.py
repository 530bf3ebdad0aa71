"""The stored table of binaries for AMD GPUs is of the kernels of today."""

from importlib.metadata import version
from pathlib import Path

import pandas as pd
import pytest
from rooflens.cli.main import main

STORED = Path(__file__).parents[3] / "docs/results/isa-amd/isa.csv.gz"
SAME = ["arch", "provider", "pass", "dtype", "scheme", "B", "E", "M", "N", "K", "config", "kernel", "specialization"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("suite", "provider"),
    [
        ("llm4bit-quick", "gemv_4bit"),
        ("mxfp8-decode-quick", "gemv_mx"),
        ("fp8-quant-quick", "triton_quant_fp8"),
        ("a16w8-deepseek-quick", "kernel_a16w8"),
        ("ao-quant-quick", "triton_quant_ao"),
    ],
)
def test_default_configurations_compile_to_the_stored_binaries(suite, provider, tmp_path, monkeypatch):
    monkeypatch.setenv("ROOFLENS_CACHE", str(tmp_path / "cache"))
    stored = pd.read_csv(STORED).query(f"verdict == 'passed' and provider == '{provider}' and arch == 'gfx942'")
    if version("triton") not in set(stored["triton"]):
        pytest.skip("compiled by another release of Triton")
    options = ["-p", provider, "--arch", "gfx942", "--defaults"]
    assert main(["isa", suite, *options, "-o", str(tmp_path / "isa.csv")]) == 0
    today = pd.read_csv(tmp_path / "isa.csv").query("verdict == 'passed'")
    both = today.merge(stored, on=SAME, suffixes=("", "_stored"))
    assert len(both) == len(today) > 0
    assert both["code"].tolist() == both["code_stored"].tolist()

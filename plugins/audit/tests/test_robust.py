"""Any text is audited or refused in one line; nothing else happens."""

from hypothesis import example, given, settings
from hypothesis import strategies as st
from rooflens.plugins.audit.audit import audit
from rooflens.plugins.audit.evidence.finding import Finding
from rooflens.plugins.audit.reading.assumptions import Assumptions, find_device
from rooflens.plugins.audit.reading.document import read_document
from rooflens.shapes.errors import UsageError
from rooflens.shapes.problem import Op

HEADERS = (
    *("M", "N", "K", "B", "E", "tokens", "M=16", "Shape (M, N, K)", "TestID", "Model", "dtype", "#Cases", "n"),
    *("Old (ms)", "New (ms)", "BF16 (us)", "time", "kernel_us", "total_us", "Fwd+Bwd (ms)", "fwd_main_ms", "bwd_pr_ms"),
    *("TFLOPS", "Old TFLOPS", "New TFLOPS", "GB/s", "Speedup", "New/Old", "BF16 over new", "% of peak", "MFU"),
    *("Δ fwd", "Δ bwd", "Δ comb", "delta_tflops", "Time reduction", "TFLOPS gain", "Speedup %", "shapes ≥ +1%"),
    *("Metric", "Mean", "Median", "Min", "Max", "p25", "whatever", ""),
)

CELLS = (
    *("0", "1", "16", "4096", "8192", "1.5", "0.00", "1e-9", "1e30", "-3", "−0.5%", "+7.14%", "2.00x", "~1.0×*"),
    *("", "-", "OOM", "FAIL", "nan", "inf", "(4096, 4096, 4096)", "4096x4096x4096", "bf16", "mean", "geomean", "1,024"),
    *("Forward time reduction", "Forward TFLOPS gain", "999999999999999999", "8/84 shapes <= -1% on bwd", "100%"),
)

DEVICES = st.sampled_from([None, "MI300X", "H200", "RTX 4090", "MI250X"])


@st.composite
def texts(draw):
    names = draw(st.lists(st.sampled_from(HEADERS), min_size=2, max_size=9))
    row = st.lists(st.sampled_from(CELLS), min_size=len(names), max_size=len(names))
    # Cells that are all empty or dashes are a border, and a table of borders is refused, as any other text.
    rows = draw(st.lists(row.filter(lambda cells: any(set(cell) - {"-"} for cell in cells)), min_size=1, max_size=6))
    lines = [names, ["---"] * len(names), *rows]
    title = draw(st.sampled_from(["", "## Kernel only\n\n", "## Forward over 4 shapes\n\n", "## Forward+Backward\n\n"]))
    return title + "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def assert_findings_can_be_read(result, text):
    """Every finding is one line of words at a line that the text has."""
    for finding in result.findings:
        assert isinstance(finding, Finding)
        assert 1 <= finding.line <= len(text.splitlines())
        assert finding.message
        assert "\n" not in finding.message


@settings(max_examples=4 * settings().max_examples)
@example(
    [
        "| M | M |\n| --- | --- |\n| 0 | 0 |\n",
        "| M | M | M | M | M | Old (ms) | TFLOPS |\n" + 7 * "| --- " + "|\n| 0 | 0 | 0 | 0 | 1 | 0 | 0 |\n",
    ],
    None,
    Op.GEMM,
)
@given(st.lists(texts(), min_size=1, max_size=3), DEVICES, st.sampled_from([Op.GEMM, Op.GROUPED_GEMM, Op.MOE_GEMM]))
def test_any_table_is_audited(parts, device, op):
    setting = Assumptions(find_device(device) if device else None, op=op)
    text = "\n".join(parts)
    assert_findings_can_be_read(audit([read_document(text.encode(), "text")], setting), text)


@settings(max_examples=3 * settings().max_examples)
@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text):
    stored = text.encode("utf-8", "replace")
    refusal = ""
    try:
        assert_findings_can_be_read(audit([read_document(stored, "text")], Assumptions(find_device("H200"))), text)
    except UsageError as error:
        refusal = str(error)
    assert refusal == "" or refusal.startswith("text")
    assert "\n" not in refusal


@settings(max_examples=settings().max_examples)
@given(st.floats(1e-3, 1e3), st.floats(0.05, 0.9))
def test_units_scale_nothing(factor, share):
    """The same times in other units are the same findings."""
    flops = 2 * 4096**3
    time = flops / (1307.4e12 * share * factor)
    texts = [
        f"M,N,K,time ({unit})\n4096,4096,4096,{time / scale:.8e}\n"
        for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))
    ]
    setting = Assumptions(find_device("MI300X"), "bf16")
    results = [audit([read_document(text.encode(), "t.csv")], setting) for text in texts]
    assert {tuple(finding.rule for finding in result.findings) for result in results} == {
        tuple(finding.rule for finding in results[0].findings)
    }
    over = any(finding.rule == "above-peak" for finding in results[0].findings)
    assert over == (share * factor > 1)

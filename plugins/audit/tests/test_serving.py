"""Files of serving systems: their times are read, and only what cannot be is found."""

import json

from tests.cli.test_serving import table


def plausible(M, N, K):
    """A latency in ms, as a mean of event times of 0.5 us: 400 TFLOPS, no faster than 2 TB/s, above 5 us."""
    seconds = max(2 * M * N * K / 400e12, 2 * (M * K + N * K + M * N) / 2e12, 5e-6)
    return round(seconds / 0.5e-6 * 36) * 0.5e-3 / 36


def audited(invoke, path):
    return json.loads(invoke("audit", path, "--json").out)["findings"]


def test_the_audit_reads_times_and_finds_only_what_cannot_be(tmp_path, invoke):
    """Rows lie in the order in which they were finished; a thousandth of one time is above the peak."""
    sizes = [(M, N, K) for N in (512, 4096, 7168) for K in (512, 2048, 7168) for M in (1, 8, 64, 128, 512, 2048, 8192)]
    order = sorted(sizes, key=lambda size: hash(size) % 97)
    rows = [(stored, *size, plausible(*size)) for stored in ("bfloat16", "fp8_block") for size in order]
    assert audited(invoke, table(tmp_path / "honest.parquet", rows)) == []
    wrong = rows.index(("bfloat16", 8192, 7168, 7168, plausible(8192, 7168, 7168)))
    rows[wrong] = (*rows[wrong][:-1], rows[wrong][-1] / 1000)
    found = audited(invoke, table(tmp_path / "wrong.parquet", rows))
    assert {(one["line"], one["severity"]) for one in found if one["rule"] == "above-peak"} == {
        (wrong + 1, "impossible")
    }


def test_they_are_compared_with_the_device_that_they_name(tmp_path, invoke):
    """932 TFLOPS, the fastest row but two of a public file, are below 989.4."""
    rows = [("bfloat16", 512, 8192, 65536, 0.589622), ("bfloat16", 64, 4096, 4096, 0.012047111160225339)]
    assert "compared with NVIDIA H200 SXM" in invoke("audit", table(tmp_path / "gemm_perf.parquet", rows)).out

"""Layouts with several numbers in a cell, a line or a header: each is read as plain columns would be."""

import pytest
from rooflens.analysis.imports.columns import ColumnRole

from .helpers import audited, check_gap, lines, table


@pytest.mark.parametrize("text", ["All times in microseconds.", "### Latency (us), bf16", "Results are in µs"])
def test_a_unit_that_stands_above_the_table(text):
    (sheet,) = audited(f"{text}\n\n" + table("M | cublas | ours", "1 | 4.5 | 5.5", "2 | 6.5 | 7.5")).sheets
    assert [(one.role, one.unit) for one in sheet.columns[1:]] == [(ColumnRole.TIME, 1e-6)] * 2


@pytest.mark.parametrize(
    ("header", "label", "sizes"),
    [
        ("shape", "qkv 16x4096x7168", {"M": 16, "N": 4096, "K": 7168}),
        ("layer (N x K)", "qkv 4096 x 7168", {"N": 4096, "K": 7168}),
        ("case", "m16n4096k7168", {"M": 16, "N": 4096, "K": 7168}),
        ("case", "M16-N4096-K7168 fp8", {"M": 16, "N": 4096, "K": 7168}),
        ("kernel", "mma m16n8k16", {}),
        ("kernel", "tile 128x128x64", {}),
        ("shape", "qkv 4096x7168 of 16x4096", {}),
        ("Shape (E, N, K, topk)", "(8, 14336, 4096, 2) *a*", {"E": 8, "N": 14336, "K": 4096, "top_k": 2}),
        ("what", "M=1, N=4096, K=4096", {"M": 1, "N": 4096, "K": 4096}),
        ("what", "m=8,n=16,k=32", {"M": 8, "N": 16, "K": 32}),
        ("what", "fp16 M=N=K=512", {"M": 512, "N": 512, "K": 512}),
        ("what", "8192^3", {"M": 8192, "N": 8192, "K": 8192}),
        ("what", "GEMM 256 x 256 x 256", {"M": 256, "N": 256, "K": 256}),
        ("what", "n=3 runs", {}),
    ],
)
def test_sizes_in_labels(header, label, sizes):
    (sheet,) = audited(table(f"{header} | us", f"{label} | 4.5", f"{label} b | 5.5")).sheets
    assert sheet.sizes(0) == sizes


def test_copies_of_other_work_are_told_by_their_rates():
    rows = ("1 | 4096 | 99 | 1264", "1 | 7168 | 53 | 1180", "4 | 4096 | 99 | 1264")
    assert lines(audited(table("M | N | us | TFLOPS", *rows)), "copied-numbers") == []
    rows = ("1 | 4096 | 9.95 | 1264.5", "1 | 7168 | 53.1 | 1180.4", "4 | 4096 | 9.95 | 1264.5")
    assert lines(audited(table("M | N | us | TFLOPS", *rows)), "copied-numbers") == [5]


def test_headers_with_remarks_above_a_frame():
    header = "    batch_size  torch (TFLOP/s (larger is better))  ours (TFLOP/s (larger is better))"
    (sheet,) = audited(
        f"{header}\n0          1.0    2.870333     4.733311\n1         16.0   46.541434    71.740831\n"
    ).sheets
    assert [one.role for one in sheet.columns] == [ColumnRole.OTHER, ColumnRole.SIZE, ColumnRole.RATE, ColumnRole.RATE]


def test_a_difference_in_the_unit_of_its_cells():
    rows = ("a | 11.2 us | 10.4 us | -0.8 us", "b | 16.0 us | 17.2 us | 1.2 us", "c | 1.302 ms | 2.914 ms | {} ms")
    text = table("size | Ref Time | Cmp Time | Diff", *rows)
    check_gap(text, "1.612", "1.712", 5)


def test_what_is_saved_per_step_is_a_difference():
    rows = ("8 | 51.2 µs | 19.1 µs | 32.1 µs", "16 | 118.4 µs | 25.2 µs | 93.2 µs", "24 | 158.0 µs | 28.5 µs | {} µs")
    text = table("kernels | launches | graph | saved/step", *rows, "36 | 232.1 µs | 37.4 µs | 194.7 µs")
    check_gap(text, "129.5", "159.5", 5)


def test_flops_without_a_prefix_are_a_count_which_rates_and_times_follow():
    """2 * 512 * 4096 * 4096 FLOPs in 47 us are 365,529 GFLOP/s."""
    header = "m,n,k,B,Bytes,Flops,Flops/Byte,Runtime,GB/s,GFLOPs\n"
    rows = []
    for M, ms in ((512, 0.047), (1024, 0.081), (2048, 0.152), (16, 0.0151)):
        flops, size = 2 * M * 4096**2, 2 * (4096**2 + 2 * M * 4096)
        rates = f"{ms},{size / ms / 1e6:.1f},{flops / ms / 1e6:.1f}"
        rows.append(f"{M},4096,4096,f16:column,{size},{flops},{flops // size},{rates}\n")
    said = ["time_ms=Runtime"]
    result = audited(header + "".join(rows), "H200", name="t.csv", columns=said, dtype="fp16")
    roles = {column.name: column.role for column in result.sheets[0].columns}
    assert (roles["Flops"], roles["Bytes"], roles["B"]) == (ColumnRole.WORK, ColumnRole.BYTES, ColumnRole.LABEL)
    assert not result.findings
    wrong = header + "".join(rows).replace(",81.1,", ",81.1,").replace("424194", "484194")
    assert {finding.line for finding in audited(wrong, name="t.csv", columns=said).findings} == {3}


def test_bytes_and_bandwidths_with_units_in_their_cells():
    rows = [
        f"{name} | {bytes_} | {bytes_ / 1e9:.1f} | 1000 GB/sec"
        for name, bytes_ in zip("xyz", (10**10, 2 * 10**10, 4 * 10**10), strict=False)
    ]
    text = table("op | bytes | time (ms) | a", *rows, "w | 30000000000 | 30.0 | {} GB/sec")
    check_gap(text, "1000", "1900", 6)


def test_how_well_results_agree_follows_no_pattern():
    rows = [
        f"{M},1024,4096,{us},{err}"
        for M, us, err in zip(
            (1, 4, 16, 32, 64, 128, 256),
            (7.8, 7.9, 8.0, 9.1, 10.2, 14.1, 21.5),
            (2e-4, 1e-4, 2e-4, 1e-4, 0.0015, 2e-4, 1e-4),
            strict=False,
        )
    ]
    assert not audited("M,N,K,us,errRatio\n" + "\n".join(rows) + "\n", name="t.csv").findings


def test_sizes_of_a_tuned_table_of_experts():
    """gfx950 with 256 units is an MI350X or MI355X; 80 units of gfx942 are part of one of 304."""
    text = "gfx,cu_num,token,model_dim,inter_dim,expert,topk,us1,us\n"
    text += "{},16,6144,256,257,9,21.4,30.3\n{},8,6144,256,96,-1,1,2\n"
    (sheet,) = audited(text.format("gfx950,256", "gfx942,80"), name="t.csv").sheets
    assert sheet.sizes(0) == {"M": 16, "N": 256, "K": 6144, "E": 257, "top_k": 9}
    assert sheet.sizes(1) == {"M": 8, "N": 256, "K": 6144, "E": 96}
    assert [one.device and one.device.arch for one in map(sheet.setting_at, (0, 1))] == ["gfx950", "gfx942"]


def test_a_contradiction_in_every_row_is_a_question():
    text = "M,N,K,ms,TFLOPS\n512,512,512,1.0,5.0\n1024,512,512,1.0,6.0\n2048,512,512,1.0,7.5\n"
    assert {str(finding.severity) for finding in audited(text, name="t.csv").findings} == {"question"}

"""Derived columns of tables that pull requests printed come out of their printed times, within their rounding.

What comes out otherwise is listed in tests/data/corrections.md.
"""

import pytest
from rooflens.analysis.frames.load import load_run
from rooflens.reports.build import build_report
from rooflens.reports.model import Bullets, Remarks, Text, Tone

from .planted import synthetic, tables, texts
from .published import STILL, flat_run, grouped_run, rows_of


def column(table, header, unit=None):
    """Cells of the column with a header (and unit)."""
    places = [
        place
        for place, column in enumerate(table.columns)
        if column.header == header and (unit is None or column.unit == unit)
    ]
    assert len(places) == 1, [(column.header, column.unit) for column in table.columns]
    return [row[places[0]] for row in table.rows]


def number(cell):
    """The number at the beginning of a text."""
    return float(cell.text.removesuffix("×").split()[0])


def step(text):
    """One unit of the last digit of a printed number."""
    return 10.0 ** -len(text.partition(".")[2])


def same_ratio(cell, printed, *times):
    """The ratio is the printed one, as far as the last digits of the printed times leave it, and is shown as it is."""
    rounding = sum(0.5 * step(time) / float(time) for time in times) * float(printed)
    assert cell.value == pytest.approx(float(printed), abs=rounding + 0.5 * step(printed))
    assert number(cell) == pytest.approx(cell.value, abs=0.005)


def blocks(report, kind, section_id):
    section = next(part for part in report.walk() if part.id == section_id)
    return [block for block in section.blocks if isinstance(block, kind)]


# -- batched sweep: rates from times, order, floor ----------------------------------------------------------------


@pytest.fixture(scope="module")
def flat(tmp_path_factory):
    return flat_run(tmp_path_factory.mktemp("flat") / "run")


def test_flat_rows_have_the_printed_rates_in_the_printed_order(flat):
    table = tables(flat)["cells-bf16-a16w8-128x128-cold-kernel-a16w8"]
    printed = rows_of("aiter2297_deepseek_tflops")
    sizes = [[cell.text for cell in row[:4]] for row in table.rows]
    assert [column.header for column in table.columns[:4]] == ["B", "M", "N", "K"]
    # Within one B and M the pull request has 512 x 128 first, and so have we.
    assert sizes == [[row[name] for name in "BMNK"] for row in printed]
    for cell, row in zip(column(table, "rate"), printed, strict=True):
        assert number(cell) == pytest.approx(float(row["tflops"]), rel=5e-3)
        assert cell.value == pytest.approx(float(row["tflops"]) * 1e12)


def test_the_floor_of_the_sweep_is_said_and_no_row_is_called_compute_bound(flat):
    remarks = [item for block in blocks(flat, Bullets, "flat") for item in block.items]
    floor = next(text for text in remarks if "problems take" in text)
    assert floor.startswith("kernel_a16w8: 18 / 24 problems take 29.01 to 30.60 µs, while their FLOPs differ 512-fold")
    table = tables(flat)["cells-bf16-a16w8-128x128-cold-kernel-a16w8"]
    assert "compute" not in {cell.text for cell in column(table, "class")}


def test_the_share_of_peak_names_its_peak(flat):
    remarks = [item for block in blocks(flat, Bullets, "flat") for item in block.items]
    best = next(text for text in remarks if "highest rate" in text)
    assert "58.7 TFLOPS at B=128 M=128 N=128 K=512" in best
    assert "3% of the published peak of bf16, 2306.9 TFLOPS (vendor data sheet)" in best


def test_the_legend_says_what_tensor_parallelism_divides(flat):
    table = tables(flat)["legend-table"]
    assert texts(table)[1:] == [
        ["DeepSeek-R1 mla_kv_b 512x128", "1, 2, 4, 8", "128, 64, 32, 16", "512", "128", "B × TP = 128"],
        ["DeepSeek-R1 mla_kv_b 128x512", "1, 2, 4, 8", "128, 64, 32, 16", "128", "512", "B × TP = 128"],
    ]


# -- decode grid: speedups, absolute cells, the tie ---------------------------------------------------------------


def decode_run(folder, band=(0.97, 1.05, 1.01), caches=("cold",)):
    """Speedups as printed; times as printed where there are any, else 20 us of the new kernel."""
    printed = rows_of("aiter3783_dense_speedup")
    times = {(row["proj"], int(row["M"])): row for row in rows_of("aiter3783_absolute_us")}
    layers = list(dict.fromkeys((row["proj"], int(row["N"]), int(row["K"])) for row in printed))
    ratio = {(row["proj"], int(row["M"])): float(row["speedup_x"]) for row in printed}
    rounds = {}

    def latency(cell):
        at = (cell.layer, cell.M)
        row = times.get(at)
        new = float(row["hip_us"]) * 1e-6 if row else 20e-6
        if cell.provider == "hip":
            return new
        if at == ("o_proj", 64):
            number = rounds[cell] = rounds.get(cell, -1) + 1
            return new * band[number]
        return float(row["triton_us"]) * 1e-6 if row else new * ratio[at]

    synthetic.write_run(
        folder,
        suite="mxfp8-decode",
        shapes=tuple(("MiniMax-M3", *layer) for layer in layers),
        Ms=(1, 2, 4, 8, 16, 32, 64),
        providers=("triton", "hip"),
        baseline="triton",
        challengers=("hip",),
        caches=caches,
        latency=latency,
        columns=lambda cell, round_: {"config": {"BLOCK_M": 64, "BLOCK_N": 128, "BLOCK_K": 128, "num_warps": 8}},
        **STILL,
    )
    return build_report(load_run(folder), preset="decode-grid")


@pytest.fixture(scope="module")
def decode(tmp_path_factory):
    return decode_run(tmp_path_factory.mktemp("decode") / "run")


def test_the_decode_grid_has_the_printed_speedups(decode):
    table = tables(decode)["speedup-bf16-nf4-g64-cold-hip"]
    printed = rows_of("aiter3783_dense_speedup")
    head, *lines = texts(table)
    assert head == ["shape", "N×K", "M=1", "M=2", "M=4", "M=8", "M=16", "M=32", "M=64"]
    assert [line[:2] for line in lines[:4]] == [
        ["MiniMax-M3 qkv", "2304×6144"],
        ["MiniMax-M3 o_proj", "6144×2048"],
        ["MiniMax-M3 gate_up", "1536×6144"],
        ["MiniMax-M3 mlp_down", "6144×1536"],
    ]
    shown = {(line[0].split()[1], m): text for line in lines[:4] for m, text in zip(head[2:], line[2:], strict=True)}
    for row in printed:
        if row["tie"] == "0":
            assert shown[row["proj"], f"M={row['M']}"] == row["printed"]
    assert "27 faster, 0 slower, 1 undecided (their rounds up to 1.08× apart)" in table.reading


def test_the_tie_is_not_claimed(decode):
    table = tables(decode)["speedup-bf16-nf4-g64-cold-hip"]
    cell = table.rows[1][-1]
    assert cell.text == "~1×"
    assert cell.tone is Tone.UNDECIDED


def test_absolute_cells_have_the_printed_times(decode):
    table = tables(decode)["times-bf16-nf4-g64-cold"]
    shown = {(row[0].text.split()[1], row[2].text): [cell.text for cell in row[3:5]] for row in table.rows}
    assert shown["gate_up", "1"] == ["7.82 µs", "26.13 µs"] or shown["gate_up", "1"] == ["26.13 µs", "7.82 µs"]
    for row in rows_of("aiter3783_absolute_us"):
        if (row["proj"], row["M"]) != ("o_proj", "64"):
            assert {f"{row[name]} µs" for name in ("triton_us", "hip_us")} == set(shown[row["proj"], row["M"]])


# -- grouped kernels: speedups, rates, ratios by their names, rates above the peak -----------------------------------


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    return grouped_run(tmp_path_factory.mktemp("kernel") / "run", "torchao3996_kernel", reference=False)


@pytest.fixture(scope="module")
def forward(tmp_path_factory):
    return grouped_run(tmp_path_factory.mktemp("forward") / "run", "torchao3996_forward", reference=True)


def test_speedups_and_rates_of_the_kernel_table(kernel):
    table = tables(kernel)["three-bf16-nf4-g64-cold"]
    printed = rows_of("torchao3996_kernel")
    rates = [[row[place] for row in table.rows] for place, one in enumerate(table.columns) if one.unit == "TFLOPS"]
    for place, row in enumerate(printed):
        same_ratio(column(table, "old ÷ new")[place], row["speedup_x"], row["old_ms"], row["new_ms"])
        for side, time, rate in (("old", "old_ms", "old_tflops"), ("new", "new_ms", "new_tflops")):
            cell = rates[0 if side == "old" else 1][place]
            half_a_step = 0.5 * step(row[time]) / float(row[time])
            allowed = float(row[rate]) * half_a_step + 0.5 * step(row[rate])
            assert cell.value / 1e12 == pytest.approx(float(row[rate]), abs=allowed), row
            assert number(cell) == pytest.approx(float(row[rate]), abs=allowed + 0.05), row


def test_the_table_says_what_m_counts_and_holds_the_total(kernel):
    table = tables(kernel)["three-bf16-nf4-g64-cold"]
    assert "M counts the rows of all E groups together: the FLOPs are 2 M N K, not times E." in table.how_to_read
    printed = rows_of("torchao3996_kernel")
    assert [(row[1].value, row[2].value) for row in table.rows] == [
        (int(row["E"]), int(row["E"]) * int(row["M"])) for row in printed
    ]


def test_ratios_of_the_forward_table_are_named_by_what_they_are(forward):
    table = tables(forward)["three-bf16-nf4-g64-cold"]
    for place, row in enumerate(rows_of("torchao3996_forward")):
        for header, above, printed in (
            ("old ÷ new", "old_ms", "printed_new_over_old_x"),
            ("reference ÷ new", "bf16_ms", "printed_new_over_bf16_x"),
        ):
            cell = column(table, header)[place]
            if header == "reference ÷ new" and row[printed] in ("0.22", "0.14"):  # 2401 and 2548 of 1307.4 TFLOPS
                assert (cell.text, cell.value) == ("no ratio", None)
                assert "bf16_blas faster than the device allows" in cell.note
            else:
                same_ratio(cell, row[printed], row[above], row["new_ms"])
    assert "old old_loop, new new_grouped, reference bf16_blas" in table.reading
    assert "Ratios are of times, > 1: new_grouped is faster" in table.reading


def test_three_rows_of_the_reference_are_above_the_peak_and_marked(forward):
    table = tables(forward)["three-bf16-nf4-g64-cold"]
    rates = column(table, "reference", "TFLOPS")
    marked = [place for place, cell in enumerate(rates) if cell.tone is Tone.FAILED]
    assert [round(rates[place].value / 1e12) for place in marked] == [1328, 2401, 2548]
    assert all("published peak of bf16, 1307.4 TFLOPS" in rates[place].note for place in marked)
    assert all("or M counts differently (E=" in rates[place].note for place in marked)
    # Of two of them the time itself is impossible by more than the measuring of a clock allows.
    notes = [cell.note for row in table.rows for cell in row]
    assert sum("no ratio with this time is to be used" in note for note in notes) == 2
    said = [block.text for block in blocks(forward, Text, "three-way")]
    assert any(
        text.startswith("3 / 9 times of bf16_blas are shorter than the device allows: they would be 1327.9 TFLOPS")
        for text in said
    )


def test_takeaways_are_computed_and_leave_out_what_cannot_be(forward):
    items = [item for block in blocks(forward, Remarks, "takeaways") for item in block.items]
    first = items[0]
    assert first.startswith("old_loop ÷ new_grouped (time): 1.05× to 6.09×, geometric mean 2.")
    assert "new_grouped is verified faster at 9 of 9 problems" in first
    assert "Largest at generic E8 M2048 1024x1024, M=16384" in first
    assert "the most time saved is 15.5 ms" in first  # 47.771 - 32.276
    experts = next(item for item in items if "by experts" in item)
    assert experts.index("16 experts") < experts.index("8 experts (7 problems)")
    reference = next(item for item in items if item.startswith("bf16_blas ÷ new_grouped"))
    assert "0.28× to 1.22×" in reference  # 0.20, 0.22 and 0.14 are of times that cannot be
    assert "new_grouped is verified faster at 1 of 6 problems, slower at 5; 3 excluded" in reference


# -- crossovers: maxima with their coordinates, medians, censoring ----------------------------------------------------


def test_median_crossover_with_quartiles_and_censored_shapes(tmp_path):
    """Eight shapes cross where they are told to, one of them beyond the sweep; the printed median is 622."""
    places = [100, 300, 622 / 2**0.5, 622, 622, 622 * 2**0.5, 1500, 9000]
    shapes = tuple(("toy", f"layer {number}", 1024 + 64 * number, 1024) for number in range(8))
    at = {f"layer {number}": place for number, place in enumerate(places)}
    folder = synthetic.write_run(
        tmp_path / "run",
        shapes=shapes,
        Ms=tuple(2**power for power in range(12)),
        providers=("simt_4bit", "dequant_blas"),
        latency=lambda cell: 1e-5 * (cell.M / at[cell.layer] if cell.provider == "simt_4bit" else 1.0),
        **STILL,
    )
    table = tables(build_report(load_run(folder), preset="crossover"))["median-crossover"]
    row = dict(zip((one.header for one in table.columns), table.rows[0], strict=True))
    assert row["median M"].text == "M~622"
    assert row["quartiles"].text == "[300, 880]"
    assert row["censored"].text == "1 / 8"
    assert table.title.endswith("x86-64-avx512")

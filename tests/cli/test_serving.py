"""Tables of serving stacks, in AIConfigurator's columns: beside the cells of a report, and in none of its numbers."""

import json

import pandas as pd
import pytest
from rooflens.analysis.imports.read import read
from rooflens.shapes.errors import UsageError

from ..analysis.synthetic import H200

SHAPES = (("toy", "up", 4096, 2048), ("toy", "down", 2048, 4096))
TOY = {"shapes": SHAPES, "Ms": (1, 64), "providers": ("simt_4bit", "dequant_blas", "blas"), "machine": H200}
HEADER = ("framework", "version", "device", "op_name", "kernel_source", "gemm_dtype", "m", "n", "k", "latency")


def table(path, rows, device="NVIDIA H200", stack="vLLM"):
    """Write (gemm_dtype, M, N, K, latency in ms) in the columns of ai-dynamo/aiconfigurator @095f58a, gemm_perf."""
    frame = pd.DataFrame([(stack, "1.0", device, "gemm", "a_kernel", *row) for row in rows], columns=HEADER)
    frame.to_csv(path, index=False) if path.suffix == ".txt" else frame.to_parquet(path)
    return path


ROWS = [
    ("int4_wo", 1, 4096, 2048, 0.0123),
    ("bfloat16", 1, 4096, 2048, 0.0345),
    ("bfloat16", 64, 2048, 4096, 0.0456),
    ("fp8", 1, 4096, 2048, 0.0067),
    ("bfloat16", 2, 4096, 2048, 0.0078),
]


@pytest.fixture
def serving(tmp_path):
    return table(tmp_path / "gemm_perf.parquet", ROWS)


def sections(invoke, *arguments):
    out = invoke("report", "planted", *arguments, "--json", "-").out
    return {section["id"]: section for section in json.loads(out)["sections"]}


def tables_of(section):
    blocks = [*section["blocks"], *(block for part in section["sections"] for block in part["blocks"])]
    return {block["id"]: block for block in blocks if block["kind"] == "table"}


def shown(found):
    header = [column["header"] for column in found["columns"]]
    return [dict(zip(header, (cell["value"] or cell["text"] for cell in row), strict=True)) for row in found["rows"]]


def test_rows_of_the_same_gpu_storage_and_sizes_stand_beside_the_cells(plant, serving, invoke):
    plant("planted", **TOY)
    section = sections(invoke, "--serving", str(serving))["serving"]
    own, references = tables_of(section).values()
    (row,) = shown(own)
    assert (row["M"], row["provider"], row["vLLM 1.0 int4_wo"]) == (1, "simt_4bit", pytest.approx(12.3e-6))
    rows = shown(references)
    assert {(row["M"], row["vLLM 1.0 bfloat16"]) for row in rows} == {(1, 34.5e-6), (64, 45.6e-6)}
    assert {row["provider"] for row in rows} == {"blas (reference)"}
    (said,) = section["blocks"][0]["items"]
    assert "rows for 2 / 4 problems (M, N, K)" in said


def test_nothing_else_in_the_report_changes(plant, serving, invoke):
    """The stack is a hundred times as fast as all else: it would win everywhere."""
    plant("planted", **TOY)
    faster = table(serving.with_name("faster.parquet"), [(*row[:-1], row[-1] / 100) for row in ROWS])
    for preset in ("full", "crossover", "decode-grid", "three-way", "flat"):
        without = sections(invoke, "--preset", preset)
        beside = sections(invoke, "--preset", preset, "--serving", str(faster))
        assert beside.pop("serving")
        changed = [name for name in without if without[name] != beside.pop(name)]
        assert changed == ["reproduce"], "which has the command of this very report"
        assert not beside


@pytest.mark.parametrize(
    "rows, device, words",
    [
        (ROWS, "NVIDIA H100 80GB HBM3", "because it was measured on NVIDIA H100 80GB HBM3"),
        (ROWS[-1:], "NVIDIA H200", "because it has no row of these M, N and K"),
        (ROWS[3:4], "NVIDIA H200", "its rows of these sizes are fp8, which no cell of this run is stored as"),
    ],
)
def test_what_matches_nothing_says_why(plant, tmp_path, invoke, rows, device, words):
    plant("planted", **TOY)
    file = table(tmp_path / "other.parquet", rows, device)
    section = sections(invoke, "--serving", str(file))["serving"]
    assert tables_of(section) == {}
    assert words in section["blocks"][0]["items"][0]


def test_rows_of_another_gpu_in_one_file_are_left_out(plant, tmp_path, invoke):
    plant("planted", **TOY)
    parts = [table(tmp_path / f"{name}.txt", ROWS[:1], name) for name in ("NVIDIA H100 80GB HBM3", "NVIDIA H200")]
    both = tmp_path / "both.txt"
    both.write_text(parts[0].read_text().replace("vLLM", "other") + parts[1].read_text().partition("\n")[2])
    (found,) = tables_of(sections(invoke, "--serving", str(both))["serving"]).values()
    assert [column["header"] for column in found["columns"]][-1] == "vLLM 1.0 int4_wo"


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_kernels_of_a_stack_the_fastest_stands_there(plant, tmp_path, invoke, order):
    plant("planted", **TOY)
    file = table(tmp_path / "several.txt", [(*ROWS[0][:-1], 0.9), ROWS[0]][::order])
    file.write_text(file.read_text().replace("a_kernel", "another", 1))
    (found,) = tables_of(sections(invoke, "--serving", str(file))["serving"]).values()
    assert shown(found)[0]["vLLM 1.0 int4_wo"] == pytest.approx(12.3e-6)


def test_the_older_csv_says_the_same(serving):
    older = table(serving.with_suffix(".txt"), ROWS)
    pd.testing.assert_frame_equal(read(older).frame, read(serving).frame)
    assert read(serving).frame["time_s"].tolist() == pytest.approx([row[-1] / 1e3 for row in ROWS])


def test_of_rows_for_one_case_the_last_counts(tmp_path):
    found = read(table(tmp_path / "twice.parquet", [*ROWS, (*ROWS[0][:-1], 0.5)]))
    assert found.frame.loc[found.frame["scheme"] == "int4_wo", "time_s"].tolist() == [0.5e-3]
    assert "the last counts (1 others)" in found.notes[0]


def pointer(path):
    path.write_text(f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 736024\n")


def damaged(path):
    path.write_bytes(path.read_bytes()[:200])


def of_experts(path):
    pd.DataFrame({name: ["x"] for name in (*HEADER[:5], "moe_dtype", "latency")}).to_parquet(path)


def another(path):
    pd.DataFrame({"a": [1], "b": [2]}).to_parquet(path)


@pytest.mark.parametrize(
    "make, words",
    [
        (pointer, "is a pointer of Git LFS and not the table: fetch it with git lfs pull"),
        (damaged, "damaged parquet"),
        (of_experts, "table of another operation"),
        (another, "not a table of AIConfigurator"),
        (lambda path: path.unlink(), "No such file"),
    ],
)
def test_a_file_that_is_no_such_table_is_one_line(plant, serving, invoke, make, words):
    plant("planted", **TOY)
    make(serving)
    err = invoke("report", "planted", "--serving", serving, code=2).err
    assert (words in err, err.count("\n")) == (True, 1)
    with pytest.raises(UsageError):
        read(serving)


def test_two_versions_have_no_serving_table(plant, serving, invoke):
    plant("planted", **TOY)
    err = invoke("report", "planted", "planted", "--serving", serving, code=2).err
    assert "--serving is for the report of one run" in err


PUBLISHED = [
    # aiconfigurator-core 0.12.0 (Apache-2.0), systems/data/h200_sxm/gemm/vllm/0.24.0/gemm_perf.parquet
    ("torch.nn.functional.linear", "bfloat16", 64, 4096, 4096, 0.012047111160225339),
    ("CutlassFP8ScaledMMLinearKernel", "fp8", 64, 4096, 4096, 0.010786666638321347),
    ("DeepGemmFp8BlockScaledMMKernel", "fp8_block", 64, 4096, 4096, 0.084042668342590332),
    ("torch.nn.functional.linear", "bfloat16", 1, 4096, 4096, 0.01255733354224099),
    ("FlashInferFp8BlockScaledMMKernel", "fp8_block", 1, 4096, 4096, 0.061072001854578652),
    ("CutlassFP8ScaledMMLinearKernel", "fp8", 1, 4096, 4096, 0.012031111452314587),
    ("torch.nn.functional.linear", "bfloat16", 512, 8192, 65536, 0.589622),
]


def test_published_rows_are_read(tmp_path):
    """Types as in the file: texts, int64 and doubles."""
    file = tmp_path / "gemm_perf.parquet"
    rows = [("VLLM", "0.24.0", "NVIDIA H200", "gemm", *row) for row in PUBLISHED]
    pd.DataFrame(rows, columns=HEADER).to_parquet(file)
    frame = read(file, {}).frame
    assert sorted(frame["time_s"] * 1e3) == pytest.approx(sorted(row[-1] for row in PUBLISHED))
    assert set(frame["scheme"]) == {"bfloat16", "fp8", "fp8_block"}

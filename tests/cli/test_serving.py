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
    out = invoke("report", "planted", *arguments, "-o", "json=-").out
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


@pytest.mark.slow
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


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_kernels_of_a_stack_the_fastest_stands_there_and_no_other_gpu(plant, tmp_path, invoke, order):
    plant("planted", **TOY)
    file = table(tmp_path / "several.txt", [(*ROWS[0][:-1], 0.9), ROWS[0]][::order])
    other = table(tmp_path / "other.txt", [(*ROWS[0][:-1], 1e-3)], "NVIDIA H100 80GB HBM3", "other")
    whole = file.read_text().replace("a_kernel", "another", 1) + other.read_text().partition("\n")[2]
    file.write_text(whole)
    (found,) = tables_of(sections(invoke, "--serving", str(file))["serving"]).values()
    assert [column["header"] for column in found["columns"]][-1] == "vLLM 1.0 int4_wo"
    assert shown(found)[0]["vLLM 1.0 int4_wo"] == pytest.approx(12.3e-6)


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
    assert "--serving is for the report of one run" in invoke("report", *2 * ["planted"], "--serving", "x", code=2).err
    with pytest.raises(UsageError):
        read(serving)


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


def test_published_rows_are_read_from_parquet_and_the_older_csv(tmp_path):
    """Types as in the file: texts, int64 and doubles. Of rows for one case the last counts."""
    file = tmp_path / "gemm_perf.parquet"
    rows = [("VLLM", "0.24.0", "NVIDIA H200", "gemm", *row) for row in ((*PUBLISHED[0][:-1], 0.5), *PUBLISHED)]
    pd.DataFrame(rows, columns=HEADER).to_parquet(file)
    found = read(file, {})
    assert "the last counts (1 others)" in found.notes[0]
    assert sorted(found.frame["time_s"] * 1e3) == pytest.approx(sorted(row[-1] for row in PUBLISHED))
    assert set(found.frame["scheme"]) == {"bfloat16", "fp8", "fp8_block"}
    pd.DataFrame(rows, columns=HEADER).to_csv(file.with_suffix(".txt"), index=False)
    pd.testing.assert_frame_equal(read(file.with_suffix(".txt")).frame, found.frame)

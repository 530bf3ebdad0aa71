"""`rooflens isa`: a pair of kernels, short stores without and dwordx4 stores with a transposed epilogue, and misuse."""

import json
from pathlib import Path

import pytest
from rooflens.cli.main import main
from rooflens.plugins.isa import compile
from rooflens.shapes.run_folder.columns_isa import ISA

from tests.cli.tiny_runs import write_suite
from tests.csv_files import read_rows, write_rows

PROBES = Path(__file__).parent / "isa_probes.py"


class Place:
    """A folder with a tiny suite, the table that was compiled from it, and the cache of its compiles."""

    def __init__(self, folder):
        self.folder = write_suite(folder)
        self.table = folder / "isa.csv"
        names = [part for name in ("plain", "transposed", "faulty", "dequant_blas") for part in ("-p", name)]
        self.command = ["isa", folder / "tiny.toml", "--arch", "gfx950,sm90,sm89", "--providers", PROBES, *names]
        self.command += ["-a", "M=64"]

    def rows(self):
        return read_rows(self.table)


def call(*arguments):
    return main([str(argument) for argument in arguments])


pytestmark = pytest.mark.compile


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    found = Place(tmp_path_factory.mktemp("isa"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROOFLENS_CACHE", str(found.folder / "cache"))
        assert call(*found.command, "-o", found.table, "--asm", found.folder / "asm") == 0
        yield found


def test_the_table_has_every_pair_of_architecture_and_provider(place):
    rows = place.rows()
    assert list(rows[0]) == list(ISA.names)
    found = [(row["arch"], row["provider"], row["verdict"], row["problems"]) for row in rows]
    compiled = [("plain", "passed", "2"), ("plain", "passed", "2"), ("transposed", "passed", "2")]
    compiled += [("transposed", "passed", "2"), ("faulty", "runtime_error", "2")]
    declined = [(name, "unsupported", "2") for name in ("plain", "transposed", "faulty")]
    expected = [(arch, *row) for arch in ("gfx950", "sm90") for row in compiled]
    assert found == expected + [("sm89", *row) for row in declined]
    assert {row["reason"] for row in rows if row["arch"] == "sm89"} == {"needs matrix instructions for bf16"}
    assert {row["reason"] for row in rows if row["provider"] == "faulty" and row["arch"] != "sm89"} == {
        "KeyError: 'num_stages'"
    }
    assert [json.loads(row["config"])["T"] for row in rows if row["config"]] == [64, 128] * 4
    assert {row["default"] for row in rows if row["config"] and '"T":64' in row["config"]} == {"true"}


def test_the_transposed_epilogue_turns_short_stores_into_wide_ones(place):
    """A tile of T x T over w waves: T^2 / lanes values per lane, two bytes each, stored alone or eight at a time."""
    for row in place.rows():
        if row["verdict"] == "passed" and row["arch"] == "gfx950":
            config = json.loads(row["config"])
            per_lane = config["T"] ** 2 // (config["num_warps"] * 64)
            plain = row["provider"] == "plain"
            assert int(row["store_short"]) == (per_lane if plain else 0)
            assert int(row["store_dwordx4"]) == (0 if plain else per_lane // 8)
            assert row["matrix_instructions"].startswith("v_mfma_f32_")
            assert int(row["loop_matrix"]) > 0
            assert row["loop_store_short"] == "0"


def test_the_same_call_writes_the_same_bytes_without_compiling(place, capsys, monkeypatch):
    from rooflens.plugins.isa.compiled import compile_all

    monkeypatch.setattr(compile_all, "AotCompiler", None)
    again = place.folder / "again.csv"
    assert call(*place.command, "-o", again) == 0
    assert again.read_bytes() == place.table.read_bytes()
    err = capsys.readouterr().err
    assert "8 of 8 compiled before" in err
    assert "not compiled by Triton, or do not say what: dequant_blas" in err
    assert "11 rows" not in err
    assert "13 rows written to" in err


@pytest.fixture
def base(place, tmp_path):
    """The table of a branch on which `transposed` was what `plain` is, and on which `faulty` did not exist."""
    path = tmp_path / "base.csv"
    names = {"plain": "transposed", "transposed": "plain"}
    rows = [row | {"provider": names[row["provider"]]} for row in place.rows() if row["provider"] in names]
    write_rows(path, ISA.names, rows)
    return path


def test_a_difference_names_what_changed(place, base, invoke):
    only = ["--arch", "gfx950", "-p", "transposed", "--diff", base]
    assert "2 rows in both: 0 equal, 2 with other code" in invoke("isa", place.table, *only).out
    told = json.loads(invoke("isa", place.table, *only, "--json").out)["difference"]
    assert told["added"] == told["removed"] == []
    assert "loop_matrix" not in {row["column"] for row in told["changes"]}
    rows = [(row["config"]["T"], row["base"], row["head"]) for row in told["changes"] if row["column"] == "store_short"]
    assert rows == [(64, 16, 0), (128, 32, 0)]


def test_json_holds_rows_summary_claims_and_difference(place, base, invoke):
    told = json.loads(invoke("isa", place.table, "--claim", "store_short == 0", "--diff", base, "--json").out)
    assert len(told["rows"]) == 13
    assert told["rows"][0]["config"] == {"T": 64, "num_warps": 4}
    assert told["rows"][0]["specialization"]["out"] == "*bf16:16:2GiB"
    assert told["rows"][-1]["vgprs"] is None
    claims = [(row["arch"], row["provider"], row["holds"], row["binaries"]) for row in told["claims"]]
    assert claims[:2] == [("gfx950", "plain", 0, 2), ("gfx950", "transposed", 2, 2)]
    assert told["summary"][0]["with_short_stores"] == 2
    assert len(told["difference"]["added"]) == 3
    changes = [(row["column"], row["base"], row["head"]) for row in told["difference"]["changes"]]
    assert ("store_short", 0, 16) in changes
    assert ("store_short", 16, 0) in changes


def test_markdown_for_a_pull_request(place, base, tmp_path):
    page = tmp_path / "isa.md"
    arguments = ["--arch", "gfx950", "-p", "transposed", "--claim", "store_short == 0", "--diff", base]
    assert call("isa", place.table, *arguments, "--markdown", page) == 0
    text = page.read_text()
    assert text.startswith("## Generated code\n")
    assert "**claim: store_short == 0**" in text
    assert "| nf4-g64 | 2 / 2 binaries |" in text
    assert "| store_short | 2 | 16 to 32 | 0 |" in text
    assert text.count("<details>") == text.count("</details>") == 1
    assert "| M=64 N=48 K=128 | T=64 num_warps=4 | 42 | 0 |" in text


def test_assembly_is_kept_under_the_hash_of_the_code(place):
    for row in place.rows():
        if row["verdict"] == "passed":
            stem = place.folder / "asm" / row["arch"] / f"{row['provider']}-{row['code']}"
            suffixes = [".amdgcn"] if row["arch"] == "gfx950" else [".sass", ".ptx"]
            (text, *_) = [Path(f"{stem}{suffix}").read_text() for suffix in suffixes]
            stores = text.count("buffer_store_short") if row["arch"] == "gfx950" else text.count("STG.E.U16")
            assert stores == int(row["store_short"])


def test_strictness_has_exit_codes(place, invoke):
    only = ["isa", place.table, "-p", "transposed", "--arch", "gfx950"]
    assert call(*only, "--claim", "store_short == 0", "--strict") == 0
    assert "'warps == 4' holds for 1 of 2 binaries" in invoke(*only, "--claim", "warps == 4", "--strict", code=3).err
    assert "2 kernels did not compile" in invoke("isa", place.table, "--strict", code=4).err


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["llm4bit-quick", "--arch", "gfx943"], "unknown architecture 'gfx943': did you mean gfx942"),
        (["llm4bit-quick"], "--arch is missing"),
        (["llm4bit-quick", "--arch", "sm90", "--filter", "N = 4096"], "--filter 'N = 4096'"),
        (["llm4bit-quick", "--arch", "sm90", "-p", "blas"], "Triton compiles none of these: blas"),
        (["llm4bit-quick", "--arch", "sm90", "--pass", "wgrd"], "unknown pass 'wgrd': did you mean wgrad"),
        (
            ["llm4bit-quick", "--arch", "sm90", "-o", "nowhere/isa.csv"],
            "-o nowhere/isa.csv: there is no folder nowhere",
        ),
        (["nothing.csv"], "cannot read nothing.csv: No such file or directory"),
        (["TABLE", "--filter", "store_short > 1000"], "--filter 'store_short > 1000' leaves no row of 13"),
        (["TABLE", "--arch", "gfx942"], "unknown arch of"),
        (["TABLE", "-a", "M=1"], "--axis says what to compile"),
    ],
)
def test_misuse_is_one_line_and_exit_code_2(place, arguments, words, refused):
    assert words in refused("isa", *(place.table if argument == "TABLE" else argument for argument in arguments))


def test_an_interpreted_triton_compiles_nothing(place, monkeypatch, invoke):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert "TRITON_INTERPRET is set" in invoke(*place.command, code=2).err


def test_ctrl_c_says_where_the_finished_compiles_are(place, monkeypatch, invoke):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(compile, "compile_all", interrupt)
    assert f"finished compiles are kept in {place.folder / 'cache'}" in invoke(*place.command, code=130).err

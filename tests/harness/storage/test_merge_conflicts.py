"""What keeps shards from being one run is named, with the place of both sides."""

import pytest
from rooflens.shapes.errors import UsageError

from ..sharded import edit_manifest, edit_row, join, read_rows, reasons, write_rows


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"suite": "llm4bit"}, "suite is llm4bit-quick in .*1/run.json and llm4bit in .*8/run.json"),
        ({"seed": 7}, "seed is 0 in .*1/run.json and 7 in"),
        ({"rounds": 5}, "rounds is 2 in .* and 5 in"),
        ({"baseline": "blas"}, "baseline is dequant_blas in .* and blas in"),
        ({"threads": 4}, "threads is unknown in .* and 4 in"),
        ({"protocol": {"timer": "event"}}, "protocol timer is host in .* and event in"),
        ({"protocol": {"caches": ["cold", "warm"]}}, "protocol caches is cold in .* and cold, warm in"),
        ({"device": {"name": "Another CPU"}}, "device name is Planted CPU @ 2.10GHz in .* and Another CPU in"),
        ({"device": {"arch": "x86-64-avx2"}}, "device arch is x86-64-avx512 in .* and x86-64-avx2 in"),
        ({"device": {"llc_bytes": 1}}, "device llc_bytes is 33554432 in .* and 1 in"),
        ({"environment": {"torch": "2.11.0"}}, "torch is 2.13.0 in .* and 2.11.0 in"),
        ({"environment": {"triton": "3.6.0"}}, "triton is 3.9.0 in .* and 3.6.0 in"),
        ({"environment": {"bitsandbytes": "0.50.2"}}, "bitsandbytes is unknown in .* and 0.50.2 in"),
        (
            {"providers": {"simt_4bit": {"role": "candidate", "source": "new"}}},
            "provider simt_4bit is other code in .*8",
        ),
    ],
)
def test_other_conditions_are_refused(halves, tmp_path, change, reason):
    def changed(manifest):
        return manifest | {
            key: manifest[key] | value if isinstance(value, dict) else value for key, value in change.items()
        }

    edit_manifest(halves[1], changed)
    with pytest.raises(UsageError, match=f"these runs do not merge: {reason}") as refused:
        join(halves, tmp_path / "merged")
    assert "\n" not in str(refused.value)
    assert not (tmp_path / "merged").exists()
    assert not list(tmp_path.glob(".*"))
    assert len(reasons(*halves)) == 1


def test_a_unit_in_two_shards_is_refused(halves, tmp_path):
    rows = read_rows(halves[0] / "cells.csv")
    path = halves[1] / "cells.csv"
    write_rows(path, list(rows[0]), [*read_rows(path), rows[3], rows[4]])
    (reason,) = reasons(*halves)
    cell = rows[3]["cell_id"]
    assert f"{path} line 8: round {rows[3]['round']} of cell {cell} duplicates {halves[0]}/cells.csv line 5" in reason
    with pytest.raises(UsageError, match="duplicates"):
        join(halves, tmp_path / "merged")


@pytest.mark.parametrize("other", [{"cell_id": "other"}, {"identity": "other"}, {"process": "7"}])
def test_a_cell_of_other_code_or_another_device_is_refused(halves, other):
    row = next(row for row in read_rows(halves[1] / "cells.csv") if row["provider"] == "simt_4bit")
    known = {"cell_id": row["cell_id"], "identity": "one"}
    edit_row(halves[0] / "cells.csv", 0, **({"M": "8", "round": "99"} | known | other))
    rows = [one | {"identity": "one"} for one in read_rows(halves[1] / "cells.csv")]
    write_rows(halves[1] / "cells.csv", list(rows[0]), rows)
    of = {"uuid": "GPU-7", "processes": [7]}
    edit_manifest(halves[0], lambda manifest: manifest | {"devices": [manifest["device"] | of]})
    told = [reason for reason in reasons(*halves) if "times are not of one cell" in reason]
    assert len(told) == 1
    assert "simt_4bit llama3.2-1b k/v M=8 bf16 cold is of other code" in told[0]


def test_a_folder_that_is_given_twice_is_refused(halves, tmp_path):
    (tmp_path / "link").symlink_to(halves[0])
    assert reasons(halves[0], tmp_path / "link") == [f"{tmp_path / 'link'} is given twice"]


def test_a_table_of_cells_in_two_shards_is_refused(halves):
    from rooflens.shapes.run_folder.columns import TUNING

    row = dict.fromkeys(TUNING.names, "1") | {"cell_id": "tuned"}
    for shard in halves:
        write_rows(shard / TUNING.file, TUNING.names, [row])
    (reason,) = reasons(*halves)
    assert reason.startswith(f"cell tuned is in tuning.csv of both {halves[1]} and {halves[0]}")

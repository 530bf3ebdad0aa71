"""How long decoding takes at least: closed forms on published devices, and cells that were measured on an H200."""

import json

import pytest
from rooflens.plugins.isa.decoding import decoding_roofs

from .planted_isa import frame

N = K = 4096
LAUNCH = {"pass": "fwd", "scheme": "nf4-g64", "M": 1, "N": N, "K": K, "decoded_weights": N * K}
STORED = N * K // 2 + N * K // 64 * 4 + 2 * (N + K)
"""Bytes of nibbles, of fp32 scales of 64 weights each, and of x and y in bf16."""


def test_on_rdna_64_lanes_of_a_compute_unit_issue_at_each_clock():
    (row,) = decoding_roofs(frame(LAUNCH | {"arch": "gfx1100", "decode_per_weight": 10.0})).to_dict("records")
    seconds = 10 * N * K / (96 * 64 * 2.5e9)  # 96 compute units at 2.5 GHz
    assert row["device"] == "AMD Radeon RX 7900 XTX"
    assert row["decode_s"] == pytest.approx(seconds)
    assert row["memory_s"] == pytest.approx(STORED / 960e9)
    assert row["matrix_s"] == pytest.approx(2 * N * K / 122.9e12)
    assert row["decode_bytes_per_s"] == pytest.approx(STORED / seconds)
    assert row["read_share"] == pytest.approx(STORED / seconds / 960e9)


@pytest.mark.parametrize("integer, lanes_taken", [(None, 6 / 128), (2.0, 6 / 128), (4.0, 4 / 64)])
def test_on_nvidia_shifts_and_logic_may_take_longer_than_issuing_all(integer, lanes_taken):
    rows = frame(LAUNCH | {"arch": "sm90", "decode_per_weight": 6.0, "decode_integer_per_weight": integer})
    assert decoding_roofs(rows)["decode_s"][0] == pytest.approx(
        N * K * lanes_taken / (132 * 1.83e9)
    )  # an H100 at 1.83 GHz


def test_a_kernel_that_decodes_faster_than_memory_reads_at_its_peak_and_tiles_of_rows_decode_again():
    once, eight = decoding_roofs(
        frame(
            LAUNCH | {"arch": "gfx1100", "decode_per_weight": 1.0},
            LAUNCH | {"arch": "gfx1100", "decode_per_weight": 1.0, "M": 64, "decoded_weights": 8 * N * K},
        )
    ).to_dict("records")
    assert once["read_share"] == 1
    assert eight["decode_s"] == pytest.approx(8 * once["decode_s"])


def test_what_is_not_known_or_not_the_default_has_no_roof():
    known = LAUNCH | {"decode_per_weight": 5.0}
    rows = frame(known | {"default": False}, known | {"decoded_weights": None}, known | {"decode_per_weight": None})
    assert decoding_roofs(rows).empty
    assert json.loads(decoding_roofs(frame(known)).to_json())["read_share"]

"""Routing layouts: the published test vector, and properties over random routings."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rooflens.kernels.mxfp8_moe.routing import align, route
from rooflens.shapes.errors import UsageError
from rooflens.shapes.schemes.mxfp8_moe import expected_hits, hit_experts

VECTOR = torch.tensor([[1, 2, 3], [0, 1, 3], [0, 2, 3], [0, 1, 2]], dtype=torch.int32)
"""Example of vLLM's moe_align_block_size: block 4, 4 experts."""


def test_the_published_vector():
    result = align(VECTOR, 4, 4)
    assert result.sorted_ids.tolist() == [3, 6, 9, 12, 0, 4, 10, 12, 1, 7, 11, 12, 2, 5, 8, 12, *[12] * 8]
    assert result.expert_ids.tolist() == [0, 1, 2, 3, 0, 0]
    assert result.padded.tolist() == [16]
    assert result.max_blocks == 6


def test_an_expert_map_marks_the_blocks_of_absent_experts():
    result = align(VECTOR, 4, 4, torch.tensor([-1, 0, -1, 1]))
    assert result.sorted_ids.tolist() == align(VECTOR, 4, 4).sorted_ids.tolist()
    assert result.expert_ids.tolist() == [-1, 0, -1, 1, 0, 0], "zero, not the first expert's place, beyond the end"


routings = st.tuples(
    st.integers(1, 40), st.integers(1, 12), st.integers(1, 12), st.sampled_from([1, 2, 4, 8, 16, 64, 3]), st.integers()
)


@given(routings)
def test_every_slot_stands_in_a_block_of_its_expert(drawn):
    tokens, experts, top_k, block, seed = drawn
    top_k = min(top_k, experts)
    generator = torch.Generator().manual_seed(seed % (1 << 32))
    topk_ids = route(tokens, experts, top_k, generator)
    result = align(topk_ids, block, experts)
    numel = tokens * top_k
    padded = int(result.padded)
    assert padded % block == 0
    assert result.sorted_ids.numel() == numel + experts * (block - 1)
    assert result.expert_ids.numel() == -(-result.sorted_ids.numel() // block)
    assert padded // block <= result.max_blocks
    ids = result.sorted_ids.tolist()
    assert sorted(slot for slot in ids if slot != numel) == list(range(numel)), "each slot once"
    assert all(slot == numel for slot in ids[padded:])
    flat = topk_ids.reshape(-1).tolist()
    blocks_of = {}
    for index in range(padded // block):
        rows = [slot for slot in ids[index * block : (index + 1) * block] if slot != numel]
        expert = int(result.expert_ids[index])
        assert rows, "no block without a row"
        assert {flat[slot] for slot in rows} == {expert}
        blocks_of[expert] = blocks_of.get(expert, 0) + 1
    for expert, blocks in blocks_of.items():
        assert blocks == -(-flat.count(expert) // block)
    assert not result.expert_ids[padded // block :].any()


@pytest.mark.parametrize(("tokens", "experts", "top_k", "draws"), [(200, 8, 4, 1), (4, 8, 2, 400)])
def test_tokens_go_to_distinct_experts_of_which_none_is_preferred(tokens, experts, top_k, draws):
    """Neither by the first token nor by the last, nor by draws that were kept: within four standard deviations."""
    generator = torch.Generator().manual_seed(3)
    routed = torch.stack([route(tokens, experts, top_k, generator) for _ in range(draws)])
    assert routed.dtype == torch.int32
    assert all(len(set(row)) == top_k for row in routed.flatten(0, 1).tolist())
    for part in (routed[:, :1], routed[:, -1:]) if draws > 1 else (routed,):
        counts, mean = torch.bincount(part.flatten().long(), minlength=experts), part.numel() / experts
        assert (counts - mean).abs().max() < 4 * (mean * (1 - top_k / experts)) ** 0.5


def test_expected_hits():
    # the published row for E = 256, k = 8
    assert [round(expected_hits(m, 256, 8)) for m in (1, 16, 64, 256)] == [8, 102, 222, 256]
    draws = torch.Generator().manual_seed(2)
    free = [len({e for row in torch.rand(16, 32, generator=draws).argsort(1)[:, :4].tolist() for e in row})
            for _ in range(300)]  # fmt: skip
    assert abs(sum(free) / len(free) - expected_hits(16, 32, 4)) < 0.4


def test_every_draw_hits_as_many_experts_as_the_bytes_count():
    """E = 32, k = 4, M = 4: 32 (1 - (7/8)^4) = 13.24, and draws would hit 10 to 16."""
    assert hit_experts(4, 32, 4) == 13
    for seed in range(40):
        draws = torch.Generator().manual_seed(seed)
        assert len(set(route(4, 32, 4, draws).reshape(-1).tolist())) == 13
        assert len(set(route(64, 256, 8, draws).reshape(-1).tolist())) == 222


def test_what_cannot_be_laid_out_is_refused():
    with pytest.raises(UsageError, match="block=0"):
        align(VECTOR, 0, 4)
    with pytest.raises(UsageError, match=r"outside 0 \.\. 2"):
        align(VECTOR, 4, 3)
    with pytest.raises(UsageError, match=r"outside 0 \.\. 3"):
        align(-VECTOR, 4, 4)
    with pytest.raises(UsageError, match="32-bit"):
        align(VECTOR, 1 << 30, 4)

"""The checksum of operands against changes that a plain sum over their bits does not see."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rooflens.harness.worker import signatures as checksums
from rooflens.harness.worker.signatures import signatures

DTYPES = (torch.bfloat16, torch.float16, torch.float32, torch.uint8, torch.float8_e4m3fn)

WORDS = 2**64


@pytest.fixture(params=(1 << 18, 7), ids=("one chunk", "many chunks"))
def chunk(request, monkeypatch):
    monkeypatch.setattr(checksums, "CHUNK_WORDS", {"cpu": request.param})


@pytest.fixture(params=DTYPES, ids=str)
def tensor(request, chunk):
    """[24, 40] of distinct small numbers in few bits, as weights are."""
    generator = torch.Generator().manual_seed(0)
    return torch.randint(1, 100, (24, 40), generator=generator).to(request.param)


INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32}


def bits(tensor):
    """The same memory as integers: torch moves no 8-bit floats."""
    return tensor.view(INTEGERS[tensor.element_size()])


def by_hand(data: bytes) -> int:
    """The sum as the checksums describes it, in Python's unbounded integers, one word at a time."""
    total = 0
    for place in range(0, len(data), 8):
        word = int.from_bytes(data[place : place + 8].ljust(8, b"\0"), "little")
        mixed = (word + place // 8 * 0x9E3779B97F4A7C15) % WORDS  # SplitMix64's increment and first multiplier
        mixed ^= mixed >> 32
        mixed = mixed * 0xBF58476D1CE4E5B9 % WORDS
        total += mixed ^ (mixed >> 32)
    return (total + WORDS // 2) % WORDS - WORDS // 2


@given(data=st.binary(min_size=1, max_size=200), step=st.sampled_from([1, 3, 1 << 18]))
@settings(deadline=None)
def test_it_is_exact_for_any_length_and_any_division_into_chunks(data, step):
    flat = torch.tensor(list(data), dtype=torch.uint8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checksums, "CHUNK_WORDS", {"cpu": step})
        assert signatures([flat]) == [((len(data),), (0,) if len(data) > 1 else (), by_hand(data))]


def test_equal_tensors_have_equal_ones_of_all_their_bits_wherever_they_lie(tensor):
    assert signatures([tensor]) == [((24, 40), (0, 1), by_hand(bits(tensor).numpy().tobytes()))]
    room = torch.zeros(48, 40, dtype=tensor.dtype)
    room[24:] = tensor
    assert signatures([room[24:]]) == signatures([tensor])
    gaps = torch.zeros(24, 80, dtype=tensor.dtype)
    gaps[:, :40] = tensor
    assert signatures([gaps[:, :40]]) == signatures([tensor])


def test_they_are_one_per_tensor_in_their_order(tensor):
    other = tensor[:3].clone()
    assert signatures([tensor, other]) == [*signatures([tensor]), *signatures([other])]
    assert signatures([]) == []


@pytest.mark.filterwarnings("ignore:.*Profiler clears events")  # torch 2.11, at every first use
def test_no_copy_as_large_as_the_operand_is_made(monkeypatch):
    """Allocations of the profiler: each far below the 4 MiB of the tensor."""
    monkeypatch.setattr(checksums, "CHUNK_WORDS", {"cpu": 1 << 14})
    big = torch.zeros(1 << 22, dtype=torch.uint8)
    with torch.profiler.profile(profile_memory=True, activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        signatures([big])
    most = max(event.self_cpu_memory_usage for event in seen.events())
    assert 0 < most <= 8 * checksums.CHUNK_WORDS["cpu"]


@pytest.mark.gpu
def test_a_gpu_finds_what_the_cpu_finds():
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")
    generator = torch.Generator().manual_seed(1)
    for count in (1, 7, 8, 1000, (1 << 25) + 3, 3 * (1 << 25) + 13):
        mine = torch.randint(0, 256, (count,), generator=generator, dtype=torch.uint8)
        assert signatures([mine.cuda()]) == signatures([mine])
    matrix = torch.randn(300, 500, generator=generator).to(torch.bfloat16)
    assert signatures([matrix.t().cuda()]) == signatures([matrix.t()])

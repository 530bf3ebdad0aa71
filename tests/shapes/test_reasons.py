"""Reasons that differ in sizes only are one reason, with the range of each size."""

from rooflens.shapes.verdict import reason_groups, words_and_sizes

TAKES = "no MX-FP8 kernel takes M={} N={} K=6144: K is not a multiple of 32; stock_triton_mx: needs a GPU"


def merged(texts):
    return [text for text, _, _ in reason_groups(("a", text) for text in texts)]


def test_sizes_become_ranges_and_everything_else_stays():
    told = [TAKES.format(m, n) for m, n in ((8, 1152), (1, 1152), (64, 768))]
    assert merged(told) == [TAKES.format("1..64", "768..1152")]
    assert merged(told[:1]) == told[:1]
    assert merged(["needs sm89", "needs sm89"]) == ["needs sm89"]


def test_other_numbers_are_other_reasons():
    assert words_and_sizes("needs sm89")[0] != words_and_sizes("needs sm90")[0]
    assert words_and_sizes("M=1 is too small")[0] == words_and_sizes("M=20 is too small")[0]
    assert words_and_sizes("BLOCK_M=1")[0] != words_and_sizes("BLOCK_M=2")[0]


def test_groups_keep_their_order_and_name_each_provider_once():
    pairs = [("a", "M=1 no"), ("b", "needs a GPU"), ("a", "M=4 no"), ("c", "M=2 no")]
    assert reason_groups(pairs) == [("M=1..4 no", ["a", "c"], 3), ("needs a GPU", ["b"], 1)]
    assert reason_groups([]) == []

"""The grammar of --scan, and the shapes that it makes."""

import pytest
from rooflens.shapes.errors import UsageError
from rooflens.shapes.problem import Op
from rooflens.shapes.scan import LARGEST_SCAN, Scan
from rooflens.shapes.shapeset import Shape

DOWN = Shape("llama", "down", 4096, 11008, alias="L", Ms=(1, 2))


def sizes(text, shape=DOWN):
    scan = Scan.parse(text)
    return [getattr(variant, scan.axis) for variant in scan.variants(shape, Op.GEMM)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("N=2048..2304:64", [2048, 2112, 2176, 2240, 2304]),
        ("N=2048..2300:64", [2048, 2112, 2176, 2240]),
        ("N=4096~2x64", [3968, 4032, 4096, 4160, 4224]),
        ("N=~1x32", [4064, 4096, 4128]),
        ("K=512", [512]),
        ("N=4096~0x64", [4096]),
        ("N=8192, 4096~1x64,4160", [4032, 4096, 4160, 8192]),
    ],
)
def test_sizes(text, expected):
    assert sizes(text) == expected


def test_a_variant_differs_in_one_size_and_in_its_name():
    (variant,) = Scan.parse("K=512").variants(DOWN, Op.GEMM)
    assert variant == Shape("llama", "down K=512", 4096, 512, Ms=(1, 2))
    assert variant.label == "llama down K=512"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("4096~8x64", "write N=SIZES or K=SIZES"),
        ("M=1..8:1", "write N=SIZES or K=SIZES"),
        ("N=", "'' is neither a size"),
        ("N=1..x:2", "'1..x:2' is neither a size"),
        ("N=4096..2048:64", "does not rise"),
        ("N=2048..4096:0", "does not rise"),
        ("N=4096~8x0", "does not rise"),
        (f"N=1..{LARGEST_SCAN + 1}:1", f"more than {LARGEST_SCAN} sizes"),
        ("N=1..600:1,1000..1600:1", f"{LARGEST_SCAN} are the most"),
        ("N=4096~64x64", "N=0 of llama down is not a size"),
        ("N=" + "x" * 9000, "is neither a size"),
    ],
)
def test_what_is_no_scan_is_refused_in_one_line(text, words):
    with pytest.raises(UsageError, match="--scan") as error:
        sizes(text)
    assert words in str(error.value)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400

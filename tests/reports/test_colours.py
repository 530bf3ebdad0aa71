"""Every coloured cell stays readable in both themes, and the scale means what it shows."""

import math

import pytest
from rooflens.reports.figures import colours

STEPS = range(-colours.STEPS, colours.STEPS + 1)


def test_contrast_against_the_published_examples():
    """WCAG 2: black on white is 21 : 1; #767676 is the lightest grey that passes 4.5 : 1 on white."""
    assert colours.contrast("#000000", "#ffffff") == pytest.approx(21)
    assert 4.5 <= colours.contrast("#767676", "#ffffff") < 4.6


@pytest.mark.parametrize("theme", colours.THEMES, ids=["light", "dark"])
def test_numbers_on_heat_cells_are_readable(theme):
    backgrounds = [colours.diverging(theme, index) for index in STEPS]
    backgrounds += [colours.sequential(theme, index) for index in range(colours.STEPS + 1)]
    assert min(colours.contrast(colours.text_on(background), background) for background in backgrounds) >= 4.5


@pytest.mark.parametrize("theme", colours.THEMES, ids=["light", "dark"])
def test_lines_and_bound_classes_stand_out_from_the_page(theme):
    assert min(colours.contrast(colour, theme.surface) for colour in theme.series) >= 4.5
    assert colours.contrast(theme.ink, theme.surface) >= 12


@pytest.mark.parametrize(
    "ratio, step", [(1.0, 0), (8.0, 12), (1 / 8, -12), (44.8, 12), (2.0, 4), (0.5, -4), (1.05, 0), (math.sqrt(2), 2)]
)
def test_step_is_symmetric_in_the_logarithm(ratio, step):
    assert colours.step(math.log2(ratio)) == step


@pytest.mark.parametrize("theme", colours.THEMES, ids=["light", "dark"])
def test_every_step_differs_from_the_next_and_the_middle_is_neutral(theme):
    shades = [colours.diverging(theme, index) for index in STEPS]
    assert len(set(shades)) == len(shades)
    assert shades[colours.STEPS] == theme.neutral
    distances = [colours.contrast(shade, theme.neutral) for shade in shades]
    assert distances[: colours.STEPS] == sorted(distances[: colours.STEPS], reverse=True)
    assert distances[colours.STEPS :] == sorted(distances[colours.STEPS :])


def test_mix_is_exact_at_its_ends_and_grey_between_greys():
    assert colours.mix("#1f56b0", "#b3261e", 0) == "#1f56b0"
    assert colours.mix("#1f56b0", "#b3261e", 1) == "#b3261e"
    middle = colours.mix("#000000", "#ffffff", 0.5)
    assert middle[1:3] == middle[3:5] == middle[5:7]
    assert middle == "#636363"  # OKLab L = 0.5 is linear light 0.125

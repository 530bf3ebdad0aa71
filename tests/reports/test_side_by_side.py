"""Several runs in one report: means and medians over what all have, each ratio a run's own."""

from dataclasses import replace

import pytest
import rooflens
from rooflens.analysis.frames.load import load_run
from rooflens.cli.main import main
from rooflens.reports.build import build_side_by_side

from ..analysis.synthetic import H200, SIX_SHAPES, write_run
from . import planted

EXACT = {"round_noise": 0.0, "sample_noise": 0.0, "Ms": (1, 4, 16), "providers": ("simt_4bit", "dequant_blas")}


def run(folder, arch, times, **options):
    """Write a run of a device `arch` in which the challenger takes `times` (M, N) of the baseline's millisecond."""

    def latency(cell):
        return 1e-3 * (times(cell.M, cell.N) if cell.provider == "simt_4bit" else 1.0)

    machine = replace(H200, device={**H200.device, "arch": arch})
    return load_run(write_run(folder, machine=machine, latency=latency, **{**EXACT, **options}))


def tables(runs):
    return planted.tables(build_side_by_side(runs))


def column(table, header):
    place = [one.header for one in table.columns].index(header)
    return [row[place] for row in table.rows]


def test_means_and_medians_are_over_what_all_runs_have(tmp_path):
    few = SIX_SHAPES[:4]
    first = run(tmp_path / "a", "sm90", lambda M, N: (M / 8) ** 2 if N < 14336 else 1e-3)
    second = run(tmp_path / "b", "gfx942", lambda M, N: 0.5, shapes=few[:3], Ms=(1, 4))
    third = run(tmp_path / "c", "gfx1201", lambda M, N: 2.0)
    found = tables([first, second, third])
    assert [cell.value for cell in column(found["means"], "M")] == [1, 4]
    assert [cell.value for cell in column(found["means"], "sm90")] == pytest.approx([64.0, 4.0])
    assert [cell.value for cell in column(found["means"], "gfx942")] == pytest.approx([2.0, 2.0])
    assert [cell.value for cell in column(found["means"], "gfx1201")] == pytest.approx([0.5, 0.5])
    assert [cell.value for cell in column(found["means"], "GEMMs")] == [3, 3]
    assert column(found["crossovers"], "sm90")[0].value == pytest.approx(8.0, rel=0.05)
    assert column(found["crossovers"], "gfx942")[0].text == "ahead (M ≤ 4)"
    assert column(found["crossovers"], "gfx1201")[0].text == "behind (M ≤ 16)"


def test_every_run_keeps_its_own_cells(tmp_path):
    first = run(tmp_path / "a", "sm90", lambda M, N: 0.25, shapes=SIX_SHAPES[:1])
    second = run(tmp_path / "b", "gfx942", lambda M, N: 0.5, shapes=SIX_SHAPES[:2])
    (cells,) = (table for name, table in tables([first, second]).items() if name.startswith("cells-"))
    assert len(cells.rows) == 2 * 3
    assert [cell.text for cell in column(cells, "sm90 speedup")] == ["4.00×"] * 3 + [""] * 3
    assert [cell.text for cell in column(cells, "gfx942 speedup")] == ["2.00×"] * 6
    best = tables([first, second])["best-table"]
    assert [cell.value for cell in column(best, "up to")] == pytest.approx([4.0, 2.0])


@pytest.mark.parametrize(
    ("arches", "labels"), [(("sm90", "gfx942"), ["sm90", "gfx942"]), (("sm90", "sm90"), ["a", "b"])]
)
def test_a_label_tells_the_runs_apart(tmp_path, arches, labels):
    runs = [
        run(tmp_path / name, arch, lambda M, N: 0.5, shapes=SIX_SHAPES[:1])
        for name, arch in zip("ab", arches, strict=True)
    ]
    assert [cell.text for cell in column(tables(runs)["runs"], "run")] == labels


@pytest.mark.slow
def test_the_command_and_python_write_the_same(tmp_path):
    folders = [
        run(tmp_path / arch, arch, lambda M, N: 0.5, shapes=SIX_SHAPES[:1]).folder
        for arch in ("sm90", "gfx942", "sm100")
    ]
    first, *others = map(str, folders)
    rooflens.report(first, tmp_path / "python.md", beside=others)
    assert main(["report", first, *others, "-o", str(tmp_path / "typed.md")]) == 0
    assert (tmp_path / "python.md").read_text().replace("python", "typed") == (tmp_path / "typed.md").read_text()
    two = ["report", first, others[0]]
    assert main([*two, "--preset", "side-by-side", "-o", f"json={tmp_path / 'two.json'}"]) == 0
    assert main(["report", first, *others, "--preset", "full"]) == 2
    assert main(["report", first, *others, "-o", "aiter=x"]) == 2
    assert main(["report", first, "--preset", "side-by-side"]) == 2

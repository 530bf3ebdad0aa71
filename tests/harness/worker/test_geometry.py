"""Columns of a launch's geometry: what a provider states is stored, what is no figure is the provider's fault."""

import pytest
import torch
from rooflens.harness.isolation.faults import ProviderError
from rooflens.harness.machine.device import find_device
from rooflens.harness.plan.plan import Cell
from rooflens.harness.worker.bench import Bench
from rooflens.harness.worker.geometry import geometry_columns
from rooflens.harness.worker.messages import ChosenConfig
from rooflens.harness.worker.operands import Operands
from rooflens.harness.worker.prepared import prepare
from rooflens.kernels.geometry import Binary, Geometry
from rooflens.kernels.inputs import make_inputs
from rooflens.kernels.provider import Launch, Provider
from rooflens.plugins.isa.compiled import launched
from rooflens.plugins.isa.compiled.account import Decoding
from rooflens.plugins.isa.compiled.schedule import Schedule, WarpWork
from rooflens.shapes.problem import Problem
from rooflens.shapes.protocol import Protocol
from rooflens.shapes.run_folder.columns import GEOMETRY
from rooflens.shapes.scheme import DType
from rooflens.shapes.schemes import parse_scheme
from rooflens.shapes.shapeset import Shape
from rooflens.shapes.suite import Cache

SCHEDULE = Schedule(WarpWork(100.0, 3.0, {"issue": 90.0}), WarpWork(50.0, 0.5, {"integer": 40.0, "issue": 10.0}))

NAMES = [column.name for column in GEOMETRY]

UNITS = 10


def launch(geometry):
    return Launch(lambda: None, torch.zeros(1), geometry=geometry)


def test_a_provider_that_says_nothing_leaves_them_empty():
    assert geometry_columns(Launch(lambda: None, torch.zeros(1)), UNITS) == dict.fromkeys(NAMES)


def test_what_is_stated_is_stored():
    figures = [16, 64, 24, 3, 1 << 40, 2.5, 1 << 20, 1.25, 7.75]
    assert list(geometry_columns(launch(Geometry(*figures)), UNITS).values()) == [*figures, *[None] * 6]
    some = geometry_columns(launch(Geometry(workgroups=7)), UNITS)
    assert some == {**dict.fromkeys(NAMES), "workgroups": 7}


def test_the_binary_fills_what_is_not_stated(monkeypatch):
    monkeypatch.setattr(launched, "facts", lambda binary: launched.Facts(4, Decoding(3.25, 1.5), SCHEDULE))
    columns = geometry_columns(launch(Geometry(workgroups=7, binary=Binary(object(), 64))), UNITS)
    assert (columns["resident"], columns["decode_per_weight"]) == (4, 3.25)
    assert columns["decode_integer_per_weight"] == 1.5
    assert (columns["iterations"], columns["schedule_clocks"], columns["pipe"]) == (None, None, None)
    scheduled = geometry_columns(launch(Geometry(iterations=4, binary=Binary(object(), 64))), UNITS)
    assert [scheduled[name] for name in NAMES[-7:-2]] == [4, 100 + 4 * 50, 3 + 4 * 0.5, 4 * 40, "integer"]
    stated = geometry_columns(launch(Geometry(resident=2, decode_per_weight=1.0, binary=Binary(object(), 64))), UNITS)
    assert (stated["resident"], stated["decode_per_weight"]) == (2, 1.0)
    assert stated["decode_integer_per_weight"] is None  # of another count


def test_kernels_beside_the_main_one_are_scheduled_as_well(monkeypatch):
    """25 workgroups on 10 units that hold 2: 3 on the busiest, 2 turns of 4 iterations; and one turn of another."""
    monkeypatch.setattr(launched, "facts", lambda binary: launched.Facts(2, Decoding(), SCHEDULE))
    known = Geometry(workgroups=25, iterations=4, binary=Binary(object()))
    others = (known, Geometry(workgroups=5, iterations=1, binary=Binary(object())))
    unknown = (Geometry(workgroups=5, binary=Binary(object())), Geometry(workgroups=5), Geometry())
    columns = geometry_columns(launch(Geometry(tile_M=16, others=others + unknown)), UNITS)
    assert columns["other_clocks"] == 2 * (100 + 4 * 50) + 150
    assert columns["other_waits"] == 2 * (3 + 4 * 0.5) + 3.5
    assert columns["schedule_clocks"] is None
    unread = geometry_columns(launch(Geometry(others=(known, Geometry(clocks=45)))), UNITS)
    assert unread["other_clocks"] == 2 * (100 + 4 * 50) + 4.5  # all units share them
    alone = geometry_columns(launch(Geometry(others=unknown)), UNITS)
    assert (alone["other_clocks"], alone["other_waits"]) == (None, None)


def test_no_integer_instruction_at_all_is_a_figure():
    stated = geometry_columns(launch(Geometry(decode_per_weight=2.0, decode_integer_per_weight=0)), UNITS)
    assert stated["decode_integer_per_weight"] == 0.0


@pytest.mark.parametrize(
    "geometry",
    [
        {"tile_M": 16},
        Geometry(tile_M=0),
        Geometry(workgroups=-3),
        Geometry(workgroups=1.5),
        Geometry(resident=True),
        Geometry(decode_per_weight=float("nan")),
        Geometry(decode_per_weight="2"),
        Geometry(decode_per_weight=0.0),
        Geometry(decode_integer_per_weight=-1.0),
        Geometry(issued_flops=1 << 63),
    ],
)
def test_what_is_no_figure_is_refused_with_its_name(geometry):
    with pytest.raises(ProviderError, match=r"geometry"):
        geometry_columns(launch(geometry), UNITS)


class Stated(Provider):
    """Multiplies by torch and says how."""

    name = "stated"
    family = "fourbit"

    def prepare(self, inputs, config=None):
        weight, out = inputs.dequantized(), inputs.empty_output()
        geometry = Geometry(tile_M=16, workgroups=5)
        return Launch(lambda: torch.mm(inputs.x, weight.t(), out=out), out, geometry=geometry)


def test_a_measured_cell_has_them():
    device, problem, scheme = find_device("cpu"), Problem(2, 64, 64), parse_scheme("nf4-g64", DType.FP32)
    bench = Bench(device, Protocol(budget_s=0.01, min_samples=10))
    cell = Cell("suite", Shape("model", "layer", 64, 64), problem, scheme, "stated", Cache.WARM)
    operands = Operands(make_inputs(problem, scheme, device, seed=1))
    operands.draw(2)
    ready = prepare(Stated(), operands.copies(1), ChosenConfig(None, "default"), bench.machine)
    columns = bench.columns(bench.measured(ready, operands, cell), ready, cell, Stated())
    assert {name: columns[name] for name in NAMES} == {**dict.fromkeys(NAMES), "tile_M": 16, "workgroups": 5}

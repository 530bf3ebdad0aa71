"""Messages between parent and worker: each arrives as it was sent, and what is no message is never run or believed."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rooflens.harness.plan.plan import Cell, Task
from rooflens.harness.timing.samples import Samples
from rooflens.harness.worker import wire
from rooflens.harness.worker.messages import Plain, UnitResult
from rooflens.shapes.device import Device
from rooflens.shapes.verdict import Verdict

from ..scripted_workers import DEVICE, cells_of

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=9,
)
CELLS = st.sampled_from(cells_of(("blas",), shapes=3, condition="M <= 64"))
st.register_type_strategy(Cell, CELLS)
st.register_type_strategy(Task, st.builds(Task, st.lists(CELLS, min_size=1, max_size=3).map(tuple)))
st.register_type_strategy(Device, st.sampled_from([DEVICE, Device("cuda", 1, "H200", uuid="GPU-1", slot=0)]))


def mapping(hint):
    """Mappings, with plain values where they may have any."""
    key, inner = get_args(hint)
    return st.dictionaries(st.from_type(key), PLAIN if inner is Any else st.from_type(inner), max_size=3)


st.register_type_strategy(dict, mapping)
st.register_type_strategy(Mapping, mapping)
st.register_type_strategy(Plain, st.builds(Plain, PLAIN))


@given(st.one_of(*map(st.from_type, wire.KINDS.values())))
@example(Plain(None))
def test_every_message_arrives_as_it_was_sent(message):
    assert repr(wire.from_bytes(wire.to_bytes(message))) == repr(message)


@given(st.lists(st.floats()))
def test_times_arrive_bit_for_bit(times_s):
    sent = UnitResult(0, 1, {}, Samples(tuple(times_s), readings=()))
    found = wire.from_bytes(wire.to_bytes(sent)).samples.times_s
    assert struct.pack(f"{len(times_s)}d", *found) == struct.pack(f"{len(times_s)}d", *times_s)


@pytest.mark.parametrize(
    ("sent", "arrives"),
    [
        ((1, (2, 3)), [1, [2, 3]]),
        (Verdict.OOM, "oom"),
        ({1: 2, None: 3}, {"1": 2, "null": 3}),
        ([np.float64(0.1), np.int64(7), np.bool_(True)], [0.1, 7, True]),
        *((one, TypeError) for one in (object(), {(1, 2): 3}, print, {1, 2}, Path())),
    ],
)
def test_a_value_without_a_type_arrives_as_json_has_it_or_is_refused_by_its_sender(sent, arrives):
    if arrives is TypeError:
        with pytest.raises(TypeError):
            wire.to_bytes(Plain(sent))
    else:
        assert repr(wire.from_bytes(wire.to_bytes(Plain(sent))).value) == repr(arrives)


VALID = [json.loads(wire.to_bytes(one)) for one in (Plain(1), UnitResult(0, 1, {"a": 1}, Samples((1.0,))))]


@given(
    st.binary(max_size=99)
    | st.builds(
        lambda message, name, value: json.dumps([*message[:2], message[2] | {name: value}]).encode(),
        *(st.sampled_from(VALID), st.sampled_from(["index", "round", "columns", "samples", "value"]), PLAIN),
    )
)
@example(b"[" * 100_000)
@example(b'[2, "Plain", {"value": 1}]')
def test_anything_else_is_a_message_or_one_error(content):
    try:
        found = wire.from_bytes(content)
    except wire.MalformedError:
        return
    assert type(found) in wire.KINDS.values()

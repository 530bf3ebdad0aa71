"""A run.json that says less than a worker does: what cannot be compared is refused in one line."""

import pytest
from rooflens.harness.storage.manifest import refuse_mixture
from rooflens.shapes.errors import UsageError

FOUND = {
    "device": {"name": "a CPU", "arch": "x86", "uuid": "", "llc_bytes": 1},
    "environment": {"torch": "2.13.0"},
    "providers": {"mine": {"role": "candidate", "source": "1a2b", "file": "m.py"}},
    "timer": "host",
    "cold_by": "flush",
    "tuning": "default",
    "threads": 2,
}


def test_the_same_may_be_resumed_and_new_providers_are_added():
    stored = FOUND | {"providers": {}}
    refuse_mixture(stored, FOUND)
    assert stored["providers"] == FOUND["providers"]


@pytest.mark.parametrize(
    "key, says",
    [("environment", "torch was None and is 2.13.0 now"), ("timer", "timer was None and is host now")],
)
def test_what_is_missing_is_named(key, says):
    with pytest.raises(UsageError, match=says):
        refuse_mixture({name: value for name, value in FOUND.items() if name != key}, FOUND)


def test_providers_that_are_missing_are_those_of_now():
    stored = {name: value for name, value in FOUND.items() if name != "providers"}
    refuse_mixture(stored, FOUND)
    assert stored["providers"] == FOUND["providers"]


def test_other_code_is_refused():
    other = FOUND | {"providers": {"mine": {"role": "candidate", "source": "ffff", "file": "m.py"}}}
    with pytest.raises(UsageError, match="source of provider mine was ffff and is 1a2b now"):
        refuse_mixture(other, FOUND)

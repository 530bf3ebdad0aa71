"""Public tables that the audit was not run on before their faults were written down: how many it finds today."""

import pytest

from .unseen import score


@pytest.mark.parametrize(
    ("name", "right", "found"),
    [
        ("first", (32, 32), (28, 29)),
        ("second", (12, 12), (10, 15)),
        ("third", (12, 12), (10, 12)),
        ("fourth", (7, 7), (6, 8)),
        ("fifth", (37, 37), (37, 37)),
        ("sixth", (16, 16), (15, 17)),
        ("seventh", (22, 22), (11, 14)),
        ("eighth", (7, 7), (6, 8)),
    ],
)
def test_what_is_found_in_unseen_tables(name, right, found):
    assert score(name).counts == (*right, *found)

"""Public tables that the audit was not run on before their faults were written down: how many it finds today."""

import pytest

from .unseen import score


@pytest.mark.parametrize(
    ("name", "right", "found"),
    [
        ("first", (35, 35), (28, 29)),
        ("second", (18, 18), (11, 15)),
        ("third", (12, 12), (10, 12)),
        ("fourth", (8, 8), (6, 8)),
        ("fifth", (43, 43), (36, 37)),
        ("sixth", (20, 20), (15, 17)),
        ("seventh", (26, 26), (12, 14)),
        ("eighth", (9, 9), (6, 8)),
        ("ninth", (63, 66), (47, 58)),
    ],
)
def test_what_is_found_in_unseen_tables(name, right, found):
    assert score(name).counts == (*right, *found)

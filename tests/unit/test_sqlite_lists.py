"""Lists that statements compare with: each value arrives unchanged."""

from typing import Any

import apsw

from tests.support.rows import each_row
from truespan.store.engines.sqlite import _bindable

TEXTS = ["", "a", "é", "e\u0301", "\x00x", "\x7f", '"', "\\", "\n", "\u2028", "😀"]


@each_row("values", [[], TEXTS, [0, -1, 2**63 - 1, -(2**63)], ["1", 1], [1.5, -2.25]])
def test_each_value_of_a_list_is_compared_unchanged(values: list[Any]) -> None:
    connection = apsw.Connection(":memory:")
    found = connection.execute(
        "SELECT value FROM json_each(:list)", _bindable({"list": values})
    ).fetchall()
    assert [value for (value,) in found] == values


@each_row("value", ["\ud800", 2**70])
def test_unstorable_value_equals_nothing_and_is_not_an_error(value: Any) -> None:
    connection = apsw.Connection(":memory:")
    found = connection.execute(
        "SELECT count(*) FROM json_each(:list) WHERE value IN ('a', 1)",
        _bindable({"list": [value]}),
    ).fetchall()
    assert found == [(0,)]

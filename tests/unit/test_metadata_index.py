"""The metadata index is equivalent to comparing each document."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.promises import proves
from truespan.types.catalog import MetadataIndex
from truespan.types.metadata import Condition, read_conditions

SCALARS = st.sampled_from(
    [
        *("a", "b", "A", "", "1", "e\u0301", "\u00e9", "2024-05-01", "2024-05-01T00:00:00Z"),
        *("2024-05-01T23:59:59+01:00", "2024-05-02", "2024-13-01", "true"),
        *(True, False, 0, 1, -1, 1.0, 1.5, 2**60, 2**60 + 1),
    ]
)
STORED = SCALARS | st.none() | st.lists(SCALARS, max_size=3) | st.just({"nested": 1})
METADATA = st.dictionaries(st.sampled_from("xyz"), STORED, max_size=3)
OPERATORS = st.fixed_dictionaries(
    {},
    optional={
        "any_of": st.lists(SCALARS, max_size=3),
        **dict.fromkeys(("gt", "gte", "lt", "lte"), SCALARS),
    },
)
WANTED = SCALARS | OPERATORS | st.sampled_from([{"exists": True}, {"exists": False}])


def conditions_of(wanted: dict[str, Any]) -> tuple[Condition, ...] | None:
    """Return the conditions of an object; None if it is refused."""
    try:
        return read_conditions(wanted)
    except Exception:
        return None


@proves("request.metadata-filter")
@given(
    st.lists(METADATA, max_size=8),
    st.dictionaries(st.sampled_from("xyz"), WANTED, max_size=3),
    st.sets(st.integers(0, 7)),
)
def test_metadata_index_equals_comparing_documents(
    held: list[dict[str, Any]], wanted: dict[str, Any], damaged: set[int]
) -> None:
    conditions = conditions_of(wanted)
    if conditions is None:
        return
    readable = {number: one for number, one in enumerate(held) if number not in damaged}
    index = MetadataIndex(readable.items(), damaged)

    found = index.matching(conditions)

    assert found == {
        number
        for number, one in readable.items()
        if all(condition.matches(one) for condition in conditions)
    }


def test_metadata_index_lists_keys_and_values() -> None:
    index = MetadataIndex([(1, {"a": 1, "b": None}), (2, {"a": [1, 2], "c": {"d": 1}})], [3])
    assert set(index) == {"a", "c"}
    assert index.stored("a") == {1: 1, 2: [1, 2]}
    assert index.stored("b") == {}
    assert index.damaged == {3}

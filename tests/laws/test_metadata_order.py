"""Metadata: values of one kind have one order, and conditions agree with it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.laws.examples import examples
from truespan.types.metadata import (
    Condition,
    check_metadata,
    read_conditions,
    read_metadata,
    show_value,
    type_value,
    type_values,
)

DAYS = st.dates().map(str)
TIMES = st.datetimes().map(lambda moment: moment.isoformat())
NUMBERS = st.integers(-5, 5) | st.floats(-5, 5, allow_nan=False)
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=4)
SCALARS: st.SearchStrategy[Any] = st.one_of(st.booleans(), NUMBERS, TEXTS, DAYS, TIMES)
KEYS = st.sampled_from(["a", "b", "c"])


@examples(200)
@given(value=SCALARS, bound=st.one_of(NUMBERS, TEXTS, DAYS, TIMES))
def test_value_is_before_within_or_after_another_of_its_kind(value: Any, bound: Any) -> None:
    stored = read_metadata(check_metadata({"a": value}))
    own, other = type_value(value), type_value(bound)
    assert own is not None
    assert other is not None

    def holds(**operators: Any) -> bool:
        return Condition.from_json("a", operators).matches(stored)

    before, within, after = holds(lt=bound), holds(any_of=[bound]), holds(gt=bound)
    assert [before, within, after].count(True) == (1 if own.kind is other.kind else 0)
    assert holds(lte=bound) is (before or within)
    assert holds(gte=bound) is (within or after)
    assert holds(gte=bound, lte=bound) is within
    assert holds(any_of=[value])


@examples(200)
@given(value=SCALARS)
def test_displayed_value_parses_to_the_same_value(value: Any) -> None:
    typed = type_value(value)
    assert typed is not None
    assert type_value(show_value(typed)) == typed
    assert hash(type_value(show_value(typed))) == hash(typed)


@examples(100)
@given(
    metadata=st.dictionaries(KEYS, SCALARS | st.lists(SCALARS, max_size=3)),
    wanted=st.dictionaries(KEYS, st.lists(SCALARS, max_size=3)),
)
def test_document_matches_one_value_of_each_key(
    metadata: dict[str, Any], wanted: dict[str, list[Any]]
) -> None:
    stored = read_metadata(check_metadata(metadata))
    conditions = read_conditions({key: {"any_of": values} for key, values in wanted.items()})
    written = {condition.key: condition.to_json() for condition in conditions}
    assert read_conditions(written) == conditions
    for condition in conditions:
        alone = [
            Condition.from_json(condition.key, value).matches(stored)
            for value in condition.any_of or ()
        ]
        assert condition.matches(stored) is any(alone)
        held = type_values(stored.get(condition.key))
        assert condition.matches(stored) is any(map(condition.accepts, held))

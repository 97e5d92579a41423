"""Labels of audiences, and authorities that are limited to them."""

import pytest

from truespan.errors import InvalidArgument
from truespan.types.audience import check_audience, check_labels, is_visible
from truespan.types.ids import WorldId
from truespan.types.scope import OWNER, UNLIMITED, Authority, Verb

WORLD = WorldId("w")


def test_audience_is_sorted_without_repetition() -> None:
    assert check_audience(["group:legal", "everyone", "group:legal"]) == ("everyone", "group:legal")
    assert check_audience("group:hr") == ("group:hr",)
    assert check_audience([]) == ()


@pytest.mark.parametrize("labels", [
    [""], [" a"], ["a\n"], ["a\nb"], ["a\u200b"], ["a\u00a0b"], ["a\U000e0041"], ["\ud800"],
    ["x" * 201], [3], 3, None, ["a"] * 1001,
])  # fmt: skip
def test_invalid_labels_are_refused(labels: object) -> None:
    with pytest.raises(InvalidArgument):
        check_labels(labels)


def test_document_is_visible_by_a_common_label() -> None:
    legal = frozenset({"group:legal"})
    assert is_visible(("everyone",), frozenset())
    assert is_visible(("group:hr", "group:legal"), legal)
    assert not is_visible(("group:hr",), legal)
    assert not is_visible((), legal)


def test_authority_for_an_audience_only_narrows() -> None:
    legal = OWNER.for_audience(["group:legal", "group:hr"])
    assert legal.audience == {"group:legal", "group:hr"}
    assert legal.for_audience(["group:hr", "group:board"]).audience == {"group:hr"}
    assert legal.within(OWNER) == OWNER.within(legal) == legal
    assert legal.as_reader(WORLD, "ann").audience == legal.audience
    assert legal.narrow(worlds=[WORLD], verbs=[Verb.READ]).audience == legal.audience
    assert OWNER.audience is UNLIMITED

    assert OWNER.for_audience(["group:legal"]).verbs == {Verb.READ, Verb.FOLLOW}
    assert OWNER.within(
        Authority(UNLIMITED, frozenset({Verb.READ}), audience=frozenset())
    ).verbs == {Verb.READ}
    with pytest.raises(ValueError, match="only read and follow"):
        Authority(UNLIMITED, frozenset({Verb.WRITE}), audience=frozenset({"group:legal"}))

"""Arguments that do not exist: the error names the one that was probably meant."""

from __future__ import annotations

from typing import Any

import pytest

from truespan.types.request import check_arguments


@pytest.mark.parametrize(
    ("name", "meant"), [("topk", "top_k"), ("neighbors", "neighbours"), ("tag", "tags")]
)
def test_unknown_argument_names_the_closest(name: str, meant: str) -> None:
    given: Any = {name: 3}
    for filters in (True, False):
        with pytest.raises(TypeError, match=f"argument '{name}'. Did you mean '{meant}'"):
            check_arguments(given, filters=filters)


def test_argument_unlike_any_other_is_only_refused() -> None:
    given: Any = {"xyzzy": 3}
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'xyzzy'$"):
        check_arguments(given)

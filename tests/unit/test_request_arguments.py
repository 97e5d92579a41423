"""Wrong arguments: the error names the one that was probably meant, or the type in JSON."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.worlds import make_library
from truespan.errors import InvalidArgument
from truespan.extensions.proof.wire import with_signed
from truespan.extensions.server.arguments import SearchArguments, parse_arguments
from truespan.types.request import check_arguments


@pytest.mark.parametrize(
    ("name", "meant"), [("topk", "top_k"), ("neighbors", "neighbours"), ("tag", "tags")]
)
def test_unknown_argument_names_the_closest(name: str, meant: str) -> None:
    given: Any = {name: 3}
    for filters in (True, False):
        with pytest.raises(TypeError, match=f"argument '{name}'. Did you mean '{meant}'"):
            check_arguments(given, filters=filters)


def test_wrong_types_are_refused_by_the_library(tmp_path: Path) -> None:
    wrong: Any = 3
    library = make_library(tmp_path).library
    world = library.world()
    for call, message in (
        (lambda: world.ingest(wrong), "paths must be a path or a list of paths."),
        (lambda: world.ingest([wrong]), "paths must be a path or a list of paths."),
        (lambda: world.ingest(""), "A path is empty."),
        (lambda: library.world(wrong), "A world is named by a string: its id or its name."),
        (lambda: world.add_texts(wrong), "texts must be a list of strings."),
        (lambda: world.add_texts("text"), "texts must be a list of strings."),
        (lambda: world.search("lamp", tags=wrong), "tags must be a list of strings."),
        (lambda: world.search("lamp", tags="notes"), "tags must be a list of strings."),
    ):
        with pytest.raises(InvalidArgument) as refused:
            call()
        assert refused.value.message == message


def test_argument_unlike_any_other_is_only_refused() -> None:
    given: Any = {"xyzzy": 3}
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'xyzzy'$"):
        check_arguments(given)


def test_wrong_json_argument_is_explained_in_json_types() -> None:
    for given, explained in (
        ({"top_k": "3"}, "The argument 'top_k' is wrong: expected integer, got string."),
        ({"top_k": 2.5}, "The argument 'top_k' is wrong: expected integer, got number."),
        ({"top_k": -1}, "The argument 'top_k' is wrong: expected integer >= 0."),
        ({"tags": "notes"}, "The argument 'tags' is wrong: expected array, got string."),
        ({"signed": 1}, "The argument 'signed' is wrong: expected boolean, got integer."),
    ):
        with pytest.raises(InvalidArgument) as refused:
            parse_arguments(with_signed(SearchArguments), {"query": "lamp", **given})
        assert refused.value.message == explained


def test_unknown_json_argument_names_the_closest_and_all() -> None:
    for name, advice in (("topk", " Did you mean 'top_k'?"), ("xyzzy", "")):
        with pytest.raises(InvalidArgument) as refused:
            parse_arguments(SearchArguments, {"query": "lamp", name: 3})
        assert refused.value.message.startswith(
            f"There is no argument '{name}'.{advice} Known arguments: mode,"
        )

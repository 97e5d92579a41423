"""Filters that no document matches: the warning names the tag or document that does not exist."""

from pathlib import Path

import pytest

from tests.promises import proves
from tests.support.worlds import make_library
from truespan.engine.world import World


@pytest.fixture
def world(tmp_path: Path) -> World:
    world = make_library(tmp_path).library.world()
    world.add_text("The lamp is red.", id="lamp", tags=["harbour"])
    world.add_text("The key is lost.", id="key", tags=["secret"], audience=["group:legal"])
    return world


def warn(world: World, **filters: list[str]) -> list[tuple[str, str]]:
    found = world.search("the lamp", floor=0.0, **filters)  # type: ignore[arg-type]
    return [(notice.code, notice.message) for notice in found.warnings]


def test_warning_names_the_tag_or_document_that_does_not_exist(world: World) -> None:
    for filters, message in (
        ({"tags": ["harbor"]}, "No document has the tag 'harbor'. The closest: 'harbour'."),
        ({"tags": ["harbour", "zebra"]}, "No document has the tag 'zebra'."),
        ({"documents": ["lamps.txt"]}, "There is no document 'lamps.txt' in this world."),
        ({"tags": ["harbour"], "documents": ["key.txt"]},
         "No document in this world matches the filters."),
    ):  # fmt: skip
        assert warn(world, **filters) == [("no_document_matches", message)]


@proves("audience.enforced")
def test_warning_names_nothing_that_the_caller_may_not_see(world: World) -> None:
    everyone = world.for_audience([])
    for filters in ({"tags": ["secret"]}, {"tags": ["secrets"]}, {"documents": ["keys.txt"]}):
        [(_, message)] = warn(everyone, **filters)
        assert "closest" not in message

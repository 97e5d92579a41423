"""The objects of a library as text: short, by name, and without the settings inside them."""

from pathlib import Path

import pytest

from tests.support.worlds import make_library

pytestmark = pytest.mark.needs_extension


def test_objects_of_a_world_name_the_world(tmp_path: Path) -> None:
    library = make_library(tmp_path).library
    world = library.create_world("mysteries")

    shown = [
        *(world, world.reader("ada"), world.documents, world.generations, world.evaluation),
        *(world.jobs, library.world(world.id)),
    ]

    assert [repr(part) for part in shown] == [
        "<World 'mysteries'>", "<Reader 'ada' of world 'mysteries'>",
        "<Documents of world 'mysteries'>", "<Generations of world 'mysteries'>",
        "<WorldEvaluation of world 'mysteries'>", "<WorldJobs of world 'mysteries'>",
        "<World 'mysteries'>",
    ]  # fmt: skip


def test_deleted_world_is_named_by_its_id(tmp_path: Path) -> None:
    library = make_library(tmp_path).library
    world = library.create_world("mysteries")
    library.delete_world("mysteries")
    assert repr(world.documents) == f"<Documents of world {world.id!r}>"

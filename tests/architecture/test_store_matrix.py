"""`--store postgres` leaves out only tests whose libraries it does not move to PostgreSQL."""

from types import ModuleType

from tests.support import answer_worlds, rows, worlds
from tests.support.store_matrix import opens_libraries


def module_with(value: object) -> ModuleType:
    """Return a module of tests that imports a value."""
    made = ModuleType("tests.unit.test_made")
    made.value = value  # type: ignore[attr-defined]
    return made


def test_matrix_keeps_only_modules_that_open_libraries() -> None:
    opening = (worlds, worlds.make_library, worlds.PreparedLibrary, answer_worlds.study)
    assert [opens_libraries(module_with(value)) for value in opening] == [True] * 4
    others = (worlds.WordEmbedder, worlds.similarity, rows.each_row, "a text")
    assert [opens_libraries(module_with(value)) for value in others] == [False] * 4

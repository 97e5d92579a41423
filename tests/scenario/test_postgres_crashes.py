"""Commands killed before every durable step, with the store in PostgreSQL.

The tests are those of `test_crashes`, which make all assertions; only the fixture `opened` differs.
Worker processes do not use the store, so they are killed in `test_crashes` only.
"""

from collections.abc import Iterator

import pytest

from tests.scenario.test_crashes import (
    test_deletion_killed_at_any_step_remains_a_deletion,
    test_killed_replacement_shows_old_or_new_and_can_finish,
)
from tests.support.crash_process import STORE_URL, library
from tests.support.postgres import fresh_database
from truespan.engine.library import Library

__all__ = [
    "test_deletion_killed_at_any_step_remains_a_deletion",
    "test_killed_replacement_shows_old_or_new_and_can_finish",
]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    folder = tmp_path_factory.mktemp("mortal")
    (folder / STORE_URL).write_text(fresh_database().url.reveal())
    with library(folder) as made:
        made.folder = folder  # type: ignore[attr-defined]
        yield made
        made._components.index.retire()  # type: ignore[attr-defined]

"""Stories to ingest, and what must hold of store and index once everything has settled."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.worlds import Place
from truespan.engine.world import World


def story(sentences: int, word: str = "harbour") -> str:
    return " ".join(f"Sentence {count} tells of the {word} by night." for count in range(sentences))


def texts(here: Place) -> list[str]:
    rows = here.sql(
        """SELECT c.text FROM chunks c JOIN revisions r ON r.key = c.revision
           WHERE r.state = 'active' ORDER BY r.document, c.position"""
    )
    return [row[0] for row in rows]


def assert_settled(here: Place, world: World) -> None:
    """Assert that store and index hold exactly the documents in force, and nothing else."""
    expected = here.sql(
        """SELECT s.chunk_id, s.text_hash FROM states s JOIN revisions r ON r.key = s.revision
           WHERE r.state = 'active' AND s.state = 'embedded'"""
    )
    points = here.points(world)
    assert {(point.chunk_id, point.text_hash) for point in points.values()} == set(expected)
    assert here.sql("SELECT count(*) FROM revisions WHERE state <> 'active'") == [(0,)]
    assert here.sql("SELECT count(*) FROM states WHERE state <> 'embedded'") == [(0,)]
    unused = here.sql(
        "SELECT count(*) FROM vectors WHERE text_hash NOT IN (SELECT text_hash FROM states)"
    )
    assert unused == [(0,)]
    assert here.library.doctor()[world.name].healthy


def assert_settled_vectors(here: Place, world: World) -> None:
    hashes = {point.text_hash for point in here.points(world).values()}
    kept = here.sql(
        "SELECT text_hash FROM vectors WHERE world_id = (SELECT world_id FROM worlds WHERE id = ?)",
        world.id,
    )
    assert {row[0] for row in kept} == hashes


def once(call: Callable[[], None]) -> Callable[[], None]:
    done: list[bool] = []

    def guarded() -> None:
        if not done:
            done.append(True)
            call()

    return guarded

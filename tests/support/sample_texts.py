"""Stories to ingest, and the expected final state of store and index."""

from collections.abc import Callable

from tests.support.worlds import LibraryFixture
from truespan.engine.world import World


def story(sentences: int, word: str = "harbour") -> str:
    return " ".join(f"Sentence {count} tells of the {word} by night." for count in range(sentences))


def texts(lib: LibraryFixture) -> list[str]:
    rows = lib.sql(
        """SELECT c.text FROM chunks c JOIN revisions r ON r.key = c.revision
           WHERE r.state = 'active' ORDER BY r.document, c.position"""
    )
    return [row[0] for row in rows]


def assert_settled(lib: LibraryFixture, world: World) -> None:
    """Assert that store and index contain exactly the active documents."""
    expected = lib.sql(
        """SELECT s.chunk_id, s.text_hash FROM states s JOIN revisions r ON r.key = s.revision
           WHERE r.state = 'active' AND s.state = 'embedded'"""
    )
    points = lib.points(world)
    assert {(point.chunk_id, point.text_hash) for point in points.values()} == set(expected)
    assert lib.sql("SELECT count(*) FROM revisions WHERE state <> 'active'") == [(0,)]
    assert lib.sql("SELECT count(*) FROM states WHERE state <> 'embedded'") == [(0,)]
    unused = lib.sql(
        "SELECT count(*) FROM vectors WHERE text_hash NOT IN (SELECT text_hash FROM states)"
    )
    assert unused == [(0,)]
    assert lib.library.doctor()[world.name].healthy


def assert_settled_vectors(lib: LibraryFixture, world: World) -> None:
    hashes = {point.text_hash for point in lib.points(world).values()}
    kept = lib.sql(
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

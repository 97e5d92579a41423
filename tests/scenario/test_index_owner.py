"""Two libraries on one Qdrant server do not use or empty each other's collections."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.promises import proves
from tests.support.qdrant_loopback import QdrantLoopback
from tests.support.worlds import WordCounter, WordEmbedder
from truespan.engine.library import Library
from truespan.errors import IndexNotOwned
from truespan.maintenance.doctor.plan import Action, Finding
from truespan.wiring import open_library

OWNER = "truespan_library"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[QdrantLoopback]:
    with QdrantLoopback() as made:
        monkeypatch.setenv("TRUESPAN_INDEX_URL", made.url)
        yield made


def opened(folder: Path) -> Library:
    return open_library(folder, create=True, embedder=WordEmbedder(), counter=WordCounter())


def fill(library: Library, folder: Path, name: str = "harbour") -> None:
    (folder / "note.txt").write_text("The otter swims by night.", encoding="utf-8")
    library.create_world(name).ingest(str(folder / "note.txt"))


def remove_owners(server: QdrantLoopback) -> None:
    """Leave the collections without an owner, as another program creates them."""
    for name, made in server.made.items():
        server.made[name] = made.model_copy(update={"metadata": None})
        server.changed[name] = [one for one in server.changed[name] if not one.metadata]


def owner_of(server: QdrantLoopback) -> str | None:
    [(name, made)] = server.made.items()
    found = dict(made.metadata or {})
    for change in server.changed[name]:
        found |= change.metadata or {}
    return found.get(OWNER)


def points(server: QdrantLoopback) -> int:
    return sum(server.local.count(name).count for name in server.made)


@proves("index.owner")
def test_second_library_is_refused_and_can_empty_nothing(server: QdrantLoopback, tmp_path: Path):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
    with opened(first) as library:
        fill(library, first)
        assert owner_of(server) == library._components.store.worlds.library_id()
    with opened(second) as other:
        with pytest.raises(IndexNotOwned, match="belongs to another library"):
            fill(other, second)
        plan = other.doctor()
        other.maintenance.apply_plan(plan)
    with opened(first) as library:
        found = library.world("harbour").search("otter", floor=0.0)

    assert points(server) == len(found.passages) == 1
    assert Action.DROP_WORLD not in {item.action for item in plan.all_items()}
    assert Finding.FOREIGN_COLLECTION in {item.finding for item in plan.all_items()}
    assert owner_of(server) is not None


@proves("index.owner")
def test_points_of_unknown_worlds_stay_without_an_owner(server: QdrantLoopback, tmp_path: Path):
    first, second = tmp_path / "first", tmp_path / "second"
    for folder in (first, second):
        folder.mkdir()
        with opened(folder) as library:
            remove_owners(server)
            fill(library, folder)
    with opened(second) as other:
        plan = other.doctor()
        other.maintenance.apply_plan(plan)
        unowned = points(server), owner_of(server)
        # An action that an outdated plan asks for is refused as well.
        for item in plan.leftovers:
            plan.leftovers[plan.leftovers.index(item)] = type(item)(
                item.finding, Action.DROP_WORLD, item.subject
            )
        other.maintenance.apply_plan(plan)
        still = points(server)
        assert len(other.maintenance.claim_index()) == 1
        other.maintenance.apply_plan(other.doctor())
        claimed = points(server), owner_of(server)
        own = other._components.store.worlds.library_id()
    with opened(first) as library, pytest.raises(IndexNotOwned):
        library.world("harbour").search("otter", floor=0.0)

    assert [item.action for item in plan.leftovers] == [Action.DROP_WORLD]
    assert (unowned, still) == ((2, None), 2)
    assert claimed == (1, own)

"""Requests during changes of the world answer from one state and do not fail."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.promises import proves
from tests.support.worlds import LibraryFixture, MemoryIndex, make_library
from truespan.errors import NotFound, StoreDamaged
from truespan.types.trust import Hit

TIDE = "The tide comes in twice a day. The keeper counts it."
LAMP = "The lamp burns all night. The keeper counts it twice."


class Changing(MemoryIndex):
    """An index that runs a function during its first search."""

    def __init__(self) -> None:
        super().__init__()
        self.before: Callable[[], object] | None = None
        self.after: Callable[[], object] | None = None

    def search(self, *args: Any, **kwargs: Any) -> list[Hit]:
        before, self.before = self.before, None
        if before:
            before()
        found = super().search(*args, **kwargs)
        after, self.after = self.after, None
        if after:
            after()
        return found


def opened(folder: Path) -> tuple[LibraryFixture, Changing, Any]:
    index = Changing()
    lib = make_library(folder, index=index)
    world = lib.world(a__txt=TIDE, b__txt=LAMP)
    world.reader("ann").set_position("a.txt", sentence=0)
    return lib, index, world


@proves("search.one-state")
def test_concurrent_document_changes_fail_no_request(tmp_path: Path) -> None:
    failures: list[str] = []
    requests: dict[str, Callable[[Any], Any]] = {
        "search": lambda world: world.search("keeper counts", floor=0).context,
        "fused": lambda world: world.search("keeper counts", floor=0, mode="hybrid").context,
        "reading": lambda world: (
            world.reader("ann").retrieve("keeper counts", mode="hybrid").context
        ),
        "query": lambda world: world.retrieve(query="keeper counts").context,
        "selection": lambda world: world.retrieve(selected_text="The keeper counts it").context,
        "both": lambda world: (
            world.retrieve(query="keeper counts", selected_text="The keeper counts it").context
        ),
        "answer": lambda world: (
            world.answer("Who is the keeper who counts?").retrieved_chunks_metadata
        ),
    }
    for name, ask in requests.items():
        for when in ("before", "after"):
            for change in ("add", "delete", "replace"):
                lib, index, world = opened(tmp_path / f"{name}-{when}-{change}")
                new = lib.write("world/c.txt", "The keeper counts it, the keeper counts it all.")
                same = lib.write("world/a.txt", "Nothing of that is left. The keeper counts it.")
                changes: dict[str, Callable[[], object]] = {
                    "add": lambda world=world, new=new: world.ingest(new),
                    "delete": lambda world=world: world.documents.delete("a.txt"),
                    "replace": lambda world=world, same=same: world.ingest(same),
                }
                setattr(index, when, changes[change])
                try:
                    found = ask(world)
                except Exception as error:
                    failures.append(f"{name}, {change} {when}: {type(error).__name__} {error}")
                    continue
                if found != ask(world):
                    failures.append(f"{name}, {change} {when}: another state than the last")
                lib.library.close()
    assert failures == []


@proves("search.one-state")
def test_error_is_reported_only_for_an_unchanged_world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lib, _, world = opened(tmp_path)
    read, asked = lib.store.documents.canonical_text, list[int]()

    def delete_first(scope: Any, number: int) -> str:
        asked.append(number)
        if len(asked) == 1:
            world.documents.delete("a.txt")
            raise NotFound("document", "a.txt")
        return read(scope, number)

    monkeypatch.setattr(
        type(lib.store.documents), "canonical_text", lambda _, *args: delete_first(*args)
    )
    assert world.retrieve(selected_text="The keeper counts it").metadata.located

    def fail(*_: Any) -> str:
        raise StoreDamaged("Something does not match its hash.")

    monkeypatch.setattr(type(lib.store.documents), "canonical_text", fail)
    problem = world.retrieve(selected_text="The keeper counts it").error
    assert problem is not None
    assert problem.code == StoreDamaged.code

"""Replayed receipts: the same state and result, or what has changed, passage by passage."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.promises import proves
from tests.support.receipts import GUIDE, as_json, signing_world
from tests.support.worlds import LibraryFixture
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.errors import InvalidArgument, ReceiptInvalid
from truespan.types.receipt import PassageChange, StateChange

QUERY = "Where did the brass key hang?"


@pytest.fixture
def signing(tmp_path: Path) -> tuple[LibraryFixture, World]:
    return signing_world(tmp_path)


@proves("proof.replay")
def test_replay_of_an_unchanged_library_is_the_same(signing: tuple[LibraryFixture, World]) -> None:
    lib, world = signing
    reader = world.reader("ann")
    reader.set_position("guide.md", sentence=3)
    receipts = {
        StateChange.SAME: [
            world.search(QUERY, top_k=2, metadata={"year": {"gte": 1.5}}, signed=True),
            world.search(QUERY, floor=0.25, highlight=True, tags=[], signed=True),
            world.retrieve(QUERY, neighbours=1, mode="keyword", signed=True),
            world.retrieve(selected_text="The porter swept the long quay.", signed=True),
            world.answer(QUERY, signed=True),
        ],
        StateChange.UNKNOWN: [reader.retrieve("the porter", signed=True)],
    }

    for state, results in receipts.items():
        for result in results:
            report = lib.library.replay(as_json(result.signed_receipt))
            assert (report.state, report.same) == (state, True)
    # A model need not say the same again.
    repeated = [lib.library.replay(as_json(result.signed_receipt)).same_result
                for result in receipts[StateChange.SAME]]  # fmt: skip
    assert repeated == [True, True, True, True, None]


@proves("proof.replay")
def test_replay_names_replaced_and_deleted_documents(
    signing: tuple[LibraryFixture, World],
) -> None:
    lib, world = signing
    receipt = as_json(world.search(QUERY, top_k=5, floor=0.0, signed=True).signed_receipt)
    world.ingest(lib.write("guide.md", GUIDE.replace("seventh", "eighth")))

    report = lib.library.replay(receipt)
    assert (report.state, report.same_result, report.same) == (StateChange.CHANGED, False, False)
    assert PassageChange.REPLACED in {passage.change for passage in report.passages}
    world.documents.delete("guide.md")
    world.documents.delete("other.md")
    changes = {passage.change for passage in lib.library.replay(receipt).passages}
    assert changes == {PassageChange.DELETED}
    lib.library.delete_world(world.id)
    assert lib.library.replay(receipt).state is StateChange.GONE


@proves("proof.replay")
def test_replay_names_damage(signing: tuple[LibraryFixture, World]) -> None:
    lib, world = signing
    receipt = as_json(world.search(QUERY, top_k=1, signed=True).signed_receipt)
    lib.sql("UPDATE chunks SET text = 'other'")
    lib.sql("UPDATE texts SET text = 'other'")

    report = lib.library.replay(receipt)
    assert report.same_result is False
    assert [passage.change for passage in report.passages] == [PassageChange.DAMAGED]


@proves("proof.replay")
def test_replay_names_a_passage_that_is_not_returned_now(
    signing: tuple[LibraryFixture, World],
) -> None:
    lib, world = signing
    receipt = as_json(world.search(QUERY, top_k=1, signed=True).signed_receipt)
    better = "# The key\n\nWhere did the brass key hang? The brass key did hang where it hung.\n"
    world.ingest(lib.write("better.md", better))

    report = lib.library.replay(receipt)
    assert report.state is StateChange.CHANGED
    assert [passage.change for passage in report.passages] == [PassageChange.NOT_RETURNED]


@proves("proof.replay")
def test_replay_of_a_hashed_question_needs_the_question(tmp_path: Path) -> None:
    lib, world = signing_world(tmp_path)
    parts = replace(
        lib.library._components, signs_questions=False, mark_query=lambda _, text: f"mark {text}"
    )
    library = Library(parts)
    receipt = as_json(library.world(world.id).search(QUERY, signed=True).signed_receipt)

    assert library.replay(receipt, query=QUERY).same
    for query in (None, "Another question?"):
        with pytest.raises(InvalidArgument):
            library.replay(receipt, query=query)


@proves("proof.replay")
def test_replay_in_another_library_is_refused(tmp_path: Path) -> None:
    _, world = signing_world(tmp_path / "one")
    other, _ = signing_world(tmp_path / "two")
    receipt = as_json(world.search(QUERY, signed=True).signed_receipt)

    with pytest.raises(ReceiptInvalid) as error:
        other.library.replay(receipt)
    assert error.value.failure == "unknown_key"
    # Also if both libraries have the same key.
    (tmp_path / "two" / "signing.key").write_bytes((tmp_path / "one" / "signing.key").read_bytes())
    with pytest.raises(ReceiptInvalid) as error:
        other.library.replay(receipt)
    assert error.value.failure == "other_library"

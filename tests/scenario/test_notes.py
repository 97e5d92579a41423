"""Notes of readers: seen from their position on, moved with the text, deleted with the document."""

import pytest
from msgspec import UNSET

from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.worlds import LibraryFixture
from truespan.engine.reader import Reader
from truespan.engine.world import World
from truespan.errors import InvalidArgument, NotAllowed
from truespan.maintenance.doctor.plan import Finding
from truespan.types.bundle import ContextBundle
from truespan.types.ids import WorldId
from truespan.types.note import FoundNote
from truespan.types.scope import OWNER
from truespan.wire.serialize import to_json

SENTENCES = [f"The lamp of keeper number {number} went out at sea." for number in range(12)]
BOOK = " ".join(SENTENCES)


def write(lib: LibraryFixture, text: str, world: str = "world") -> World:
    found = lib.library.world(world, create=True)
    found.ingest(lib.write(f"{world}/book.txt", text), kind="book", title="Lamps")
    return found


def reader_at(world: World, sid: int, name: str = "ada") -> Reader:
    reader = world.reader(name)
    reader.set_position("book.txt", sentence=sid)
    return reader


@proves("notes.up-to-the-position")
def test_note_is_seen_from_its_position_on(lib: LibraryFixture) -> None:
    world = write(lib, BOOK)
    reader = reader_at(world, 8)
    note = reader.notes.add("Who puts them out?", first=2, last=3)
    assert note.quote == " ".join(SENTENCES[2:4])
    assert (note.sid, note.first, note.last) == (8, 2, 3)
    reader_at(world, 4)
    assert reader.notes.list() == []
    assert reader.notes.to_markdown() == ""
    with raises_code("note_not_found"):
        reader.notes.delete(note.id)
    early = reader.notes.add("Only keepers so far.")
    assert [one.id for one in reader.notes.list()] == [early.id]
    assert (early.first, early.quote) == (None, "")

    reader_at(world, 8)
    assert {one.id for one in reader.notes.list()} == {note.id, early.id}
    assert world.reader("bob").notes.list() == []


@proves("notes.up-to-the-position")
def test_replies_do_not_depend_on_later_notes(lib: LibraryFixture) -> None:
    told = []
    for number, later in enumerate((False, True)):
        world = write(lib, BOOK, f"world-{number}")
        if later:
            reader_at(world, 11).notes.add("The mate did it.", first=11)
        reader = reader_at(world, 3)
        told.append([
            to_json(reader.notes.list()), reader.notes.to_markdown(),
            to_json(reader.notes.list(search="mate")), to_json(reader.sentences().sentences),
        ])  # fmt: skip

    assert told[0] == told[1]


@proves("notes.up-to-the-position")
def test_unread_sentences_cannot_be_marked(lib: LibraryFixture) -> None:
    reader = reader_at(write(lib, BOOK), 4)
    refusals = set()
    for first, last in ((5, 5), (3, 5), (500, 501), (4, 3)):
        with pytest.raises(InvalidArgument) as refused:
            reader.notes.add("x", first=first, last=last)
        refusals.add(str(refused.value))
    assert len(refusals) == 1, "an unread sentence is refused like an absent one"
    for text in ("", "  ", "x" * 5001):
        with pytest.raises(InvalidArgument):
            reader.notes.add(text)
    with raises_code("no_reading_position"):
        reader.notes.add("x", book="other.txt")
    with pytest.raises(InvalidArgument):
        reader.at_position("book.txt", 9).notes.add("x")


# In `contract` worlds an answer quotes whole passages, headings of the document included.
@pytest.mark.recommended
@proves("output.no-forged-links")
def test_labels_of_a_document_make_no_link_in_exports(lib: LibraryFixture) -> None:
    lure = "Lamps](https://evil.example/login) and [more"
    world = lib.library.create_world("world")
    text = f"# Book\n\n## Keepers {lure}\n\n{BOOK}"
    world.ingest(lib.write("book.md", text), kind="book", title=lure)
    reader = world.reader("ada")
    reader.set_position("book.md", sentence=9)
    reader.notes.add("A note")
    talk = reader.conversation()
    talk.ask("What did the lamp of keeper number 1 do?")

    shown = reader.notes.to_markdown() + talk.to_markdown()

    labels = [line for line in shown.split("\n") if "evil.example" in line]
    assert len(labels) >= 2
    assert [line for line in labels if "\\](https" not in line] == []
    assert [line for line in labels if "](https" in line.replace("\\](", "")] == []


@proves("notes.up-to-the-position")
def test_search_finds_words_of_note_and_quote(lib: LibraryFixture) -> None:
    reader = reader_at(write(lib, BOOK), 9)
    reader.notes.add("The storm again", first=1)
    reader.notes.add("Somebody is lying", first=7)

    assert [note.first for note in reader.notes.list(search="STORM")] == [1]
    assert [note.first for note in reader.notes.list(search="number 7")] == [7]
    assert [note.first for note in reader.notes.list(search="keeper")] == [1, 7]
    assert reader.notes.list(search="harbour") == []
    assert [note.first for note in reader.notes.list(limit=1, offset=1)] == [7]
    shown = reader.notes.to_markdown(book="book.txt")
    assert shown.startswith("# Notes on Lamps\n\n> The lamp of keeper number 1")
    assert "Somebody is lying\n\n*sentence 7*" in shown


@proves("notes.moved-and-deleted")
def test_notes_move_with_the_text(lib: LibraryFixture) -> None:
    world = write(lib, BOOK)
    reader = reader_at(world, 8)
    reader.notes.add("stays", first=6, last=7)
    reader.notes.add("loses its sentence", first=3)
    reader.notes.add("loses one of three", first=2, last=4)
    changed = [*SENTENCES]
    changed[3] = "The lamp of keeper number 3 went out at night."
    write(lib, "A short preface was added by the publisher. " + " ".join(changed))

    notes = {note.text: note for note in reader.notes.list()}
    assert reader.position().sid == 9
    assert (notes["stays"].first, notes["stays"].last) == (7, 8)
    assert notes["stays"].sid == 9
    assert notes["loses its sentence"].first is None
    assert notes["loses its sentence"].quote == SENTENCES[3]
    assert (notes["loses one of three"].first, notes["loses one of three"].last) == (None, None)
    assert reader_at(world, 8).notes.list() == []


@proves("notes.moved-and-deleted")
def test_notes_are_removed_with_their_document_and_reader(lib: LibraryFixture) -> None:
    world = write(lib, BOOK)
    ada, bob = reader_at(world, 8), reader_at(world, 8, "bob")
    for reader in (ada, bob):
        reader.notes.add("one")
        reader.notes.add("two")
    reader_at(world, 3)
    assert ada.notes.delete_all() == 2
    reader_at(world, 8)
    assert ada.notes.list() == []
    ada.notes.add("three")
    ada.notes.delete(ada.notes.list()[0].id)
    assert len(bob.notes.list()) == 2

    assert world.documents.delete("book.txt").rows["notes"] == 2
    write(lib, BOOK)
    assert reader_at(world, 8, "bob").notes.list() == []


@proves("notes.moved-and-deleted")
def test_damaged_note_is_named_without_its_text(lib: LibraryFixture) -> None:
    world = write(lib, BOOK)
    reader = reader_at(world, 8)
    reader.notes.add("mine", first=1)
    lib.sql("UPDATE notes SET sid = 2")
    reader_at(world, 3)

    [note] = reader.notes.list()
    assert note.damaged
    assert (note.text, note.quote, note.first) == ("", "", None)


@proves("index.scrub")
def test_doctor_counts_damaged_notes_and_positions(lib: LibraryFixture) -> None:
    world, other = write(lib, BOOK), write(lib, BOOK, "other")
    kept = [reader_at(each, 3).notes.add(f"Note {n}") for each in (world, other) for n in (1, 2)]
    assert lib.library.doctor().healthy

    lib.sql("UPDATE notes SET content = replace(content, 'Note', 'Nota') WHERE id = ?", kept[0].id)
    lib.sql("UPDATE positions SET sid = 2 WHERE document = 1")
    plan = lib.library.doctor()
    left = lib.library.maintenance.apply_plan(plan).left

    assert [(item.finding, item.subject) for item in plan.all_items()] == [
        (Finding.DAMAGED_NOTE, kept[0].id), (Finding.DAMAGED_POSITION, "ada, document 1"),
    ]  # fmt: skip
    assert [*left.all_items()] == [*plan.all_items()]
    assert plan["other"].healthy
    assert not plan.healthy
    assert not plan.actionable
    reader_at(world, 3).notes.delete(kept[0].id)
    assert lib.library.doctor().healthy


@proves("notes.up-to-the-position", "authority.only-narrows")
def test_bound_reader_writes_own_notes_only(lib: LibraryFixture) -> None:
    world = write(lib, BOOK)
    reader_at(world, 5)
    reader_at(world, 5, "bob").notes.add("of Bob")
    bound = lib.library.under(OWNER.as_reader(WorldId(world.id), "ada")).world("world")

    assert bound.reader("ada").notes.add("mine", first=5).quote == SENTENCES[5]
    assert [note.text for note in bound.reader("ada").notes.list()] == ["mine"]
    for attempt in (
        lambda: bound.reader("bob").notes.list(),
        lambda: bound.reader("bob").notes.add("x"),
        lambda: bound.reader("bob").notes.delete_all(),
        lambda: bound.reader("bob").notes.to_markdown(),
    ):
        with pytest.raises(NotAllowed):
            attempt()


def notes_of(bundle: ContextBundle) -> tuple[FoundNote, ...]:
    assert bundle.notes is not UNSET
    return bundle.notes


@proves("notes.found-by-queries")
def test_query_finds_notes_up_to_the_position(lib: LibraryFixture) -> None:
    world = write(lib, BOOK)
    reader = reader_at(world, 4)
    early = reader.notes.add("The keepers drank too much rum.", first=1)
    reader.notes.add("Nothing about the weather.")
    reader_at(world, 9)
    late = reader.notes.add("The rum was poisoned by the mate.")

    found = reader.retrieve("Who was drinking rum?", notes=True)
    assert [note.id for note in notes_of(found)] == [early.id, late.id]
    assert found.total_tokens > reader.retrieve("Who was drinking rum?").total_tokens
    reader_at(world, 4)
    assert [note.id for note in notes_of(reader.retrieve("rum", notes=True))] == [early.id]
    assert reader.at_position("book.txt", 3).retrieve("rum", notes=True).notes == ()
    assert reader.retrieve("harbour", notes=True).notes == ()
    assert world.reader("bob").retrieve("rum", notes=True).notes == ()
    assert "notes" not in to_json(reader.retrieve("rum"))


@proves("notes.found-by-queries", "reading.never-past-position")
@pytest.mark.parametrize("position", range(12))
def test_found_notes_do_not_depend_on_later_ones(lib: LibraryFixture, position: int) -> None:
    """Notes are written at every position, in one world also past that of the reader."""
    replies = []
    for number, last in enumerate((position, 11)):
        world = write(lib, BOOK, f"world-{number}")
        for sid in range(last + 1):
            reader_at(world, sid).notes.add(f"The lamp of sentence {sid} is rum.", first=sid)
        reader = reader_at(world, position)
        bundles = [reader.retrieve(query, notes=True) for query in ("rum", "lamp 3", "sea")]
        replies.append([
            [(note.sid, note.text, note.quote) for note in notes_of(bundle)] for bundle in bundles
        ])  # fmt: skip

    assert replies[0] == replies[1]
    assert all(sid <= position for found in replies[0] for sid, *_ in found)
    assert replies[0][0]


@pytest.mark.needs_extension
@proves("notes.found-by-queries")
def test_notes_respect_the_token_budget(lib: LibraryFixture) -> None:
    reader = reader_at(write(lib, BOOK), 9)
    for number in range(8):
        reader.notes.add(f"Note {number}: the lamp again and again and again.")

    whole = reader.retrieve("lamp", notes=True)
    assert len(notes_of(whole)) == 5
    for budget in (1, 30, 60, 90):
        assert reader.retrieve("lamp", notes=True, max_tokens=budget).total_tokens <= budget
    with pytest.raises(InvalidArgument, match="cannot be signed"):
        reader.sign(whole)


@proves("notes.found-by-queries", "reading.never-past-position")
@pytest.mark.parametrize("position", [0, 4, 10])
def test_later_note_does_not_change_a_reply(lib: LibraryFixture, position: int) -> None:
    world = write(lib, BOOK)
    reader = reader_at(world, position)
    reader.notes.add("The lamp is out of rum.")
    before = to_json(reader.retrieve("lamp and rum", notes=True))
    reader_at(world, 11).notes.add("The rum, the lamp, the mate and the sea.", first=11)
    assert to_json(reader.retrieve("lamp and rum", notes=True)).count("the mate") == 1
    reader_at(world, position)

    assert to_json(reader.retrieve("lamp and rum", notes=True)) == before

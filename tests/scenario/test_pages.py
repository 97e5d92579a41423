"""Pages and pictures of a book: visible to a reader up to the position."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.promises import proves
from tests.scenario.test_figures import ALL, GIF, PNG, docx, drawing, filled, library, paragraph
from tests.support.failures import raises_code
from tests.support.reading_worlds import stored
from tests.support.sample_books import FORMS, book
from tests.support.sample_texts import once
from tests.support.worlds import Hooked, LibraryFixture
from truespan.engine.library import Library
from truespan.engine.reader import Reader
from truespan.engine.world import World
from truespan.errors import NotFound, StoreDamaged
from truespan.types.chunk import FigureFlags
from truespan.wire.serialize import to_json

WITHOUT_CHUNKS = FigureFlags(extract_images=True, placeholders=True)
FLAGS = pytest.mark.parametrize(
    "flags",
    [ALL, WITHOUT_CHUNKS, FigureFlags(extract_images=True)],
    ids=["all", "no chunks", "images"],
)

OPENING = (
    paragraph("The harbour was quiet. The boats were blue."),
    paragraph("Here the boats ", drawing("rId1", "Two blue boats"), " came in at dusk."),
    paragraph("Nobody waved."),
)
ENDINGS = (
    (paragraph("Nobody spoke."), paragraph("The end.")),
    (paragraph("A shot rang."), paragraph(drawing("rId2", "Corpse")), paragraph("The end.")),
    (paragraph(drawing("rId2", "Corpse")), paragraph("A shot.")),
    (paragraph(drawing("rId2", "Corpse"), drawing("rId1", "Boats"), drawing("rId2", "Again")),),
    (),
)
MEDIA = {"image1.png": PNG, "image2.gif": GIF}


def pictures(reader: Reader, doc_id: str) -> Iterator[str]:
    """Yield the result of every attempt to see an image."""
    for number in range(4):
        for ending in ("png", "gif"):
            try:
                image = reader.image(f"{doc_id}/img_{number:03d}.{ending}")
                yield f"{image.media_type} {image.data.hex()}"
            except NotFound as error:
                error.raise_unless("image_not_found")
                yield str(error)


def told(lib: LibraryFixture, content: bytes, sid: int) -> list[str]:
    """Return all pages and pictures that a reader at a sentence can get."""
    world = filled(lib, content)
    reader = world.reader("ann")
    reader.set_position("1", sentence=sid)
    pages = [
        reader.sentences("1", offset=first, limit=count)
        for first in range(7)
        for count in (1, 2, 9)
    ]
    return [*map(to_json, pages), *pictures(reader, world.documents.get(1).doc_id)]


@proves("reading.non-interference", "reading.every-surface")
@FLAGS
@pytest.mark.parametrize("sid", range(-1, 4))
def test_pages_and_pictures_reveal_no_unread_text(
    tmp_path: Path, flags: FigureFlags, sid: int
) -> None:
    lib = library(tmp_path, flags)

    answers = [told(lib, docx(*OPENING, *end, media=MEDIA), sid) for end in ENDINGS]

    assert all(answer == answers[0] for answer in answers)
    assert any("image/png" in line for line in answers[0]) == (sid >= 3)


@proves("reading.never-past-position", "reading.every-surface")
@pytest.mark.parametrize("form", FORMS)
def test_reader_pages_end_at_the_position(lib: LibraryFixture, world: World, form: str) -> None:
    world.ingest(lib.write(f"book.{form}", book(31, form, 20)), kind="book", title="A Book")
    whole, texts = world.documents.sentences(1, limit=1000), stored(lib, world, 1).texts
    assert [one.text for one in whole.sentences] == texts
    reader = world.reader("ann")
    for sid in range(-1, len(texts), 3):
        reader.set_position("1", sentence=sid)
        page = reader.sentences(limit=1000)

        assert page.sentences == whole.sentences[: sid + 1]
        assert (page.last, page.more) == (sid, False)
        assert [reader.sentences(offset=n, limit=1).more for n in range(sid + 1)] == [
            n < sid for n in range(sid + 1)
        ]


@proves("reading.never-past-position", "reading.every-surface")
@FLAGS
def test_picture_is_visible_once_the_text_around_it_is_read(tmp_path: Path, flags: FigureFlags):
    world = filled(library(tmp_path, flags), docx(*OPENING, *ENDINGS[1], media=MEDIA))
    doc_id, last = world.documents.get(1).doc_id, world.documents.get(1).sentences - 1
    reader = world.reader("ann")
    for sid in range(-1, last + 1):
        reader.set_position("1", sentence=sid)
        figures = {figure.image_ref for figure in reader.sentences().figures}
        given = set()
        for reference in (f"{doc_id}/img_001.png", f"{doc_id}/img_002.gif"):
            with suppress(NotFound):
                reader.image(reference)
                given.add(reference)

        assert given == figures
        assert (f"{doc_id}/img_001.png" in given) == (sid >= 3)
        assert (f"{doc_id}/img_002.gif" in given) == (sid >= last)


@proves("reading.no-state")
def test_no_picture_is_visible_without_a_position(tmp_path: Path) -> None:
    world = filled(library(tmp_path, ALL), docx(*OPENING, media=MEDIA))

    with raises_code("image_not_found"):
        world.reader("ann").image(f"{world.documents.get(1).doc_id}/img_001.png")


def happening_once(part: Any, verb: str, happen: Callable[[], object]) -> Any:
    """Return a part of the library that runs a function on its first call."""

    def change() -> None:
        happen()

    change_once = once(change)
    return Hooked(part, lambda name: change_once() if name == verb else None)


@proves("reading.never-past-position", "reading.re-anchored")
@pytest.mark.parametrize(
    ("part", "verb"),
    [("assets", "read"), ("store", "readers.figures"), ("store", "readers.in_force")],
)
def test_replaced_book_reveals_no_unread_picture(tmp_path: Path, part: str, verb: str) -> None:
    lib = library(tmp_path, ALL)
    world = filled(lib, docx(*OPENING, media=MEDIA))
    reader = world.reader("ann")
    reader.set_position("1", sentence=3)
    # The new book has another picture under the same name, and nothing of it was read.
    burning = paragraph("Later the ship ", drawing("rId1", "A ship"), " was on fire.")
    secret = docx(paragraph("It was dark."), burning, media={"image1.png": b"\x89PNG secret"})
    parts = lib.library._components
    happening = happening_once(getattr(parts, part), verb, lambda: filled(lib, secret))
    late = Library(replace(parts, **{part: happening})).world("world").reader("ann")

    with raises_code("image_not_found"):
        late.image(f"{world.documents.get(1).doc_id}/img_001.png")
    assert reader.position().sid == -1
    assert reader.sentences().sentences == ()
    assert (
        world.documents.image(f"{world.documents.get(1).doc_id}/img_001.png").data
        == b"\x89PNG secret"
    )


@proves("reading.never-past-position", "reading.re-anchored")
@pytest.mark.parametrize(
    "verb", ["readers.sentences", "readers.passage", "readers.figures", "readers.positions"]
)
def test_book_replaced_during_a_request_is_shown_as_far_as_read(tmp_path: Path, verb: str):
    lib = library(tmp_path, ALL)
    reader = filled(lib, docx(*OPENING, media=MEDIA)).reader("ann")
    reader.set_position("1", sentence=3)
    changed = docx(OPENING[0], paragraph("A shot rang. It was over."), media={})
    parts = lib.library._components
    happening = happening_once(parts.store, verb, lambda: filled(lib, changed))
    late = Library(replace(parts, store=happening)).world("world").reader("ann")

    page = late.sentences()

    assert [one.text for one in page.sentences] == [
        "The harbour was quiet.",
        "The boats were blue.",
    ]
    assert page == reader.sentences()


@proves("reading.sentence-order")
@pytest.mark.parametrize("lost", [0, 3, 5])
def test_page_of_a_document_contains_every_sentence(lib: LibraryFixture, lost: int) -> None:
    world = lib.world(note__md="One. Two. Three. Four. Five. Six.")
    assert [one.sid for one in world.documents.sentences(1).sentences] == [*range(6)]

    lib.sql("DELETE FROM sentences WHERE sid >= ?", lost)

    with pytest.raises(StoreDamaged):
        world.documents.sentences(1)


@proves("reading.sentence-order")
def test_page_says_which_sentences_begin_a_line(lib: LibraryFixture, world: World) -> None:
    text = (
        "# Verse\n\nOne ends. Two goes on\nhere. Three.\nFour.\n\n| a | b |\n|---|---|\n| c | d |\n"
    )
    world.ingest(lib.write("verse.md", text), kind="book")
    count = world.documents.get("verse.md").sentences

    whole = world.documents.sentences("verse.md").sentences
    parts = [
        world.documents.sentences("verse.md", offset=sid, limit=1).sentences[0]
        for sid in range(count)
    ]

    lines = [sentence.text for sentence in whole if sentence.starts_line]
    assert lines == ["Verse", "One ends.", "Four.", "a | b", "c | d"]
    assert parts == list(whole)

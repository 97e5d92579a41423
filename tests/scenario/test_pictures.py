"""Documents as they look: for callers who may see all of them, and for readers."""

from pathlib import Path

import pytest

from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.pdf_maker import Page, column, make_pdf
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.world import World
from truespan.errors import NotAllowed, NotFound
from truespan.extensions.checks.sanitize.findings import Mode
from truespan.extensions.checks.sanitize.sanitizer import Sanitizer
from truespan.ingest.draft import Preparation
from truespan.types.ids import WorldId
from truespan.types.scope import OWNER
from truespan.types.source import Upload
from truespan.wire.serialize import to_json

FIRST = ["The ferry left at four. A man in a blue", "coat came aboard. He asked for the key."]
SECOND = ["Nobody had seen the key. The landlady", "was asleep by then. It rained all night."]
THIRD = ["In the morning the boat was gone.", "The landlady had taken the key."]
DRAWING = b"q 1 0 0 rg 300 300 100 100 re f Q\n"


def pdf_of(*pages: list[str]) -> bytes:
    return make_pdf([Page(column(lines), raw=DRAWING) for lines in pages])


def ingest(lib: LibraryFixture, data: bytes, world: str = "world", name: str = "book.pdf") -> World:
    path = lib.folder / "files" / world / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    found = lib.library.world(world, create=True)
    found.ingest(str(path), kind="book", title="A book")
    return found


@proves("pictures.nothing-ahead")
def test_page_is_drawn_with_its_sentences(lib: LibraryFixture) -> None:
    world = ingest(lib, pdf_of(FIRST, SECOND))

    first, second = (world.documents.picture("book.pdf", page) for page in (1, 2))
    assert first.media_type == "image/png"
    assert first.image.startswith(b"\x89PNG")
    assert not first.partial
    assert [mark.sid for mark in first.sentences] == [0, 1, 2]
    assert [mark.sid for mark in second.sentences] == [3, 4, 5]
    with raises_code("image_not_found"):
        world.documents.picture("book.pdf", 3)


@proves("pictures.nothing-ahead")
def test_sentence_across_pages_is_marked_on_both(lib: LibraryFixture) -> None:
    world = ingest(lib, pdf_of(["The ferry left and did not"], ["come back before the winter."]))

    for page in (1, 2):
        assert [mark.sid for mark in world.documents.picture("1", page).sentences] == [0]


@proves("pictures.nothing-ahead")
def test_reader_gets_pages_up_to_the_position(lib: LibraryFixture) -> None:
    world = ingest(lib, pdf_of(FIRST, SECOND, THIRD))
    reader = world.reader("ada")
    with raises_code("no_reading_position"):
        reader.picture(1)
    reader.set_position("book.pdf", sentence=3)

    earlier = reader.picture(1)
    assert earlier.partial
    assert [mark.sid for mark in earlier.sentences] == [0, 1, 2]
    own = reader.picture(2)
    assert own.partial
    assert [mark.sid for mark in own.sentences] == [3]
    assert own.image != world.documents.picture("book.pdf", 2).image
    for page in (3, 4, 99):
        with raises_code("image_not_found"):
            reader.picture(page)
    reader.set_position("book.pdf", sentence=-1)
    with raises_code("image_not_found"):
        reader.picture(1)


@proves("pictures.nothing-ahead")
@pytest.mark.parametrize("position", range(6))
def test_pictures_do_not_depend_on_later_text(lib: LibraryFixture, position: int) -> None:
    """The text after the position differs, on the same page and on further pages."""
    sentences = [*(" ".join(FIRST).replace(". ", ".|").split("|")),
                 *(" ".join(SECOND).replace(". ", ".|").split("|"))]  # fmt: skip
    told = sentences[position]
    endings = (
        pdf_of(FIRST, SECOND, THIRD),
        pdf_of(*_changed_after(told, "Bill did it all. He ran away.")),
        pdf_of(*_changed_after(told, "")),
    )
    replies = []
    for number, data in enumerate(endings):
        world = lib.library.create_world(f"world {number}")
        world.ingest([Upload("book.pdf", data)], kind="book")
        reader = world.reader("ada")
        reader.set_position("book.pdf", sentence=position)
        replies.append([_reply(reader, page) for page in range(1, 5)])

    assert replies[1:] == replies[:-1]
    assert any("image" in reply for reply in replies[0])


def _reply(reader: object, page: int) -> str:
    try:
        return to_json(reader.picture(page))  # type: ignore[attr-defined]
    except NotFound as error:
        error.raise_unless("image_not_found")
        return str(error)


def _changed_after(told: str, ending: str) -> list[list[str]]:
    pages: list[list[str]] = []
    for page in (FIRST, SECOND):
        whole = "\n".join(page)
        at = whole.replace("\n", " ").find(told)
        if at < 0:
            pages.append(page)
            continue
        lines = whole[: (at + len(told))].split("\n")
        if ending:
            lines[-1] += f" {ending}"
            lines.append("Nothing of this was known before.")
        return [*pages, lines]
    raise AssertionError(told)


@proves("pictures.nothing-ahead")
def test_page_with_a_list_of_contents_shows_read_text_only(lib: LibraryFixture) -> None:
    names = ["The Boat", "The Key", "The Night", "The Rain", "The Landlady Did It"]
    listed = [f"Chapter {number}: {name} ........ {number}" for number, name in enumerate(names, 1)]
    front = [*column(["A TALE OF A FERRY", "It is told by an old man."]),
             *column(["CONTENTS"], top=640), *column(listed, top=600, pitch=36)]  # fmt: skip
    data = make_pdf([Page(front), Page(column(FIRST, size=13, pitch=16)), Page(column(SECOND))])
    world = ingest(lib, data)
    reader = world.reader("ada")
    sentences = world.documents.sentences("1").sentences
    ahead = min(one.sid for one in sentences if "Landlady Did" in one.text)
    last_read = next(one.sid for one in sentences if "asleep" in one.text)
    assert ahead > last_read, "a list of contents stands at the end of the text"
    reader.set_position("book.pdf", sentence=last_read)

    shown = reader.picture(1)
    assert shown.partial
    assert [mark.sid for mark in shown.sentences] == [0]
    # A page drawn whole would tell that it has no unread text.
    assert reader.picture(2).partial
    plain = make_pdf(
        [Page(front[:2]), Page(column(FIRST, size=13, pitch=16)), Page(column(SECOND))]
    )
    other = ingest(lib, plain, world="other").reader("ada")
    other.set_position("book.pdf", sentence=last_read)
    assert other.picture(1).image == shown.image


@proves("pictures.nothing-ahead", "authority.only-narrows")
def test_only_the_reader_of_a_token_gets_pictures(lib: LibraryFixture) -> None:
    world = ingest(lib, pdf_of(FIRST, SECOND))
    world.reader("ada").set_position("book.pdf", sentence=1)
    bound = lib.library.under(OWNER.as_reader(WorldId(world.id), "ada")).world("world")

    assert bound.reader("ada").picture(1).partial
    with pytest.raises(NotAllowed):
        bound.documents.picture("book.pdf", 1)
    with pytest.raises(NotAllowed):
        bound.reader("bob").picture(1)


@proves("pictures.kept-and-removed")
def test_upload_is_shown_and_removed_with_the_document(lib: LibraryFixture, world: World) -> None:
    world.ingest([Upload("book.pdf", pdf_of(FIRST)), Upload("page.html", b"<p>Hi <b>you</b>.")])
    folder = lib.folder / "pictures"

    assert world.documents.picture("book.pdf", 1).width > 1000
    page = world.documents.picture("page.html")
    assert (page.media_type, page.image) == ("text/html", b"<p>Hi <b>you</b>.</p>")
    assert any(path.is_file() for path in folder.rglob("*"))
    assert world.documents.delete("book.pdf").assets.files == 2
    lib.library.delete_world("world")
    assert not [path for path in folder.rglob("*") if path.is_file()]


@proves("pictures.kept-and-removed")
def test_changed_file_is_not_shown(lib: LibraryFixture) -> None:
    world = ingest(lib, pdf_of(FIRST, SECOND))
    (lib.folder / "files" / "world" / "book.pdf").write_bytes(pdf_of(SECOND, THIRD))

    with raises_code("image_not_found"):
        world.documents.picture("book.pdf", 1)
    ingest(lib, pdf_of(SECOND, THIRD))
    assert len(world.documents.picture("book.pdf", 1).sentences) == 3


@proves("pictures.kept-and-removed")
def test_new_revision_removes_earlier_pictures(lib: LibraryFixture, world: World) -> None:
    world.ingest([Upload("book.pdf", pdf_of(FIRST))])
    world.documents.picture("book.pdf", 1)
    world.ingest([Upload("book.pdf", pdf_of(SECOND))])

    files = [path for path in (lib.folder / "pictures").rglob("*") if path.is_file()]
    assert [path.name.endswith("-source") for path in files] == [True]
    assert world.documents.picture("book.pdf", 1).sentences


@proves("pictures.kept-and-removed")
def test_redacted_document_is_not_shown(tmp_path: Path) -> None:
    sanitizer = Sanitizer(mode=Mode.ON)
    lib = make_library(tmp_path, preparation=Preparation(sanitizer=sanitizer))
    world = ingest(lib, pdf_of(["Write to ida.holm@example.org soon."]))
    assert "ida.holm" not in world.documents.text("1")

    with raises_code("image_not_found"):
        world.documents.picture("1", 1)


@proves("pictures.nothing-ahead")
def test_redaction_of_unread_pages_does_not_hide_read_ones(tmp_path: Path) -> None:
    sanitizer = Sanitizer(mode=Mode.ON)
    lib = make_library(tmp_path, preparation=Preparation(sanitizer=sanitizer))
    for number, unread in enumerate(("Write to ida.holm@example.org soon.", "Write soon.")):
        world = ingest(lib, pdf_of(["The ferry left."], [unread]), f"world {number}")
        world.reader("ada").set_position("book.pdf", sentence=0)

        with raises_code("image_not_found"):
            world.reader("ada").picture(1)


@proves("pictures.nothing-ahead", "pictures.kept-and-removed")
def test_earlier_redaction_decides_by_the_read_text_alone(tmp_path: Path) -> None:
    """Redaction is switched off after ingestion: findings hide a page only if they were read."""
    sanitizer = Sanitizer(mode=Mode.ON)
    lib = make_library(tmp_path, preparation=Preparation(sanitizer=sanitizer))
    personal = "Write to ida.holm@example.org soon."
    pages = {
        "unread": pdf_of(["The ferry left."], [personal]),
        "none": pdf_of(["The ferry left."], ["Write soon."]),
        "read": pdf_of([personal], ["The ferry left."]),
    }
    for name, data in pages.items():
        ingest(lib, data, name).reader("ada").set_position("book.pdf", sentence=0)

    again = make_library(tmp_path)
    worlds = {name: again.library.world(name) for name in pages}
    shown = {name: worlds[name].reader("ada").picture(1) for name in ("unread", "none")}
    assert shown["unread"].image == shown["none"].image
    with raises_code("image_not_found"):
        worlds["read"].reader("ada").picture(1)
    with raises_code("image_not_found"):
        worlds["unread"].documents.picture("book.pdf", 1)

"""Images of figures: returned by reference to permitted callers only."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.scenario.test_figures import ALL, GIF, PNG, docx, drawing, filled, library, paragraph
from tests.support.failures import raises_code
from tests.support.sample_texts import once
from tests.support.worlds import LibraryFixture
from truespan.engine.library import Library
from truespan.engine.world import World
from truespan.errors import InvalidArgument, NotAllowed, NotFound, ProviderUnavailable, StoreDamaged
from truespan.files.assets import AssetFolder
from truespan.types.chunk import FigureFlags
from truespan.types.ids import WorldId
from truespan.types.scope import OWNER
from truespan.types.text import Image

HERE, THERE = WorldId("00000000-0000-4000-8000-000000000001"), WorldId("other")


@pytest.fixture
def lib(tmp_path: Path) -> LibraryFixture:
    return library(tmp_path, ALL)


@pytest.fixture
def world(lib: LibraryFixture) -> World:
    return filled(lib)


def doc_id(world: World) -> str:
    return world.documents.get(1).doc_id


def test_image_is_returned_with_its_bytes_and_type(world: World) -> None:
    first, second = (figure.image_ref for figure in world.documents.sentences(1).figures)
    assert first
    assert second

    assert (world.documents.image(first).data, world.documents.image(first).media_type) == (
        PNG,
        "image/png",
    )
    assert (world.documents.image(second).data, world.documents.image(second).media_type) == (
        GIF,
        "image/gif",
    )


@pytest.mark.parametrize(("ending", "media_type"), [
    ("jpg", "image/jpeg"), ("jpeg", "image/jpeg"), ("webp", "image/webp"), ("bmp", "image/bmp"),
    ("tiff", "image/tiff"), ("svg", "application/octet-stream"),
    ("emf", "application/octet-stream"), ("html", "application/octet-stream"),
])  # fmt: skip
def test_only_passive_image_types_are_served_as_images(
    lib: LibraryFixture, ending: str, media_type: str
) -> None:
    content = docx(
        paragraph("Here ", drawing("rId1", "boats"), " they are."), media={f"image1.{ending}": PNG}
    )
    world = filled(lib, content)
    assert world.documents.image(f"{doc_id(world)}/img_001.{ending}").media_type == media_type


@pytest.mark.parametrize("attack", [
    "", "/", "{id}", "{id}/", "{id}/img_001", "{id}/img_003.png", "{id}/img_001.gif",
    "{id}/IMG_001.png", "{id}/img_001.PNG", "{id}/img_1.png", "{id}/img_001.png/",
    "{id}/img_001.png\n", "{id}/img_001.png\0", "{id}/img_001.png\0.gif", "{id}/./img_001.png",
    "{id}//img_001.png", "./{id}/img_001.png", "/{id}/img_001.png", "../assets/{id}/img_001.png",
    "{id}/../{id}/img_001.png", "../store.db", "{id}/../../store.db", "{id}/.world",
    "../{id}/img_001.png", "{id}%2Fimg_001.png", "{id}/%69mg_001.png", "%2e%2e/store.db",
    "{id}\\img_001.png", "C:/img_001.png", "{id}/img_٠٠١.png", "{id}/img_001.png " * 1000,
])  # fmt: skip
def test_image_is_found_only_by_its_reference(world: World, attack: str) -> None:
    reader = world.reader("ann")
    reader.set_position("1", sentence=3)
    asked = attack.replace("{id}", doc_id(world))
    for source in (world.documents, reader):
        with raises_code("image_not_found") as caught:
            source.image(asked)
        assert str(caught.value) == str(NotFound("image"))


@pytest.mark.parametrize("wrong", [None, 1, b"a/img_001.png", Path("a/img_001.png")])
def test_non_string_reference_is_refused(world: World, wrong: object) -> None:
    for source in (world.documents, world.reader("ann")):
        with pytest.raises(InvalidArgument):
            source.image(wrong)  # type: ignore[arg-type]


def test_image_of_another_world_looks_like_a_missing_one(lib: LibraryFixture, world: World) -> None:
    other = lib.world("other", note__md="One. Two.")
    other.reader("ann").set_position("1", sentence=1)
    for source in (other.documents, other.reader("ann"), other.reader("nobody")):
        for reference in (f"{doc_id(world)}/img_001.png", "nothing/img_001.png"):
            with raises_code("image_not_found") as caught:
                source.image(reference)
            assert str(caught.value) == str(NotFound("image"))


def test_same_document_id_in_another_world_gives_no_image(lib: LibraryFixture, world: World):
    other = lib.library.create_world("other")
    # The same file has the same id there; without its images, since the folder is taken.
    plain = Library(lib.library._components).world(other.id)
    path = lib.folder / "files" / "report.docx"
    path.write_bytes(docx(paragraph("Nothing to see."), media={}))
    plain.ingest(path)
    assert plain.documents.get(1).doc_id == doc_id(world)
    with raises_code("image_not_found"):
        plain.documents.image(f"{doc_id(world)}/img_001.png")


def test_images_of_an_earlier_revision_are_removed(lib: LibraryFixture, world: World) -> None:
    reference = f"{doc_id(world)}/img_001.png"
    filled(lib, docx(paragraph("Only ", drawing("rId1", "new")), media={"other.gif": GIF}))
    with raises_code("image_not_found"):
        world.documents.image(reference)
    assert world.documents.image(f"{doc_id(world)}/img_001.gif").data == GIF


def test_caller_bound_to_a_reader_gets_no_images_of_the_world(
    lib: LibraryFixture, world: World
) -> None:
    world.reader("ann").set_position("1", sentence=3)
    own = Library(lib.library._components, OWNER.as_reader(WorldId(world.id), "ann")).world("world")
    reference = f"{doc_id(world)}/img_001.png"
    assert own.reader("ann").image(reference).data == PNG
    for asked in (reference, "no reference"):
        with pytest.raises(NotAllowed):
            own.documents.image(asked)
        with pytest.raises(NotAllowed):
            own.reader("ben").image(asked)


def test_figure_without_a_chunk_is_shown_without_a_description(tmp_path: Path) -> None:
    world = filled(library(tmp_path, FigureFlags(extract_images=True)))
    assert [(one.sid, one.description) for one in world.documents.sentences(1).figures] == [
        (1, None)
    ] * 2
    assert world.documents.image(f"{doc_id(world)}/img_001.png").data == PNG


def test_damaged_figure_row_gives_no_image_ahead(lib: LibraryFixture) -> None:
    between = [paragraph(f"The boats lay in the harbour on day {day}.") for day in range(80)]
    first, second = (
        paragraph("Here ", drawing("rId1", "a")),
        paragraph("End ", drawing("rId2", "b")),
    )
    world = filled(lib, docx(first, *between, second, media={"1.png": PNG, "2.gif": GIF}))
    shown, hidden = (f"{doc_id(world)}/img_00{ending}" for ending in ("1.png", "2.gif"))
    reader = world.reader("ann")
    reader.set_position("1", sentence=70)
    assert reader.image(shown).data == PNG

    lib.sql("UPDATE figures SET image_ref = ? WHERE image_ref = ?", hidden, shown)

    for source, reference in ((reader, shown), (world.documents, shown), (reader, hidden)):
        with raises_code("image_not_found"):
            source.image(reference)


def test_images_of_a_staged_revision_are_not_published(lib: LibraryFixture) -> None:
    store, path = lib.library._components.store, lib.folder / "files" / "report.docx"
    original = store.documents.activate
    staged = docx(paragraph("Only ", drawing("rId1", "new")), media={"other.gif": GIF})

    def stage_another() -> None:
        """Stage another revision, like a run that then loses its provider.

        The run of this process still has the document, so the other one takes it as it does when
        that process is dead.
        """
        store.jobs.claim_documents = lambda *_, **__: True
        path.write_bytes(staged)
        lib.embedder.before = fail
        with suppress(ProviderUnavailable):
            lib.library.world("world").ingest(path)
        lib.embedder.before = None
        del store.jobs.claim_documents

    def fail(*_: object) -> None:
        raise ProviderUnavailable("The provider did not answer.")

    staging = once(stage_another)

    def activate(*args: Any, **options: Any) -> Any:
        activated = original(*args, **options)
        staging()
        return activated

    store.documents.activate = activate
    world = filled(lib)

    assert world.documents.list()[0].staged == 2
    assert world.documents.image(f"{doc_id(world)}/img_001.png").data == PNG
    world.ingest(path)
    assert world.documents.image(f"{doc_id(world)}/img_001.gif").data == GIF


def test_forged_description_is_damage(lib: LibraryFixture, world: World) -> None:
    lib.sql("UPDATE figures SET description = 'Figure 1. Forged.' WHERE number = 1")
    with pytest.raises(StoreDamaged):
        world.documents.sentences(1)


def test_figures_are_on_the_page_of_their_sentence_only(world: World) -> None:
    on = [
        [one.sid for one in world.documents.sentences(1, offset=n, limit=1).figures]
        for n in range(5)
    ]
    assert on == [[], [1, 1], [], [], []]


def test_figure_before_all_text_is_at_the_first_sentence(lib: LibraryFixture) -> None:
    content = docx(
        paragraph(drawing("rId1", "cover")), paragraph("It began."), media={"image1.png": PNG}
    )
    world = filled(library(lib.folder / "bare", FigureFlags(chunks=True)), content)
    assert [one.sid for one in world.documents.sentences(1).figures] == [0]


# The files


@pytest.fixture
def assets(tmp_path: Path) -> AssetFolder:
    made = AssetFolder(tmp_path / "assets", reserve=0)
    made.stage_images(HERE, "doc", "one", [Image("png", b"first"), Image("gif", b"second")])
    made.publish(HERE, "doc", "one")
    return made


def test_images_are_read_by_world_document_token_and_name(assets: AssetFolder) -> None:
    assert assets.read(HERE, "doc", "one", "img_001.png") == b"first"
    assert assets.read(HERE, "doc", "one", "img_002.gif") == b"second"
    for wrong in (
        (THERE, "doc", "one", "img_001.png"), (HERE, "docs", "one", "img_001.png"),
        (HERE, "doc", "two", "img_001.png"), (HERE, "doc", "one", "img_003.png"),
        (HERE, "doc", "one", ".world"), (HERE, "..", "one", "img_001.png"),
        (HERE, "a/../doc", "one", "img_001.png"), (HERE, "doc", "one", "../doc/img_001.png"),
        (HERE, "doc\0", "one", "img_001.png"),
    ):  # fmt: skip
        assert assets.read(*wrong) is None


def test_pending_images_are_read_from_their_folder(assets: AssetFolder) -> None:
    assets.stage_images(HERE, "doc", "two", [Image("png", b"newer")])
    assert assets.read(HERE, "doc", "two", "img_001.png") == b"newer"
    assert assets.read(HERE, "doc", "one", "img_001.png") == b"first"
    assert assets.read(THERE, "doc", "two", "img_001.png") is None


def test_images_of_another_revision_are_never_served(assets: AssetFolder, tmp_path: Path) -> None:
    home = tmp_path / "assets" / "doc"
    assets.stage_images(HERE, "doc", "two", [Image("png", b"newer"), Image("gif", b"newest")])
    os.replace(home / ".staged-two" / "img_001.png", home / "img_001.png")
    assert assets.read(HERE, "doc", "one", "img_001.png") is None
    assert assets.read(HERE, "doc", "two", "img_001.png") == b"newer"
    assert assets.read(HERE, "doc", "two", "img_002.gif") == b"newest"


def test_links_are_not_followed(assets: AssetFolder, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    home = tmp_path / "assets" / "doc"
    (home / "img_003.png").symlink_to(secret)
    (home / "img_004.png").symlink_to(home / "img_001.png")
    os.mkfifo(home / "img_005.png")
    (home / "img_006.png").mkdir()
    (tmp_path / "assets" / "linked").symlink_to(home)

    for name in ("img_003.png", "img_004.png", "img_005.png", "img_006.png"):
        assert assets.read(HERE, "doc", "one", name) is None
    assert assets.read(HERE, "linked", "one", "img_001.png") is None

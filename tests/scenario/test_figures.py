"""Figures: markers in the text, images as files, and chunks of descriptions, only on request."""

import io
import logging
import zipfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.reader import Reader
from truespan.engine.world import World
from truespan.errors import StoreDamaged
from truespan.ingest.draft import Preparation
from truespan.types.chunk import ChunkKind, FigureFlags
from truespan.types.document import assets_token
from truespan.types.ids import hash_text
from truespan.types.request import Mode
from truespan.wire.serialize import to_json

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(64))
GIF = b"GIF89a" + bytes(range(32))
ALL = FigureFlags(extract_images=True, placeholders=True, chunks=True)

_W = (
    'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main" '
    'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships" '
    'xmlns:a="http://schemas.openxmlformats.org/drawingml/2006/main" '
    'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing"'
)
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"


def drawing(relation: str, alt: str) -> str:
    return (
        f'<w:r><w:drawing><wp:inline><wp:docPr id="1" name="p" descr="{alt}"/>'
        f'<a:graphic><a:graphicData><a:blip r:embed="{relation}"/></a:graphicData></a:graphic>'
        "</wp:inline></w:drawing></w:r>"
    )


def paragraph(*runs: str) -> str:
    shown = (
        run if run.startswith("<") else f'<w:r><w:t xml:space="preserve">{run}</w:t></w:r>'
        for run in runs
    )
    return f"<w:p>{''.join(shown)}</w:p>"


def docx(
    *paragraphs: str, media: dict[str, bytes], relations: dict[str, str] | None = None
) -> bytes:
    body = "".join(paragraphs)
    targets = relations or {f"rId{n}": name for n, name in enumerate(media, 1)}
    links = "".join(
        f'<Relationship Id="{key}" Type="{_OFFICE}/image" Target="media/{name}"/>'
        for key, name in targets.items()
    )
    parts: dict[str, str | bytes] = {
        "[Content_Types].xml": (
            '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
            '<Default Extension="rels" ContentType="application/xml"/></Types>'
        ),
        "_rels/.rels": (
            f'<Relationships xmlns="{_PACKAGE}"><Relationship Id="rId1" '
            f'Type="{_OFFICE}/officeDocument" Target="word/document.xml"/></Relationships>'
        ),
        "word/document.xml": f"<w:document {_W}><w:body>{body}</w:body></w:document>",
        "word/_rels/document.xml.rels": (
            f'<Relationships xmlns="{_PACKAGE}">{links}</Relationships>'
        ),
    }
    parts |= {f"word/media/{name}": content for name, content in media.items()}
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in parts.items():
            file.writestr(name, content)
    return archive.getvalue()


REPORT = docx(
    paragraph("The harbour was quiet on the first morning."),
    paragraph("Here the boats ", drawing("rId1", "Two blue boats"), " came in at dusk."),
    paragraph(drawing("rId2", "A chart of arrivals")),
    paragraph("Then the night fell over the water."),
    media={"image1.png": PNG, "image2.gif": GIF},
)
PLAIN = docx(
    paragraph("The harbour was quiet on the first morning."),
    paragraph("Here the boats ", " came in at dusk."),
    paragraph(""),
    paragraph("Then the night fell over the water."),
    media={},
)


def library(folder: Path, flags: FigureFlags) -> LibraryFixture:
    return make_library(folder, preparation=Preparation(figures=flags))


def filled(lib: LibraryFixture, content: bytes = REPORT, name: str = "report.docx") -> World:
    path = lib.folder / "files" / name
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(content)
    world = lib.library.world("world", create=True)
    assert world.ingest(path).failures == []
    return world


def lines(world: World) -> list[str]:
    return [one.line for one in world.jobs.lines(world.jobs.list()[0].id)]


def figures(world: World) -> list:
    found = world.search("boats chart arrivals", top_k=50, floor=0.0).passages
    return sorted(
        (one for one in found if one.chunk_type is ChunkKind.FIGURE), key=lambda one: one.index
    )


@proves("figures.placeholder-in-place")
def test_marker_is_at_the_place_of_its_picture(tmp_path: Path) -> None:
    world = filled(library(tmp_path, FigureFlags(placeholders=True)))
    doc_id = world.documents.get(1).doc_id

    assert world.documents.text("1") == (
        "The harbour was quiet on the first morning.\n\n"
        f"Here the boats [FIGURE:{doc_id}-fig-001] came in at dusk.\n\n"
        f"[FIGURE:{doc_id}-fig-002]\n\n"
        "Then the night fell over the water."
    )


@proves("figures.placeholder-in-place")
def test_marker_written_by_an_author_is_plain_text(tmp_path: Path) -> None:
    lib = library(tmp_path, ALL)
    world = filled(lib, docx(paragraph("Look at [FIGURE:fake] here."), media={}))

    assert world.documents.text("1") == "Look at [ FIGURE:fake] here."
    assert figures(world) == []


@proves("figures.chunk-fields")
def test_figure_chunks_name_their_figure_image_and_parent(tmp_path: Path) -> None:
    world = filled(library(tmp_path, ALL))
    doc_id = world.documents.get(1).doc_id

    first, second = figures(world)

    assert [one.figure_id for one in (first, second)] == [f"{doc_id}-fig-001", f"{doc_id}-fig-002"]
    assert [one.image_ref for one in (first, second)] == [
        f"{doc_id}/img_001.png",
        f"{doc_id}/img_002.gif",
    ]
    for one in (first, second):
        assert one.parent_chunk_id is not None
        parent = world.documents.chunk(one.parent_chunk_id).chunk
        assert parent is not None
        assert parent.index == one.parent_chunk_local_index
        assert parent.kind is ChunkKind.TEXT
        assert f"[FIGURE:{one.figure_id}]" in parent.data.decode()


@proves("figures.chunk-fields", "search.words")
def test_a_figure_is_found_by_the_words_of_its_description(tmp_path: Path) -> None:
    world = filled(library(tmp_path, ALL))
    found = world.search("a chart of arrivals", floor=0.0, mode="keyword").passages

    assert [(one.chunk_type, "chart" in one.text) for one in found] == [(ChunkKind.FIGURE, True)]
    assert found[0].fused is not None
    assert found[0].fused.bm25 > 0


@proves("figures.chunk-fields", "retrieval.fitted-passages")
def test_excerpt_of_a_figure_is_its_whole_description(tmp_path: Path) -> None:
    world = filled(library(tmp_path, ALL))

    [whole] = world.search("a chart of arrivals", floor=0.0, mode="keyword").passages
    [part] = world.search(
        "a chart of arrivals", floor=0.0, mode="keyword", granularity="excerpt"
    ).passages

    assert (part.chunk_type, part.text) == (ChunkKind.FIGURE, whole.text)


@proves("figures.text-only", "figures.deterministic-description")
def test_embedded_text_of_a_figure_is_deterministic(tmp_path: Path) -> None:
    sent = []
    for attempt in ("one", "two"):
        lib = library(tmp_path / attempt, ALL)
        filled(lib)
        sent.append([text for text in lib.embedder.documents if text.startswith("Figure ")])

    assert sent[0] == sent[1]
    assert len(sent[0]) == 2
    assert "Shows: Two blue boats" in sent[0][0]
    assert not any("PNG" in text or "GIF" in text for text in sent[0])


@proves("figures.relative-image-ref", "figures.images-behind-flag")
def test_images_are_files_in_the_assets_folder(tmp_path: Path) -> None:
    world = filled(library(tmp_path, FigureFlags(extract_images=True)))
    folder = tmp_path / "assets" / world.documents.get(1).doc_id

    assert (folder / "img_001.png").read_bytes() == PNG
    assert (folder / "img_002.gif").read_bytes() == GIF
    assert sorted(entry.name for entry in folder.iterdir()) == [
        ".world",
        "img_001.png",
        "img_002.gif",
    ]


@proves("figures.images-behind-flag")
def test_images_are_written_only_if_enabled(tmp_path: Path) -> None:
    filled(library(tmp_path, FigureFlags(placeholders=True, chunks=True)))

    assert not (tmp_path / "assets").exists()


@proves("figures.images-behind-flag")
def test_images_change_and_are_removed_with_their_document(tmp_path: Path) -> None:
    lib = library(tmp_path, ALL)
    world = filled(lib)
    folder = tmp_path / "assets" / world.documents.get(1).doc_id
    filled(lib, docx(paragraph("Only one ", drawing("rId1", "new")), media={"other.gif": GIF}))
    assert sorted(one.name for one in folder.iterdir()) == [".world", "img_001.gif"]

    world.documents.delete("1")

    assert not folder.exists()


@proves("figures.images-behind-flag")
def test_equal_document_id_in_another_world_affects_no_image(tmp_path: Path) -> None:
    lib = library(tmp_path, ALL)
    folder = tmp_path / "assets" / filled(lib).documents.get(1).doc_id
    other = lib.library.create_world("other")
    (lib.folder / "files" / "report.docx").write_bytes(
        docx(paragraph("Foreign ", drawing("rId1", "x")), media={"image1.png": GIF})
    )

    for _ in range(2):
        report = other.ingest(lib.folder / "files" / "report.docx")
        assert [one.code for one in report.failures] == ["assets_taken"]
        assert other.documents.list() == []

    assert (folder / "img_001.png").read_bytes() == PNG


@proves("figures.images-behind-flag")
def test_images_are_removed_once_disabled(tmp_path: Path) -> None:
    doc_id = filled(library(tmp_path, ALL)).documents.get(1).doc_id
    assert (tmp_path / "assets" / doc_id).exists()

    filled(library(tmp_path, FigureFlags(chunks=True)))

    assert not (tmp_path / "assets" / doc_id).exists()


@proves("figures.images-behind-flag")
def test_pending_images_are_published_by_the_next_run(tmp_path: Path) -> None:
    lib = library(tmp_path, ALL)
    world = filled(lib)
    document = world.documents.get(1)
    home = tmp_path / "assets" / document.doc_id
    # As if the run had ended after the document was flipped, and one image was moved.
    staged = home / f".staged-{assets_token(document.source_hash, document.recipe)}"
    staged.mkdir()
    (staged / ".names").write_text("img_001.png\nimg_002.gif")
    (home / "img_002.gif").rename(staged / "img_002.gif")
    (home / "img_009.png").write_bytes(b"of an earlier revision")

    assert world.ingest(lib.folder / "files" / "report.docx").unchanged == 1

    assert {entry.name for entry in home.iterdir()} == {".world", "img_001.png", "img_002.gif"}
    assert (home / "img_002.gif").read_bytes() == GIF


@proves("figures.summaries")
def test_both_summaries_are_emitted_with_their_counts(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "truespan")
    world = filled(library(tmp_path, ALL))
    doc_id = world.documents.get(1).doc_id
    expected = [
        f"{doc_id} DOCX_IMAGES_SUMMARY blips_found=2 rels_total=2 rels_mapped=2 "
        "zip_member_miss=0 images_written=2 image_emit_skip_reason=none",
        f"{doc_id} DOCX_FIGURE_CHUNKING_SUMMARY placeholders=2 figure_chunks=2 parent_links=2",
    ]

    assert lines(world) == expected
    assert [record.getMessage() for record in caplog.records] == expected


@proves("figures.diagnostic-counts")
@pytest.mark.parametrize(
    ("flags", "media", "relations", "expected"),
    [
        (ALL, {"image1.png": PNG}, None, "rels_mapped=1 zip_member_miss=0"),
        (ALL, {}, {"rId1": "image1.png"}, "rels_mapped=1 zip_member_miss=1"),
        (ALL, {"image1.png": PNG}, {"rId9": "image1.png"}, "rels_mapped=0 zip_member_miss=0"),
        (FigureFlags(), {}, {"rId1": "image1.png"}, "rels_mapped=1 zip_member_miss=1"),
        (FigureFlags(extract_images=True), {"image1.png": PNG}, None, "images_written=1"),
    ],
    ids=["whole", "member absent", "relation absent", "flags off", "images alone"],
)
def test_summary_counts_report_each_fault(
    tmp_path: Path,
    flags: FigureFlags,
    media: dict[str, bytes],
    relations: dict[str, str] | None,
    expected: str,
) -> None:
    content = docx(paragraph("Words and ", drawing("rId1", "x")), media=media, relations=relations)
    world = filled(library(tmp_path, flags), content)
    [summary] = [line for line in lines(world) if "DOCX_IMAGES_SUMMARY" in line]

    assert "blips_found=1" in summary
    assert expected in summary
    reason = "none" if flags.placeholders or flags.chunks else "flags_disabled"
    assert summary.endswith(f"image_emit_skip_reason={reason}")


@proves("figures.debug-adds-logs-only")
def test_debugging_only_adds_lines(tmp_path: Path) -> None:
    quiet = filled(library(tmp_path / "quiet", ALL))
    loud = filled(library(tmp_path / "loud", replace(ALL, debug=True)))

    def normal(world: World, line: str) -> str:
        return line.replace(world.documents.get(1).doc_id, "ID")

    added = [normal(loud, one) for one in lines(loud)]
    for line in lines(quiet):
        added.remove(normal(quiet, line))
    assert [line.split()[:3] for line in added] == [
        ["ID", "DOCX_IMAGE", "number=1"],
        ["ID", "DOCX_IMAGE", "number=2"],
    ]
    assert normal(loud, loud.documents.text("1")) == normal(quiet, quiet.documents.text("1"))


@proves("figures.flags-off-identical")
def test_disabled_pictures_leave_no_trace(tmp_path: Path) -> None:
    with_pictures = library(tmp_path / "a", FigureFlags())
    without = library(tmp_path / "b", FigureFlags())
    one, other = filled(with_pictures), filled(without, PLAIN)

    assert one.documents.text("1") == other.documents.text("1")
    assert with_pictures.embedder.documents == without.embedder.documents
    assert vectors(with_pictures, one) == vectors(without, other)


def vectors(lib: LibraryFixture, world: World) -> list[tuple[str | None, bytes]]:
    return sorted((point.text_hash or "", point.vector) for point in lib.points(world).values())


@proves("figures.out-of-context")
def test_figures_are_shown_to_people_and_not_to_models(tmp_path: Path) -> None:
    world = filled(library(tmp_path, ALL))

    result = world.search("Two blue boats", floor=0.0)
    bundle = world.retrieve("Two blue boats and a chart of arrivals")

    assert any(one.chunk_type is ChunkKind.FIGURE for one in result.passages)
    assert "Shows:" not in result.context
    assert "Shows:" not in bundle.context
    assert all("Shows:" not in chunk.content for chunk in bundle.retrieved_chunks)
    assert bundle.metadata.figures
    for note in bundle.metadata.figures:
        assert note.chunk_type is ChunkKind.FIGURE
        assert note.image_ref
        parent = world.documents.chunk(note.parent_chunk_id or "").chunk
        assert parent is not None
        assert note.parent_chunk_id == parent.chunk_id
        assert note.description.startswith("Figure ")


@proves("figures.scan-past-excluded")
def test_figures_do_not_displace_text(tmp_path: Path) -> None:
    pictures = [paragraph(drawing("rId1", f"lantern lantern {n}")) for n in range(8)]
    content = docx(*pictures, paragraph("A lantern stood on the pier."), media={"image1.png": PNG})
    world = filled(library(tmp_path, FigureFlags(chunks=True)), content)

    bundle = world.retrieve("lantern lantern", top_k=1)

    assert [chunk.content for chunk in bundle.retrieved_chunks] == ["A lantern stood on the pier."]
    assert len(bundle.metadata.figures) == 8
    assert bundle.status == "success"


@proves("figures.chunk-fields")
def test_damaged_figure_chunk_is_written_again(tmp_path: Path) -> None:
    lib = library(tmp_path, ALL)
    world = filled(lib)
    before = figures(world)
    lib.sql("UPDATE chunks SET text = 'forged', figure = NULL WHERE figure IS NOT NULL")
    assert figures(world) == []

    world.repair()

    after = figures(world)
    assert [one.text for one in after] == [one.text for one in before]
    assert [one.figure_id for one in after] == [one.figure_id for one in before]
    assert all(hash_text(one.text) == one.receipt.text_hash for one in after)


def told(lib: LibraryFixture, content: bytes, sid: int) -> object:
    """Return everything that a reader at a sentence can get, except times."""
    reader = filled(lib, content).reader("ann")
    reader.set_position("1", sentence=sid)
    bundles = [
        reader.retrieve("Two blue boats came in, chart of arrivals", mode=mode) for mode in Mode
    ]
    return [
        replace(bundle, metadata=replace(bundle.metadata, processing_time_ms=0))
        for bundle in bundles
    ]


@proves("reading.non-interference")
@pytest.mark.parametrize("flags", [ALL, FigureFlags(chunks=True)], ids=["all", "chunks"])
@pytest.mark.parametrize("sid", range(4))
def test_figures_reveal_no_unread_text(tmp_path: Path, flags: FigureFlags, sid: int):
    opening = (
        paragraph("The harbour was quiet. The boats were blue."),
        paragraph("Here the boats ", drawing("rId1", "Two blue boats"), " came in at dusk."),
    )
    endings = (
        (paragraph("Nobody waved. Nobody spoke."), paragraph("The end.")),
        (paragraph("Nobody waved. A shot rang."), paragraph(drawing("rId2", "Corpse"))),
        (paragraph("Nobody waved."), paragraph(drawing("rId2", "Corpse")), paragraph("A shot.")),
        (paragraph("Nobody waved."), paragraph(drawing("rId2", "Corpse"))),
    )
    media = {"image1.png": PNG, "image2.gif": GIF}
    lib = library(tmp_path, flags)

    answers = [told(lib, docx(*opening, *ending, media=media), sid) for ending in endings]

    assert all(answer == answers[0] for answer in answers)


@proves("reading.never-past-position")
def test_figure_is_shown_once_the_text_around_it_is_read(tmp_path: Path) -> None:
    reader = filled(library(tmp_path, ALL)).reader("ann")
    seen = []
    for sid in range(4):
        reader.set_position("1", sentence=sid)
        for mode in Mode:
            notes = reader.retrieve("Two blue boats chart", mode=mode).metadata.figures
            seen.append((sid, sorted(note.figure_id[-3:] for note in notes)))

    assert all(some == [] for sid, some in seen if sid == 0)
    assert all("002" not in some for sid, some in seen if sid < 3)


_DAMAGES = {
    "number": "number + 100",
    "start": "0",
    "figure_id": "'other'",
    "image_ref": "'other'",
    "description": "'other'",
    "mark": "'{}'",
    "checksum": "x'00'",
}
_FLAGS = [FigureFlags(extract_images=True), FigureFlags(placeholders=True), ALL]


@proves("reading.non-interference")
@pytest.mark.parametrize("flags", _FLAGS, ids=["images", "placeholders", "all"])
def test_damaged_figure_ahead_changes_no_page_of_a_reader(tmp_path: Path, flags: FigureFlags):
    lib = library(tmp_path, flags)
    _, reader = picture_book(lib)
    before = to_json(reader.sentences())
    assert before.count("fig-00") >= 2
    image = lib.sql("SELECT image_ref FROM figures WHERE number = 4")[0][0]
    for column, value in _DAMAGES.items():
        rows = lib.sql("SELECT * FROM figures ORDER BY revision, number")
        lib.sql(f"UPDATE figures SET {column} = {value} WHERE number > 2")

        assert to_json(reader.sentences()) == before, column
        if image:
            with raises_code("image_not_found"):
                reader.image(image)
        restore(lib, rows)


@proves("reading.non-interference")
@pytest.mark.parametrize("flags", _FLAGS, ids=["images", "placeholders", "all"])
def test_damaged_figure_that_was_read_is_an_error(tmp_path: Path, flags: FigureFlags):
    lib = library(tmp_path, flags)
    _, reader = picture_book(lib)
    for column in ("image_ref", "description", "mark", "checksum"):
        rows = lib.sql("SELECT * FROM figures ORDER BY revision, number")
        lib.sql(f"UPDATE figures SET {column} = {_DAMAGES[column]} WHERE number = 1")

        with pytest.raises(StoreDamaged, match="A figure of document 1"):
            reader.sentences()
        restore(lib, rows)


def picture_book(lib: LibraryFixture) -> tuple[World, Reader]:
    """Return a world with a book of four chapters with pictures, and a reader of two chapters."""
    parts = []
    for number in range(1, 5):
        parts += [
            paragraph(f"The lamp of night {number} burned. Nobody saw it."),
            paragraph(drawing(f"rId{number}", f"The lamp of night {number}")),
            paragraph(f"On morning {number} it was out. The oil was gone."),
        ]
    media = {f"image{number}.png": PNG for number in range(1, 5)}
    path = lib.folder / "files" / "book.docx"
    path.parent.mkdir(exist_ok=True, parents=True)
    path.write_bytes(docx(*parts, media=media))
    world = lib.library.create_world("world")
    assert world.ingest(path, kind="book", chunking="sentences").failures == []
    reader = world.reader("ann")
    reader.set_position("book.docx", passage="On morning 2 it was out.")
    return world, reader


def restore(lib: LibraryFixture, rows: list) -> None:
    """Write the rows of figures again as they were."""
    lib.sql("DELETE FROM figures")
    for row in rows:
        lib.sql(f"INSERT INTO figures VALUES ({', '.join('?' * len(row))})", *row)

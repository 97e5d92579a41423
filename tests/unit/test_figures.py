"""Figures: descriptions and the sentences they depend on."""

from tests.promises import proves
from tests.support.failures import raises_code
from tests.support.worlds import DirectParser, WordCounter
from truespan.ingest.canonical import assemble
from truespan.ingest.chunking import MeasuredText, chunk_spans
from truespan.ingest.draft import Preparation, make_chunks, make_draft
from truespan.ingest.figures import describe_figures, figure_chunks
from truespan.text.sentences import split_sentences
from truespan.types.chunk import (
    ChunkKind,
    FigureFlags,
    FigureRecord,
    NewChunk,
    figure_id_of,
    marker,
)
from truespan.types.document import Draft
from truespan.types.profile import SENTENCES, ChunkingProfile
from truespan.types.source import Source
from truespan.types.text import Block, BlockKind, Figure, Image, Loaded, PlacedFigure

COUNTER = WordCounter()


def text(words: str, kind: BlockKind = BlockKind.PARAGRAPH, chapter: str | None = None) -> Block:
    return Block(kind, words, chapter)


def figure(alt: str = "", image: int | None = None, chapter: str | None = None) -> Block:
    placed = PlacedFigure(0, Figure(alt=alt, image=image))
    return Block(BlockKind.PARAGRAPH, "", chapter, figures=(placed,))


def described(
    *blocks: Block,
    placeholders: bool = False,
    images: tuple[Image, ...] = (),
    profile: ChunkingProfile = SENTENCES,
    limit: int = 400,
) -> tuple[tuple[FigureRecord, ...], tuple[NewChunk, ...]]:
    show = (lambda number: marker(figure_id_of("doc", number))) if placeholders else None
    canonical = assemble(blocks, show)
    sentences = split_sentences(canonical)
    measured = MeasuredText(canonical, sentences, COUNTER.measure(canonical.text))
    chunks = make_chunks(measured, chunk_spans(measured, profile, limit))
    records = describe_figures(
        "doc", measured, chunks, images, lambda words: COUNTER.count(words) <= limit
    )
    return records, figure_chunks(records, canonical, COUNTER, len(chunks))


CAPTION = BlockKind.CAPTION


@proves("figures.deterministic-description")
def test_description_has_caption_alt_text_heading_sentence() -> None:
    story = (
        text("The harbour", BlockKind.HEADING, "The harbour"),
        text("Boats came in. They were blue.", chapter="The harbour"),
        figure("Two blue boats", chapter="The harbour"),
        text("Boats at dusk", CAPTION, "The harbour"),
        text("Then night fell.", chapter="The harbour"),
    )
    [record], [chunk] = described(*story)

    assert record.description == (
        "Figure 1.\nBoats at dusk\nShows: Two blue boats\nIn: The harbour\nAfter: They were blue."
    )
    assert chunk.text == record.description
    assert described(*story)[0][0] == record


def test_text_at_a_figure_offset_comes_after_it() -> None:
    inline = Block(
        BlockKind.PARAGRAPH,
        "Nobody waved. The lamp was lit.",
        figures=(PlacedFigure(14, Figure()),),
    )
    for placeholders in (False, True):
        [record], _ = described(inline, text("More."), placeholders=placeholders)
        assert record.description == "Figure 1.\nAfter: Nobody waved."


def test_figure_uses_the_caption_above_once() -> None:
    records, _ = described(
        text("Start here."), figure(), text("First", CAPTION), figure(), text("Go on."),
        text("Third", CAPTION), figure(), text("End here."),
    )  # fmt: skip
    assert ["\nFirst" in one.description for one in records] == [True, False, False]
    assert ["\nThird" in one.description for one in records] == [False, False, True]


def test_figure_reaches_past_its_description_and_the_end() -> None:
    [captioned], _ = described(
        text("One. Two."), figure(), text("Three. Four.", CAPTION), text("Five.")
    )
    [plain], _ = described(text("One. Two."), figure(), text("Three."))
    assert (captioned.first_sid, captioned.last_sid, captioned.reach) == (1, 3, 5)
    # What follows was looked at to see that it is no caption, so it had a say.
    assert (plain.first_sid, plain.last_sid) == (1, 1)
    assert plain.reach >= 2

    [record], _ = described(text("One. Two."), figure("late"))
    assert record.last_sid == 1
    assert record.reach == 2


def test_figure_is_hidden_before_its_chunk_is_read() -> None:
    profile = SENTENCES
    sentences = " ".join(f"Sentence number {place}." for place in range(20))
    story = (text(sentences), figure(), text("After it. And more. And more. And more."))
    [record], _ = described(*story, profile=profile)
    assert record.parent is not None
    assert record.reach >= record.last_sid
    assert record.parent.first_sid <= record.first_sid <= record.parent.last_sid


@proves("figures.relative-image-ref")
def test_images_have_references_of_document_and_number() -> None:
    images = (Image("png", b"1"), Image("jpeg", b"2"))
    records, chunks = described(
        text("One."), figure(image=1), figure(image=0), figure(image=1), figure(), images=images
    )
    references = ["doc/img_002.jpeg", "doc/img_001.png", "doc/img_002.jpeg", None]
    assert [one.image_ref for one in records] == references
    assert [one.figure.image_ref for one in chunks if one.figure] == references
    assert [one.figure_id for one in records] == [f"doc-fig-{n:03d}" for n in (1, 2, 3, 4)]


def test_figure_chunks_follow_the_text_chunks_and_cover_no_text() -> None:
    records, chunks = described(text("One. Two. Three."), figure("a"), text("Four."), figure("b"))
    assert [chunk.kind for chunk in chunks] == [ChunkKind.FIGURE] * 2
    assert [chunk.index for chunk in chunks] == [1, 2]
    assert all(
        chunk.start == chunk.end == record.offset
        for chunk, record in zip(chunks, records, strict=True)
    )
    assert all(chunk.tokens == COUNTER.count(chunk.text) for chunk in chunks)


def test_description_is_short_and_has_no_figure_marker() -> None:
    inline = Block(
        BlockKind.PARAGRAPH, "See here now.", figures=(PlacedFigure(8, Figure(alt="x")),)
    )
    [record], _ = described(inline, text("More."), placeholders=True)
    assert "After: See here now." in record.description
    assert "[FIGURE" not in record.description

    [record], [chunk] = described(
        text("word " * 30 + "end."), figure("alt " * 300), text("cap " * 300, CAPTION), limit=40
    )
    assert COUNTER.count(record.description) <= 40
    assert chunk.text.startswith("Figure 1.\ncap cap")


def test_figure_without_bytes_is_logged() -> None:
    blocks = (text("Boats came in."), *(figure("a boat", place) for place in (None, 0, 7, -1)))
    source = Source(doc_id="doc", name="a.docx", path="a.docx", size=1)
    for images in ((), (Image("png", b"x"),)):
        draft = make_draft(
            source, Loaded(blocks, images=images),
            preparation=Preparation(FigureFlags(chunks=True, debug=True)), source_hash="0",
            recipe="0", parser=DirectParser(), counter=COUNTER, input_limit=400,
        )  # fmt: skip

        told = [note.split()[1:5] for note in draft.notes if note.startswith("DOCX_IMAGE ")]
        stored = len(images)
        assert [line[2] for line in told] == ["bytes=0", f"bytes={stored}", "bytes=0", "bytes=0"]
        assert [line[3] == "image_ref=-" for line in told] == [True, not images, True, True]
        assert len(draft.figures) == 4


def test_alt_texts_are_the_text_of_a_picture_file() -> None:
    source = Source(doc_id="doc", name="a.docx", path="a.docx", size=1)

    def draft(flags: FigureFlags, *alts: str) -> Draft:
        return make_draft(
            source, Loaded(tuple(figure(alt) for alt in alts)), preparation=Preparation(flags),
            source_hash="0", recipe="0", parser=DirectParser(), counter=COUNTER, input_limit=400,
        )  # fmt: skip

    made = draft(FigureFlags(chunks=True), "A brass lamp", "", "A red boat")
    assert made.canonical.text == "A brass lamp\n\nA red boat"
    described = [chunk.text for chunk in made.chunks if chunk.figure]
    assert [("boat" in text, "lamp" in text) for text in described] == [
        (False, True), (False, True), (True, False),
    ]  # fmt: skip
    for flags, alts in (
        (FigureFlags(chunks=True), ("", "\u200b")),
        (FigureFlags(extract_images=True, placeholders=True), ("A brass lamp",)),
    ):
        with raises_code("source_empty"):
            draft(flags, *alts)

"""Tables in chunks: rows stay whole, and so does each part that fits a chunk."""

import hashlib
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.laws.test_chunkers import every_standard_cut
from tests.laws.texts import LIMITS, PROFILES, Document, documents, often, sometimes
from tests.promises import proves
from tests.support.rows import each_row
from truespan.ingest.canonical import assemble
from truespan.text.sentences import split_sentences
from truespan.types.profile import SENTENCES, TOKENS, WINDOW, ChunkingProfile, OverlapMode, Strategy
from truespan.types.text import Block, BlockKind, Span

# Of 256 tokens some parts have more.
WIDE = replace(TOKENS, size=400)
STANDARD = [replace(profile, whole_rows=True) for profile in (WINDOW, SENTENCES, WIDE)]
PACKED = ChunkingProfile("packed", Strategy.SENTENCES, 8, 2, pack=1200, whole_rows=True)
APART = [replace(profile, overlap_mode=OverlapMode.SEPARATE) for profile in STANDARD]
ALL = [*STANDARD, PACKED, *APART]
LIMIT = 510
PROSE = [
    f"Paragraph {number} tells of it. " + "It goes on and on in the same way. " * number
    for number in range(9)
]


def table(rows: int, width: int = 3, header: str = "Meal | Limit | Remark") -> Block:
    cells = " and more" * width
    lines = [
        f"Meal {place} of {rows} | {place} EUR{cells} | None. At all." for place in range(rows)
    ]
    return Block(BlockKind.TABLE, "\n".join([header, *lines]), header_rows=1)


def book(*blocks: Block | str) -> Document:
    whole = [
        Block(BlockKind.PARAGRAPH, block) if isinstance(block, str) else block for block in blocks
    ]
    canonical = assemble(whole, divide_tables=True)
    return Document(canonical, tuple(split_sentences(canonical)))


def parts_of(text: str) -> list[tuple[int, int]]:
    """Return the bounds of the paragraphs of a text that are tables."""
    edges = [-2, *(at for at in range(len(text)) if text.startswith("\n\n", at)), len(text)]
    bounds = [(start + 2, end) for start, end in pairwise(edges)]
    return [(start, end) for start, end in bounds if " | " in text[start:end]]


def assert_rows_are_whole(doc: Document, spans: list[Span]) -> None:
    text = doc.text
    for start, end in parts_of(text):
        for span in spans:
            assert not start < span.start < end, text[span.start : span.start + 50]
            assert not start < span.context_start < end
            assert not start < span.end < end, text[span.start : span.end]


@given(
    st.lists(
        st.one_of(st.sampled_from(PROSE), st.builds(table, st.integers(1, 40), st.integers(0, 6))),
        min_size=1,
        max_size=8,
    ),
    st.sampled_from(ALL),
)
# The chunk depends on the text up to the letter after its end.
@example([PROSE[5], PROSE[8], table(13, 0)], STANDARD[2])
@proves("chunking.whole-tables")
@sometimes
def test_no_chunk_begins_or_ends_within_a_table_that_fits(blocks, profile: ChunkingProfile):
    doc = book(*blocks)

    assert_rows_are_whole(doc, doc.chunk_spans(profile, LIMIT))


@proves("chunking.whole-tables")
@each_row("profile", ALL)
def test_table_larger_than_a_chunk_is_divided_between_rows(profile: ChunkingProfile):
    rows = [f"Meal {number} | {number} EUR | none" for number in range(200)]
    doc = book(PROSE[3], PROSE[4])
    text = f"{doc.text}\n\n" + "\n".join(rows) + f"\n\n{doc.text}"
    doc = book(*text.split("\n\n"))
    start, end = parts_of(text)[0]
    edges = {start, end, *(at for at in range(start, end + 1) if text[at - 1] == "\n")}
    edges |= {edge - 1 for edge in edges}

    spans = doc.chunk_spans(profile, 120)
    spans = [span for span in spans if start < span.end and span.start < end]

    assert len(spans) > 3
    assert all(span.start in edges for span in spans if start <= span.start)
    assert all(span.end in edges for span in spans if span.end <= end)
    inner = [span for span in spans if start <= span.start and span.end <= end]
    assert all(one.end <= two.start for one, two in pairwise(inner))


def test_caption_is_repeated_before_its_table():
    doc = book(PROSE[8] * 2, "Table 2: Limits for meals.", table(6, 2), PROSE[3])

    for profile in STANDARD:
        spans = doc.chunk_spans(profile, LIMIT)
        holding = next(span for span in spans if "Meal 0 of" in doc.text[span.start : span.end])
        assert "Table 2: Limits" in doc.text[holding.start : holding.end], profile.name


@often
@given(documents(), PROFILES, LIMITS)
def test_text_without_bars_is_chunked_as_if_there_were_no_tables(
    doc: Document, profile: ChunkingProfile, limit: int
):
    if "|" in doc.text or doc.canonical.pages:
        return
    usual = doc.chunk_spans(replace(profile, whole_rows=False), limit)

    assert doc.chunk_spans(replace(profile, whole_rows=True), limit) == usual


def test_prose_is_chunked_without_regard_to_tables():
    spans = repr([tuple(span) for span in every_standard_cut()])

    assert hashlib.sha256(spans.encode()).hexdigest() == (
        "aa3de591015230a61fa27d1e5178e9c79ad824c1cc67e1dc8a3f81905fa4330b"
    )

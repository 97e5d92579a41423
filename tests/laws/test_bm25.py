"""BM25 from the store equals the formula, written out over the chunks in scope and nothing else."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import log
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from tests.laws.examples import examples
from tests.support.worlds import LibraryFixture, make_library
from truespan.engine.world import World
from truespan.retrieval.candidates import word_scores
from truespan.retrieval.chunk_language import find_language
from truespan.types.document import RevisionRef
from truespan.types.ids import ChunkId

LEXICON = ("run", "running", "harbour", "otter", "oar", "die", "Haus", "Häuser")
"""Words of which none is spelt like another, or is a part of one: recommended worlds would join
words that no chunk has with these."""
STEMS = {"en": {"running": "run"}, "de": {"häuser": "haus"}}
"""What the stemmers of the two languages make of these words, where it is another word."""

TEXTS = st.lists(st.sampled_from(LEXICON), min_size=1, max_size=30)
DOCUMENTS = st.lists(st.tuples(TEXTS, st.sampled_from(("en", "de"))), min_size=1, max_size=7)


def stem(word: str, language: str) -> str:
    folded = word.casefold()
    return STEMS[language].get(folded, folded)


def reference(
    query: Sequence[str], chunks: Mapping[ChunkId, tuple[Sequence[str], str]]
) -> dict[ChunkId, float]:
    """Return the score of each chunk that has a word of the query.

    "die" is a German stop word: German chunks are scored by it only if no chunk has another word.
    """
    content = score_each(query, chunks, stops={("die", "de")})
    return content or score_each(query, chunks, stops=set())


def score_each(
    query: Sequence[str],
    chunks: Mapping[ChunkId, tuple[Sequence[str], str]],
    stops: Collection[tuple[str, str]],
) -> dict[ChunkId, float]:
    mean = sum(len(text) for text, _ in chunks.values()) / len(chunks)
    scores: dict[ChunkId, float] = {}
    for word in query:
        counts = {
            id: [stem(one, language) for one in text].count(stem(word, language))
            for id, (text, language) in chunks.items()
            if (word, language) not in stops
        }
        df = sum(count > 0 for count in counts.values())
        idf = log(1 + (len(chunks) - df + 0.5) / (df + 0.5))
        for id, count in counts.items():
            if count:
                length = len(chunks[id][0])
                gain = count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length / mean))
                scores[id] = scores.get(id, 0.0) + idf * gain
    return scores


def filled(lib: LibraryFixture, documents: Sequence[tuple[Sequence[str], str]]) -> World:
    world = lib.library.create_world("world")
    for number, (text, language) in enumerate(documents):
        world.ingest(lib.write(f"{number}.txt", " ".join(text)), language=language)
    return world


@examples(20)
@given(DOCUMENTS, TEXTS, st.sets(st.integers(1, 7), min_size=1))
def test_bm25_equals_the_formula_over_the_chunks_in_scope(
    documents: list[tuple[list[str], str]], query: list[str], wanted: set[int]
) -> None:
    with TemporaryDirectory() as folder:
        lib = make_library(Path(folder))
        world = filled(lib, documents)
        record, whole = world.access.record(), lib.scope(world)
        for scope in (whole, whole.narrow(documents=wanted)):
            numbers = range(1, len(documents) + 1) if scope is whole else sorted(wanted)
            ids = {
                number: lib.store.documents.chunk_ids(scope, _ref(world, number))[0]
                for number in numbers
                if number <= len(documents)
            }
            chunks = {id: spoken(*documents[number - 1]) for number, id in ids.items()}
            expected = reference(query, chunks) if chunks else {}

            found = word_scores(lib.store, scope, record, " ".join(query))

            for number, id in ids.items():
                place = found.finder.layout.place(number, 1, 0)
                score = 0.0 if place is None else found.scores.of(place)
                assert abs(score - expected.get(id, 0.0)) < 1e-9
            assert set(found.top(100, 6)) == set(expected)
            assert abs(found.scores.best - max(expected.values(), default=0.0)) < 1e-9
        lib.library.close()


def spoken(text: list[str], language: str) -> tuple[list[str], str]:
    """Return the text of a document with its language; enough German words make it German."""
    return text, find_language(" ".join(text), language)


def _ref(world: World, number: int) -> RevisionRef:
    return RevisionRef(number, world.documents.get(number).active or 0)

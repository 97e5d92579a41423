"""Objects that threads share give each thread the same bytes; see CONTRIBUTING.md."""

import random
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from tests.promises import proves
from tests.support import worlds
from tests.support.sample_texts import story
from truespan.extensions.checks.sanitize.findings import Mode
from truespan.extensions.checks.sanitize.sanitizer import Sanitizer, sanitize_document
from truespan.extensions.server.http.openapi import make_document
from truespan.extensions.server.http.routes import OPERATIONS
from truespan.parsing.sandbox.client import ChildParser
from truespan.providers.local import LocalEmbedder, LocalModel
from truespan.providers.token_counter import WordPieceCounter
from truespan.retrieval.reading.pages import find_passage
from truespan.text.language import detect_language
from truespan.text.sentences import split_sentences
from truespan.types.text import Block, BlockKind, CanonicalText, Loaded
from truespan.wire.serialize import STATUS
from truespan.wiring import open_library
from truespan.words.terms import terms

THREADS, ROUNDS = 8, 3
LANGUAGES = ("en", "de", "fr", "ru", "es", "fi", "tr", "xx")
LINES = [line for line in story(60).split("\n") if line][:24]
FOREIGN = (
    "Der Leuchtturmwärter zählte die Schiffe, die nachts vorüberzogen, und schrieb sie auf.",
    "Le gardien comptait les navires qui passaient dans la nuit et les notait toujours.",
    "Смотритель маяка считал корабли, которые проходили ночью, и записывал их имена.",
    "灯台守は夜に通る船を数えて、その名前を書きとめた。彼は眠らなかった。",
    "Call +49 30 901820 or 030/901820, write to ann@example.org, IBAN DE89370400440532013000.",
)
TEXTS = (*LINES, *FOREIGN)

Work = Callable[[int], object]
"""What a thread does with the number of a text."""


@pytest.fixture(autouse=True)
def constant_switching() -> Iterator[None]:
    """Let threads switch as often as the interpreter can."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def assert_alike(make: Callable[[], Work]) -> None:
    """Do the same work on one thread, and on many threads with an unused object."""
    alone = make()
    expected = [msgspec.msgpack.encode(repr(alone(place))) for place in range(len(TEXTS))]
    shared, start = make(), threading.Barrier(THREADS)
    wrong: list[tuple[int, object]] = []

    def run(number: int) -> None:
        order = list(range(len(TEXTS))) * ROUNDS
        random.Random(number).shuffle(order)
        start.wait(60)
        for place in order:
            try:
                found: object = msgspec.msgpack.encode(repr(shared(place)))
            except Exception as error:
                found = error
            if found != expected[place]:
                wrong.append((place, found))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert wrong == []


def local_model() -> LocalModel:
    return LocalModel()


@proves("threads.shared-state")
def test_stemmers() -> None:
    from truespan.words.terms import stem_function

    def make() -> Work:
        stem_function.cache_clear()
        return lambda place: [terms(TEXTS[place], language) for language in LANGUAGES]

    assert_alike(make)


@proves("threads.shared-state")
def test_trigrams_of_vocabularies() -> None:
    from truespan.types.document import Vocabulary
    from truespan.words.english import related_terms
    from truespan.words.spelling import index_vocabulary

    found = [Vocabulary(tuple(sorted(set(terms(text, "en"))))) for text in TEXTS]

    def make() -> Work:
        # More vocabularies than are cached.
        index_vocabulary.cache_clear()
        return lambda place: [
            (index_vocabulary(found[place]).similar_terms(word), related_terms(word, "english"))
            for word in terms(TEXTS[place - 1], "en")
        ]

    assert_alike(make)


@proves("threads.shared-state")
def test_the_decoders_of_strict_json() -> None:
    from truespan.core.strict_json import DuplicateKey, parse_json, require_unique_keys

    def read(place: int) -> object:
        value = [{"text": TEXTS[place], f"key {n % 7}": n, "inner": {"text": n}} for n in range(20)]
        text = msgspec.json.encode(value)
        try:
            require_unique_keys(text.replace(b'"inner"', b'"text"') if place % 2 else text)
        except DuplicateKey as error:
            return parse_json(text), str(error)
        return parse_json(text)

    assert_alike(lambda: read)


@proves("threads.shared-state")
def test_the_language_detector_and_the_segmenter() -> None:
    def make() -> Work:
        return lambda place: (
            detect_language(TEXTS[place]),
            split_sentences(CanonicalText(" ".join(TEXTS[place:])), LANGUAGES[place % 8]),
        )

    assert_alike(make)


@proves("threads.shared-state")
def test_the_token_counter_and_its_tokenizer() -> None:
    def make() -> Work:
        counter = WordPieceCounter(local_model())
        # So little is remembered that its memory starts afresh all the time.
        counter._room = 50

        def count(place: int) -> object:
            measured = counter.measure(" ".join(TEXTS[place : place + 3]))
            return counter.count(TEXTS[place]), measured.starts, measured.totals

        return count

    assert_alike(make)


@proves("threads.shared-state")
def test_the_local_network() -> None:
    def make() -> Work:
        embedder = LocalEmbedder(local_model(), threads=2)
        # Of few texts only: each takes milliseconds.
        return lambda place: (
            embedder.embed_documents([TEXTS[place][:40]]) if place % 8 == 0 else embedder.profile
        )

    assert_alike(make)


@proves("threads.shared-state")
def test_the_sanitizer() -> None:
    def make() -> Work:
        sanitizer = Sanitizer(mode=Mode.ON)

        def sanitize(place: int) -> object:
            loaded = Loaded((Block(BlockKind.PARAGRAPH, TEXTS[-1] + TEXTS[place]),))
            return sanitize_document(loaded, sanitizer)

        return sanitize

    assert_alike(make)


@proves("threads.shared-state")
def test_child_parsers() -> None:
    parsers: list[ChildParser] = []

    def make() -> Work:
        parser = ChildParser()
        parsers.append(parser)

        def parse(place: int) -> object:
            if place % 4:
                return None
            loaded = parser.parse("a.md", TEXTS[place].encode())
            return loaded, parser.split("a.md", CanonicalText(TEXTS[place]), "en")

        return parse

    assert_alike(make)
    for parser in parsers:
        parser.close()


@proves("threads.shared-state")
def test_interface_documents_and_passages() -> None:
    def make() -> Work:
        make_document.cache_clear()
        text = "\n".join(TEXTS)
        return lambda place: (
            msgspec.json.encode(make_document(OPERATIONS, needs_token=bool(place % 2)))
            if place % 8 == 0
            else (list(find_passage(TEXTS[place], text)), sorted(map(str, STATUS)))
        )

    assert_alike(make)


@proves("threads.shared-state")
def test_library_with_its_store_index_and_caches(tmp_path: Path) -> None:
    files = {f"{number}__txt": text for number, text in enumerate(TEXTS)}
    lib = worlds.make_library(tmp_path)
    world = lib.world(**files)
    for place in range(len(TEXTS)):
        world.reader(f"of {place}").set_position(str(place + 1), sentence=0)

    def make() -> Work:
        # Catalogues and layouts that were read before are read again.
        lib.store.catalogs._document_catalogs.clear()
        lib.store.catalogs._clear_words()

        def ask(place: int) -> object:
            words = TEXTS[place][:60]
            found = world.search(words, top_k=3, mode="hybrid" if place % 2 == 0 else None)
            bundle = world.retrieve(query=words)
            read = world.reader(f"of {place}").retrieve(words, mode="hybrid")
            return (
                [(note.chunk_id, note.fused) for note in read.metadata.sources],
                [(hit.chunk_id, hit.score, hit.fused, hit.text) for hit in found.passages],
                bundle.context,
                [document.name for document in world.documents.list()],
                world.documents.text(place + 1),
            )

        return ask

    assert_alike(make)


@proves("threads.shared-state")
def test_the_index_process(tmp_path: Path) -> None:
    with open_library(tmp_path / "library", create=True) as library:
        world = library.create_world("world")
        (tmp_path / "a.md").write_text(
            "\n\n".join(f"# {n}\n\n{t}" for n, t in enumerate(TEXTS[:6]))
        )
        world.ingest([str(tmp_path / "a.md")])

        def make() -> Work:
            return lambda place: (
                [(hit.chunk_id, hit.score) for hit in world.search(TEXTS[place % 6][:30]).passages]
                if place % 6 == 0
                else None
            )

        assert_alike(make)

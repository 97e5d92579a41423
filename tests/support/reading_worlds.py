"""A book with readers at many positions, and changes that none of them may notice.

One trial is one book. Readers ask from many positions; then hidden text is replaced, left half
replaced, or joined by other worlds and documents, and they ask again. What they get must be the
same, byte for byte. On the way every answer is held against the canaries, the budget and the chunks
that cutting the read part from scratch would give.
"""

import json
import socket
from base64 import b64decode
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from tests.support.crash_process import Countdown, Mortal
from tests.support.sample_books import FORMS, Writer, canaries, joined
from tests.support.worlds import (
    LibraryFixture,
    WordCounter,
    WordEmbedder,
    make_library,
    other_profile,
)
from truespan.core.clock import SystemProcesses
from truespan.engine.library import Library
from truespan.engine.reader import Reader
from truespan.engine.world import World
from truespan.ingest.chunking import MeasuredText, chunk_spans
from truespan.ingest.draft import Preparation, make_chunks
from truespan.protocols import Embedder, TokenCounter
from truespan.text.tables import added_tokens
from truespan.types.bundle import ContextBundle
from truespan.types.chunk import NewChunk
from truespan.types.document import RevisionRef
from truespan.types.profile import STANDARD_CHUNKING, ChunkingProfile
from truespan.types.reading import TailChunk
from truespan.types.request import MAX_CONTEXT_TOKENS, Defaults, Mode
from truespan.types.text import CanonicalText, Sentence
from truespan.types.text import Place as Label
from truespan.wire.serialize import to_json

if TYPE_CHECKING:
    from truespan.extensions.proof.types import SignedReceipt

CHUNKINGS = tuple(STANDARD_CHUNKING)


def frozen(bundle: ContextBundle) -> str:
    """Return a response as serialized bytes, without its time."""
    return to_json(replace(bundle, metadata=replace(bundle.metadata, processing_time_ms=0)))


def payload_of(receipt: "SignedReceipt") -> str:
    """Return the claims of a receipt, and its texts.

    Its time is left out, and so is the question: the words of a reader may be those of unread text.
    """
    statement = json.loads(b64decode(receipt.envelope.payload))
    del statement["predicate"]["time"], statement["predicate"]["question"]
    return json.dumps([statement, receipt.texts], ensure_ascii=False)


class Stopped(BaseException):
    """An interrupted run; nothing in the engine catches this exception."""


class Stop(Countdown):
    """Ends a run before its n-th durable step, as a kill would, and leaves the process alive."""

    def tick(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise Stopped


class KilledProcess(SystemProcesses):
    """The process of a run that was ended, which is not alive: its number is too high."""

    def own(self) -> str:
        return f"{socket.gethostname()}/{2**30}:0"


def stopped_at(lib: LibraryFixture, step: int) -> Library:
    """Return the same library, whose next run ends before its n-th durable step."""
    countdown, parts = Stop(step), lib.library._components
    store: Any = Mortal(parts.store, countdown)
    index: Any = Mortal(parts.index, countdown)
    return Library(replace(parts, store=store, index=index, processes=KilledProcess()))


# What the store holds of a book


@dataclass(frozen=True)
class Stored:
    """The visible revision of a document, as read from the store."""

    ref: RevisionRef
    canonical: CanonicalText
    sentences: tuple[Sentence, ...]

    @property
    def texts(self) -> list[str]:
        return [self.canonical.text[one.start : one.end] for one in self.sentences]

    def until(self, position: int) -> CanonicalText:
        """Return the text up to the end of a sentence, with the places that begin in it."""
        end = self.sentences[position].end
        pairs = zip(self.canonical.starts, self.canonical.places, strict=True)
        kept = [(start, label) for start, label in pairs if start < end]
        return CanonicalText(
            self.canonical.text[:end],
            tuple(start for start, _ in kept),
            tuple(label for _, label in kept),
        )


def stored(lib: LibraryFixture, world: World, number: int) -> Stored:
    """Read the visible revision of a document."""
    key, revision, text = lib.sql(
        """SELECT r.key, r.number, t.text FROM revisions r JOIN documents d ON d.key = r.document
           JOIN texts t ON t.revision = r.key
           JOIN worlds w ON w.world_id = d.world_id
           WHERE r.state = 'active' AND d.number = ? AND w.id = ?""",
        number,
        world.id,
    )[0]
    sentences = lib.sql(
        "SELECT sid, start, finish FROM sentences WHERE revision = ? ORDER BY sid", key
    )
    places = lib.sql(
        "SELECT start, chapter, section FROM places WHERE revision = ? ORDER BY start", key
    )
    starts, labels = [row[0] for row in places], [Label(*row[1:]) for row in places]
    canonical = CanonicalText(text, tuple(starts), tuple(labels))
    return Stored(RevisionRef(number, revision), canonical, tuple(Sentence(*s) for s in sentences))


def common(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the last sentence up to which two books are equal; -1 when they begin differently."""
    for sid, (left, right) in enumerate(zip(one, other, strict=False)):
        if left != right:
            return sid - 1
    return min(len(one), len(other)) - 1


Cut = tuple[int, int, int, int, int, str, int, str | None, str | None, int | None, str | None]
"""Index, start, end, first and last sid, text, tokens, chapter, section, page and location."""


def chunking_in(defaults: Defaults, name: str) -> ChunkingProfile:
    """Return a standard chunking profile as a world with these defaults uses it."""
    return Preparation().for_world(defaults).chunking_named(name)


def cut_from_scratch(
    book: Stored, position: int, profile: ChunkingProfile, counter: TokenCounter, limit: int
) -> list[Cut]:
    """Cut the read part as a separate document, without the text after it."""
    canonical, sentences = book.until(position), book.sentences[: position + 1]
    measured = MeasuredText(canonical, sentences, counter.measure(canonical.text))
    spans = chunk_spans(measured, profile, limit)
    return [as_cut(chunk) for chunk in make_chunks(measured, spans)]


def whole_chunks(lib: LibraryFixture, world: World, ref: RevisionRef, position: int) -> list[Cut]:
    """Return the stored chunks that nothing past a position decided."""
    rows = lib.sql(
        """SELECT s.position, s.start, s.finish, s.first_sid, s.last_sid, c.text, s.tokens,
             c.chapter, c.section, c.page, c.location
           FROM states s JOIN chunks c USING (revision, generation, position)
           JOIN revisions r ON r.key = s.revision JOIN documents d ON d.key = r.document
           JOIN worlds w ON w.world_id = d.world_id
           WHERE w.id = ? AND d.number = ? AND r.number = ? AND s.reach <= ? ORDER BY 1""",
        world.id,
        ref.document,
        ref.revision,
        position,
    )
    return [tuple(row) for row in rows]  # type: ignore[misc]


def as_cut(chunk: TailChunk | NewChunk) -> Cut:
    place = (chunk.index, chunk.start, chunk.end, chunk.first_sid, chunk.last_sid)
    names = (chunk.chapter, chunk.section, chunk.page, chunk.location)
    return (*place, chunk.text, chunk.tokens, *names)


# One trial


@dataclass
class Counts:
    """What a trial did."""

    comparisons: int = 0
    positions: int = 0
    tails: int = 0
    bundles: int = 0
    findings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Question:
    query: str
    top_k: int


class Trial:
    """One book under one seed; `run` returns the counts and findings."""

    def __init__(
        self,
        folder: Path,
        seed: int,
        *,
        form: str | None = None,
        chunking: str | None = None,
        embedder: Embedder | None = None,
    ) -> None:
        self.seed = seed
        self.rng = Random(seed)
        self.form = form or self.rng.choice(FORMS)
        self.chunking = chunking or self.rng.choice(CHUNKINGS)
        self.limit = self.rng.choice([60, 400])
        # In few dimensions many chunks are equally close, and ties show what is not settled.
        dimensions = self.rng.choice([3, 16, 64])
        profile = other_profile(dimensions=dimensions, input_limit=self.limit)
        if embedder is not None:
            self.limit = embedder.profile.input_limit
        own: Any = embedder or WordEmbedder(profile=profile)
        self.lib = make_library(folder, embedder=own)
        self.lib.library.keys.create()
        self.defaults = self.rng.choice(list(Defaults))
        self.world = self.lib.library.create_world("world", defaults=self.defaults)
        self.writer = Writer(self.rng, self.form, longest=2500)
        self.title = self.rng.choice([None, "A Declared Title"])
        self.has_contents = self.rng.random() < 0.5
        self.counts = Counts()
        self.questions: list[Question] = []
        self.ids: list[str] = []
        self.name = f"book.{self.form}"

    def run(self, replacements: int = 4, positions: int = 12, near: int = 4) -> Counts:
        """Ask, change the unread text, ask again.

        Readers are at `positions` random positions, and at the last ones of the common part.
        """
        beginning = self._beginning()
        self._ingest(self.lib.library, self._with_end(beginning))
        book = self._book()
        self.questions = self._questions(book)
        chosen = self._placed(self._settled_by(book, beginning), positions, near)
        self.ids = self._known_ids(chosen[-1])
        first = self._answers(chosen, book)
        for name, change in self._changes(beginning, replacements):
            change()
            first = self._compared(first, book, name)
        self.lib.library.close()
        return self.counts

    # The book and its ends

    def _beginning(self) -> str:
        paragraphs = self.writer.paragraphs(self.rng.randint(2, 26))
        if self.rng.random() < 0.5:
            # The next end then goes on in the same paragraph, after a sentence or within one.
            words = self.writer.sentence() if self.rng.random() < 0.8 else "And then the lamp"
            return joined([*paragraphs, words]).rstrip()
        return joined(paragraphs) + "\n"

    def _with_end(self, beginning: str) -> str:
        """Return the beginning with another end: none, a word, a few paragraphs or many.

        If the book has a list of contents before all, that is another one too.
        """
        self.writer.canary += 1000
        if self.has_contents:
            beginning = self.writer.contents() + beginning
        size = self.rng.choice([0, 1, 1, 3, 12])
        end = joined(self.writer.paragraphs(size)) if size else self.rng.choice(["", "X.", "# Y"])
        if beginning.endswith("\n") or not end:
            return beginning + end
        return f"{beginning} {self.writer.sentence()}\n\n{end}"

    def _ingest(self, library: Library, text: str) -> None:
        path = self.lib.write(f"world/{self.name}", text)
        world = library.world("world")
        world.ingest(path, kind="book", chunking=self.chunking, title=self.title)

    def _book(self) -> Stored:
        return stored(self.lib, self.world, 1)

    def _settled_by(self, book: Stored, beginning: str) -> int:
        """Return the last sentence before the first one that is not of the beginning."""
        known = canaries(beginning)
        ahead = (sid for sid, text in enumerate(book.texts) if canaries(text) - known)
        return next(ahead, len(book.texts)) - 1

    def _questions(self, book: Stored) -> list[Question]:
        texts = book.texts
        queries = [
            self.rng.choice(texts), texts[-1], "who lit the lamp by the harbour?",
        ]  # fmt: skip
        sizes = [self.rng.choice([1, 2, 3, 5]), self.rng.choice([4, 20]), 20]
        most = self.limit - 5
        return [
            Question(" ".join(query.split()[:most])[:900], top_k)
            for query, top_k in zip(queries, sizes, strict=True)
        ]

    # Readers and what they get

    def _placed(self, last: int, count: int, near: int) -> list[int]:
        """Set readers to some positions, and near the end of the common part."""
        close = [sid for sid in range(last + 1 - near, last + 1) if sid >= 0]
        others = self.rng.sample(range(last + 1), min(count, last + 1))
        chosen = sorted({*close, *others, -1})
        for sid in chosen:
            self._reader(sid).set_position(self.name, sentence=sid)
        self.counts.positions += len(chosen)
        return chosen

    def _reader(self, sid: int) -> Reader:
        return self.world.reader(f"at {sid}")

    def _known_ids(self, sid: int) -> list[str]:
        """Return ids of chunks that the furthest reader knows, and one of the owner's."""
        known = self._reader(sid).retrieve("the lamp").metadata.sources
        owners = list(self.lib.points(self.world))
        return [*(note.chunk_id for note in known[-2:]), owners[-1]]

    def _answers(self, positions: Sequence[int], book: Stored) -> dict[tuple[int, str], str]:
        answers: dict[tuple[int, str], str] = {}
        for sid in positions:
            read = canaries(book.until(sid).text) if sid >= 0 else set()
            for label, answer in self._asked(sid, book):
                ahead = canaries(answer) - read
                self._expect(not ahead, f"{sid}, {label}: {ahead} lie ahead")
                answers[sid, label] = answer
            if sid >= 0:
                self._check_tail(sid, book)
        return answers

    def _asked(self, sid: int, book: Stored) -> Iterator[tuple[str, str]]:
        reader = self._reader(sid)
        asked = [*product(self.questions, (Mode.VECTOR, Mode.HYBRID))]
        for question, mode in (*asked, (self.questions[0], Mode.KEYWORD)):
            bundle = reader.retrieve(question.query, top_k=question.top_k, mode=mode)
            self._check_bundle(bundle, sid, book)
            yield f"retrieve {question} {mode}", frozen(bundle)
        options = {"granularity": "sentence", "neighbours": 2, "mode": Mode.HYBRID}
        yield "sentences", frozen(reader.retrieve(self.questions[1].query, top_k=3, **options))
        yield "receipt", payload_of(reader.sign(reader.retrieve(self.questions[1].query)))
        yield "page", to_json(reader.sentences(limit=1000))
        yield "last page", to_json(reader.sentences(offset=max(sid - 2, 0), limit=2))
        yield "where", to_json(reader.position())
        yield "books", to_json(reader.books())
        for chunk in self.ids:
            question = self.questions[0]
            for mode in (Mode.VECTOR, Mode.HYBRID):
                reason = reader.why_not(chunk, question.query, top_k=question.top_k, mode=mode)
                yield f"why not {chunk} {mode}", to_json(reason)

    def _compared(
        self, first: dict[tuple[int, str], str], book: Stored, change: str
    ) -> dict[tuple[int, str], str]:
        """Repeat the requests and compare; positions that the new text lowered are dropped."""
        now = self._book()
        last = common(book.texts, now.texts)
        positions = sorted({sid for sid, _ in first})
        kept = []
        for sid in positions:
            found = self._reader(sid).position().sid
            self._expect(found == min(sid, last), f"{change}: {sid} became {found}, not {last}")
            if found == sid and (sid < 0 or now.until(sid).text == book.until(sid).text):
                kept.append(sid)
        again = self._answers(kept, now)
        for key, answer in again.items():
            self.counts.comparisons += 1
            self._expect(
                answer == first[key], f"{change}: {key}\n{_difference(first[key], answer)}"
            )
        return {key: first[key] for key in again}

    # What may happen ahead

    def _changes(
        self, beginning: str, replacements: int
    ) -> Iterator[tuple[str, Callable[[], None]]]:
        """Yield the changes in turn, each with its name."""
        yield "another world", lambda: self._add_world(self._with_end(beginning))
        for _ in range(replacements):
            text, step = self._with_end(beginning), self.rng.randint(2, 7)
            yield f"stopped before step {step}", partial(self._half_replace, text, step)
            yield "replaced", partial(self._ingest, self.lib.library, text)
        yield "another document", lambda: self._add_document(self._with_end(beginning))
        other = self.lib.library.world("other")
        yield "the other world emptied", lambda: other.documents.delete("1") and None

    def _add_world(self, text: str) -> None:
        other = self.lib.library.create_world("other")
        other.ingest(self.lib.write(f"other/{self.name}", text), kind="book")
        other.reader("at 0").set_position(self.name, sentence=0)

    def _half_replace(self, text: str, step: int) -> None:
        with suppress(Stopped):
            self._ingest(stopped_at(self.lib, step), text)

    def _add_document(self, text: str) -> None:
        self.world.ingest(self.lib.write(f"world/other.{self.form}", text), kind="book")

    # What every answer is held against

    def _check_bundle(self, bundle: ContextBundle, sid: int, book: Stored) -> None:
        self.counts.bundles += 1
        read = book.until(sid).text if sid >= 0 else ""
        chunks = bundle.retrieved_chunks
        for chunk in chunks:
            self._expect(chunk.content in read, f"{sid}: shows what was not read")
            count = WordCounter().count(chunk.content)
            self._expect(chunk.token_count == count, f"{sid}: {chunk.token_count} is not {count}")
        tables = not bundle.metadata.defaults.values.plain
        total = sum(
            chunk.token_count + (added_tokens(chunk.content) if tables else 0) for chunk in chunks
        )
        self._expect(bundle.total_tokens == total <= MAX_CONTEXT_TOKENS, f"{sid}: {total} tokens")
        # Drawing a table adds no letters.
        known, pieces = _letters(read), map(_letters, bundle.context.split("\n\n"))
        self._expect(all(piece in known for piece in pieces), f"{sid}: the context says too much")

    def _check_tail(self, sid: int, book: Stored) -> None:
        self.counts.tails += 1
        scope = self.lib.scope(self.world)
        tail = self.lib.store.readers.tail(scope, book.ref, sid) or []
        made = [*whole_chunks(self.lib, self.world, book.ref, sid), *map(as_cut, tail)]
        profile = chunking_in(self.defaults, self.chunking)
        wanted = cut_from_scratch(book, sid, profile, WordCounter(), self.limit)
        self._expect(made == wanted, f"{sid}: the tail is not what cutting gives")

    def _expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            settings = f"seed {self.seed}, {self.form}, {self.chunking}, limit {self.limit}"
            settings += f", {self.defaults}"
            self.counts.findings.append(f"{settings}: {otherwise}")


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def _difference(one: str, other: str) -> str:
    pairs = zip(one.split("\n"), other.split("\n"), strict=False)
    lines = [f"  - {left}\n  + {right}" for left, right in pairs if left != right]
    return "\n".join(lines[:6]) or f"  {len(one)} and {len(other)} characters"

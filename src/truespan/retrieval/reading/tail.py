"""The tail: chunks of the read sentences that no stored chunk covers, as if the book ended here.

A stored chunk whose boundaries depend on unread text cannot be shown to a reader, not even its read
part: where it begins and ends, and how it scores, would reveal something. Instead, the sentences up
to the position are chunked alone. Chunking starts at the last stored chunk that depends on nothing
unread, since what a chunker does from there depends on nothing before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from truespan.errors import StorageFull, StoreBusy, StoreDamaged, TruespanError
from truespan.ingest.chunking import MeasuredText, chunk_spans
from truespan.ingest.embed import EmbeddedBatch, embed_texts
from truespan.protocols import find_state_embedder
from truespan.retrieval.deps import Restart, RetrievalDeps
from truespan.retrieval.query import embedder_for
from truespan.types.document import RevisionRef
from truespan.types.ids import TextHash, hash_text
from truespan.types.profile import ChunkingProfile, Strategy
from truespan.types.reading import StoredSentence, TailChunk
from truespan.types.scope import Scope
from truespan.types.text import CanonicalText, Sentence


class TailMaker(Struct, frozen=True):
    """Builds and stores tails."""

    deps: RetrievalDeps

    def tail(
        self,
        scope: Scope,
        revision: RevisionRef,
        position: int,
        chunking: ChunkingProfile,
        *,
        word_states: bool = False,
    ) -> list[TailChunk]:
        """Return the tail at a position, each chunk checked and with its vector.

        With `word_states`, it has the states of words as well, if the model gives them. A tail is
        stored, so that the next request from this position costs no embedding.
        """
        tail = self.deps.store.readers.tail(scope, revision, position)
        if tail is None:
            tail = self._build(scope, revision, position, chunking)
            # If the tail cannot be stored, it still serves this request.
            with suppress(StorageFull, StoreBusy):
                self.deps.store.readers.keep_tail(scope, revision, position, tail)
                tail = self.deps.store.readers.tail(scope, revision, position) or tail
        first = min((chunk.first_sid for chunk in tail), default=0)
        last = min(max((chunk.last_sid for chunk in tail), default=-1), position)
        sentences = self.deps.store.readers.sentences(scope, revision, first, last) if tail else []
        for chunk in tail:
            stored = [one for one in sentences if chunk.first_sid <= one.sid <= chunk.last_sid]
            if not stored:
                raise Restart
            # A tail consists of read sentences alone; this is checked again before it is shown.
            read = stored[-1].sid == chunk.last_sid <= position
            around = chunk.text[: max(stored[0].start - chunk.start, 0)]
            around += chunk.text[stored[-1].end - chunk.start :]
            if not read or hash_text(chunk.text) != chunk.text_hash or around.strip():
                raise StoreDamaged("A stored part of the book does not match its sentences.")
            _check_sentences(chunk.text, chunk.start, stored)
        return self._with_vectors(scope, tail, word_states=word_states)

    def _build(
        self, scope: Scope, revision: RevisionRef, position: int, profile: ChunkingProfile
    ) -> list[TailChunk]:
        whole = profile.strategy is Strategy.SENTENCES
        anchor = self.deps.store.readers.anchor(scope, revision, position, at_sentence=whole)
        if anchor is not None:
            record = self.deps.store.chunks.read(scope, [anchor.chunk_id]).get(anchor.chunk_id)
            if record is None or not record.is_intact():
                # Cutting from the beginning gives the same chunks.
                anchor = None
        first_sid = anchor.first_sid if anchor else 0
        stored = self.deps.store.readers.sentences(scope, revision, first_sid, position)
        if not stored or stored[-1].sid != position:
            raise Restart
        start = anchor.start if anchor else 0
        # The whole text is not checked against its hash: unread text must not matter, even if it
        # is damaged.
        passage = self.deps.store.readers.passage(scope, revision, start, stored[-1].end)
        if passage is None:
            raise Restart
        text = passage.text.decode(errors="replace")
        _check_sentences(text, start, stored)
        # The chapters, sections and pages that begin within the text.
        before = max(sum(begin <= start for begin in passage.starts) - 1, 0)
        earlier = max(sum(page.offset <= start for page in passage.pages) - 1, 0)
        canonical = CanonicalText(
            text,
            tuple(max(begin - start, 0) for begin in passage.starts[before:]),
            passage.places[before:],
            pages=tuple(
                page._replace(offset=max(page.offset - start, 0))
                for page in passage.pages[earlier:]
            ),
        )
        sentences = [
            Sentence(place, max(sentence.start - start, 0), sentence.end - start)
            for place, sentence in enumerate(stored)
        ]
        tokens = self.deps.counter.measure(text)
        measured = MeasuredText(canonical, sentences, tokens)
        spans = chunk_spans(measured, profile, scope.profile.input_limit)
        index = anchor.index if anchor else 0
        chunks = []
        for number, span in enumerate(spans):
            if span.reach <= sentences[-1].sid:
                # The index has stored chunks that do not depend on unread text.
                continue
            first = next(part.sid for part in sentences if part.end > span.start)
            last = max(part.sid for part in sentences if part.start < span.end)
            content = text[span.start : span.end]
            place = canonical.place_at(span.start)
            chunks.append(
                TailChunk(
                    index=index + number,
                    part=span.start + start,
                    start=span.start + start,
                    end=span.end + start,
                    first_sid=first_sid + first,
                    last_sid=first_sid + last,
                    text=content,
                    text_hash=hash_text(content),
                    tokens=tokens.count(span.start, span.end),
                    chapter=place.chapter,
                    section=place.section,
                    page=canonical.page_at(span.start),
                    location=canonical.location(span.end - len(content.lstrip()), span.end),
                )
            )
        return chunks

    def _with_vectors(
        self, scope: Scope, tail: list[TailChunk], *, word_states: bool
    ) -> list[TailChunk]:
        stored = ((chunk.text_hash, chunk.states) for chunk in tail if word_states)
        states = {known: states for known, states in stored if states is not None}
        vectors = {chunk.text_hash: chunk.vector for chunk in tail if chunk.vector is not None}
        missing = {chunk.text_hash: chunk.text for chunk in tail if chunk.text_hash not in vectors}
        stateless = {chunk.text_hash: chunk.text for chunk in tail if chunk.text_hash not in states}
        if word_states and stateless and self._gives_states(scope):
            missing |= stateless
        for batch in self._embed(scope, missing, word_states=word_states):
            with suppress(StorageFull, StoreBusy):
                self.deps.store.documents.keep_vectors(
                    scope, batch.vectors, batch.states, brief=True
                )
            vectors |= batch.vectors
            states |= batch.states
        return [
            replace(chunk, vector=vectors.get(known), states=states.get(known))
            for chunk in tail
            for known in [chunk.text_hash]
        ]

    def _gives_states(self, scope: Scope) -> bool:
        """Return whether the model gives states; a stored tail does not need its provider."""
        try:
            return find_state_embedder(embedder_for(self.deps, scope.profile)) is not None
        except TruespanError:
            return False

    def _embed(
        self, scope: Scope, texts: Mapping[TextHash, str], *, word_states: bool
    ) -> Iterator[EmbeddedBatch]:
        if texts:
            yield from embed_texts(
                embedder_for(self.deps, scope.profile),
                texts,
                self.deps.limits,
                self.deps.clock,
                counter=self.deps.counter,
                on_token_limit=self.deps.preparation.on_token_limit,
                word_states=word_states,
            )


def _check_sentences(text: str, start: int, stored: list[StoredSentence]) -> None:
    """Check each sentence that is entirely in a text against its recorded digest.

    Between sentences there may be only white space, so nothing can hide there.
    """
    before: int | None = None
    for sentence in stored:
        begin, end = sentence.start - start, sentence.end - start
        gap = text[before:begin] if before is not None else ""
        is_whole = begin >= 0 and end <= len(text)
        if (is_whole and not sentence.matches(text[begin:end])) or gap.strip():
            raise StoreDamaged("A sentence of the book does not match its hash.")
        before = end

"""From the bytes of a source to everything one revision consists of."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import sha256

import numpy as np

from truespan.errors import InvalidSettings, SourceEmpty
from truespan.ingest.assemble import assemble
from truespan.ingest.clean import CLEANING_VERSION
from truespan.ingest.cut import cut
from truespan.ingest.load import LOADER_VERSION, load
from truespan.ingest.sentences import segmenter, split_sentences
from truespan.model.chunk import CutChunk
from truespan.model.document import Draft, MeasuredSentence
from truespan.model.ids import hash_text
from truespan.model.profile import SENTENCES, STANDARD_CHUNKING, WINDOW, ChunkingProfile
from truespan.model.source import Declared, DocumentKind, Source
from truespan.model.text import CanonicalText, Sentence, Span, TokenMap
from truespan.ports import TokenCounter

DEFAULT_LANGUAGE = "en"
DEFAULT_VERSION = "1.0"


def chunking_for(declared: Declared) -> ChunkingProfile:
    """Return the chunking profile that is named, or the default for the kind of document."""
    if declared.chunking is not None:
        try:
            return STANDARD_CHUNKING[declared.chunking]
        except KeyError:
            raise InvalidSettings(
                f"There is no chunking profile {declared.chunking!r}.",
                advice=f"Choose one of {', '.join(STANDARD_CHUNKING)}.",
            ) from None
    return SENTENCES if declared.kind is DocumentKind.BOOK else WINDOW


def recipe_of(declared: Declared, counter: TokenCounter, input_limit: int) -> str:
    """Return a digest of all that is done to a source's bytes.

    The same bytes under the same recipe give the same revision, so there is nothing to do again.
    """
    steps = {
        "cleaning": CLEANING_VERSION,
        "loader": LOADER_VERSION,
        "segmenter": segmenter(),
        "chunking": asdict(chunking_for(declared)),
        "counter": counter.name,
        "input_limit": input_limit,
        "kind": declared.kind or DocumentKind.DOCUMENT,
        "title": declared.title,
    }
    return sha256(json.dumps(steps, sort_keys=True).encode()).hexdigest()


def draft(
    source: Source, data: bytes, *, source_hash: str, counter: TokenCounter, input_limit: int
) -> Draft:
    """Make a revision of a source.

    Raises:
        SourceRefused: its bytes are no text, or hold none.
    """
    declared = source.declared
    loaded = load(source.name, data)
    canonical = assemble(loaded.blocks)
    sentences = split_sentences(canonical, declared.language or DEFAULT_LANGUAGE)
    if not sentences:
        raise SourceEmpty(source.name)
    tokens = counter.measure(canonical.text)
    chunking = chunking_for(declared)
    spans = cut(canonical, sentences, tokens, chunking, input_limit)
    return Draft(
        doc_id=source.doc_id,
        name=source.name,
        path=source.path.encode("utf-8", "replace").decode(),
        kind=declared.kind or DocumentKind.DOCUMENT,
        title=declared.title or loaded.title or source.name,
        language=declared.language or DEFAULT_LANGUAGE,
        language_declared=declared.language is not None,
        version=declared.version or DEFAULT_VERSION,
        declared_title=declared.title,
        tags=declared.tags or (),
        chunking=chunking.name,
        source_hash=source_hash,
        recipe=recipe_of(declared, counter, input_limit),
        canonical=canonical,
        sentences=measured(canonical, sentences, tokens),
        chunks=chunks_of(canonical, sentences, tokens, spans),
    )


def measured(
    canonical: CanonicalText, sentences: Sequence[Sentence], tokens: TokenMap
) -> tuple[MeasuredSentence, ...]:
    """Give each sentence the digest and token count that later reads are checked against."""
    text = canonical.text
    counts = _token_counts(sentences, tokens)
    return tuple(
        MeasuredSentence(sentence, sha256(text[sentence[1] : sentence[2]].encode()).digest(), count)
        for sentence, count in zip(sentences, counts, strict=True)
    )


def _token_counts(sentences: Sequence[Sentence], tokens: TokenMap) -> list[int]:
    """Return the tokens of each sentence.

    Nearly all sentences have white space on both sides, where counts add up: theirs are differences
    of the map's totals, taken for all at once. Those that touch a neighbour are counted one by one.
    """
    _, starts, ends = np.asarray(sentences, dtype=np.int64).T
    units, totals = np.asarray(tokens.starts), np.asarray(tokens.totals)
    counts = totals[np.searchsorted(units, ends)] - totals[np.searchsorted(units, starts)]
    touching = np.flatnonzero(starts[1:] == ends[:-1])
    for place in {*touching.tolist(), *(touching + 1).tolist()}:
        counts[place] = tokens.count(int(starts[place]), int(ends[place]))
    return counts.tolist()


def chunks_of(
    canonical: CanonicalText,
    sentences: Sequence[Sentence],
    tokens: TokenMap,
    spans: Sequence[Span],
) -> tuple[CutChunk, ...]:
    """Turn spans into chunks. Both starts and ends of spans grow, so two cursors walk along."""
    text = canonical.text
    starts = [sentence.start for sentence in sentences]
    ends = [sentence.end for sentence in sentences]
    chunks: list[CutChunk] = []
    first = past = 0
    for index, span in enumerate(spans):
        start, end = span.start, span.end
        while ends[first] <= start:
            first += 1
        while past < len(starts) and starts[past] < end:
            past += 1
        content = text[start:end]
        place = canonical.place_at(start)
        chunks.append(
            CutChunk(
                index=index,
                start=start,
                end=end,
                first_sid=first,
                last_sid=past - 1,
                reach=span.reach,
                text=content,
                text_hash=hash_text(content),
                overlap_text=text[span.context_start : start],
                tokens=tokens.count(start, end),
                sentence_ends=[min(stop, end) - start for stop in ends[first:past]],
                chapter=place.chapter,
                section=place.section,
            )
        )
    return tuple(chunks)

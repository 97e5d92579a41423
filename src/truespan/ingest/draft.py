"""From what a loader found to everything one revision consists of."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import NamedTuple

import numpy as np

from truespan.errors import InvalidSettings, SourceEmpty
from truespan.ingest.canonical import Marker, assemble
from truespan.ingest.chunking import cut
from truespan.ingest.embed import OnTokenLimit
from truespan.ingest.figures import describe_figures, figure_chunks, summary_of
from truespan.ingest.language import detect_language, detector, normal_language
from truespan.ingest.sentences import segmenter, split_sentences
from truespan.observer import NULL_OBSERVER, RequestTrace
from truespan.parsing import LOADER_VERSION
from truespan.parsing.clean import CLEANING_VERSION
from truespan.protocols import TokenCounter
from truespan.sanitize.findings import Mode
from truespan.sanitize.sanitizer import Sanitizer
from truespan.types.chunk import NewChunk
from truespan.types.document import AuditEntry, Draft, MeasuredSentence
from truespan.types.figure import FigureFlags, FigureRecord, figure_id_of, marker
from truespan.types.ids import TextHash, hash_text
from truespan.types.profile import SENTENCES, STANDARD_CHUNKING, WINDOW, ChunkingProfile
from truespan.types.source import Declared, DocumentKind, Source
from truespan.types.telemetry import Stage
from truespan.types.text import CanonicalText, Loaded, Sentence, Span, TokenMap

_NOT_WORDS = re.compile(r"\W+")


def dedupe_hash(text: str) -> TextHash:
    """Return a hash that texts share which differ in case, punctuation and white space alone."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    # A row of signs has no words to be told by.
    return hash_text(_NOT_WORDS.sub(" ", folded).strip() or folded.strip())


def first_of_equals(chunks: Sequence[NewChunk]) -> tuple[NewChunk, ...]:
    """Keep the first of chunks with one hash, and number what is left without a gap.

    Whether a chunk stays is decided by what stands before it, so a reader's chunks are the same
    whatever follows.
    """
    seen: set[TextHash] = set()
    kept: list[NewChunk] = []
    for chunk in chunks:
        found = dedupe_hash(chunk.text)
        if found in seen:
            continue
        seen.add(found)
        chunk.index, chunk.dedupe_hash = len(kept), found
        kept.append(chunk)
    return tuple(kept)


@dataclass(frozen=True, slots=True)
class Preparation:
    """What is done to sources beside what their callers declare."""

    figures: FigureFlags = field(default_factory=FigureFlags)
    sanitizer: Sanitizer = field(default_factory=Sanitizer)
    chunkings: Mapping[str, ChunkingProfile] = field(default_factory=lambda: STANDARD_CHUNKING)
    on_token_limit: OnTokenLimit = OnTokenLimit.MEAN

    def chunking_for(self, declared: Declared) -> ChunkingProfile:
        """Return the chunking profile that is named, or the default for the kind of document."""
        if declared.chunking is None:
            return SENTENCES if declared.kind is DocumentKind.BOOK else WINDOW
        return self.chunking_named(declared.chunking)

    def chunking_named(self, name: str) -> ChunkingProfile:
        """Return the chunking profile of this name.

        Raises:
            InvalidSettings: there is none.
        """
        try:
            return self.chunkings[name]
        except KeyError:
            raise InvalidSettings(
                f"There is no chunking profile {name!r}.",
                advice=f"Choose one of {', '.join(self.chunkings)}.",
            ) from None

    def recipe(self, declared: Declared, counter: TokenCounter, *, pictures: bool = True) -> str:
        """Return a digest of all that is done to a source's bytes; `pictures` may be among them.

        The same bytes under the same recipe give the same revision: there is nothing to do again.
        How much the model reads is not part of it: that belongs to a generation, not a revision.
        """
        steps = {
            "cleaning": CLEANING_VERSION,
            "loader": LOADER_VERSION,
            "segmenter": segmenter(),
            "chunking": asdict(self.chunking_for(declared)),
            "counter": counter.name,
            "kind": declared.kind or DocumentKind.DOCUMENT,
            "title": declared.title,
            "figures": self._figure_steps() if pictures else [],
            # The mode as well: a library that begins to count has to look at everything once.
            "sanitizer": [self.sanitizer.mode, self.sanitizer.digest],
            "on_token_limit": self.on_token_limit,
            # It decides where sentences end, unless somebody says what the language is.
            "language": None if declared.language else detector(),
        }
        return sha256(json.dumps(steps, sort_keys=True).encode()).hexdigest()

    def _figure_steps(self) -> list[bool]:
        flags = self.figures
        return [flags.extract_images, flags.placeholders, flags.chunks]


DEFAULT_LANGUAGE = "en"
DEFAULT_VERSION = "1.0"


class _Language(NamedTuple):
    """A language, whether anybody said so, and whether that was the source itself."""

    code: str
    declared: bool
    stated: bool


def draft(
    source: Source,
    loaded: Loaded,
    *,
    preparation: Preparation,
    source_hash: str,
    recipe: str,
    counter: TokenCounter,
    input_limit: int,
    cut_as: ChunkingProfile | None = None,
    course: RequestTrace = NULL_OBSERVER,
) -> Draft:
    """Make a revision of a source.

    It is cut as its own chunking profile says, unless the generation it enters has one for all.

    Raises:
        SourceEmpty: nothing is left of it.
    """
    declared, flags = source.declared, preparation.figures
    with course.stage(Stage.TEXT):
        loaded, audit = _sanitized(loaded, preparation.sanitizer)
        canonical = assemble(loaded.blocks, _marker(source.doc_id, flags))
    with course.stage(Stage.SENTENCES):
        language = _language(declared, loaded, canonical)
        sentences = split_sentences(canonical, language.code)
        if not sentences:
            raise SourceEmpty(source.name)
        tokens = counter.measure(canonical.text)
    chunking = preparation.chunking_for(declared)
    with course.stage(Stage.CHUNKS):
        chunks = text_chunks(canonical, sentences, tokens, cut_as or chunking, input_limit)
    figures = (
        describe_figures(
            source.doc_id,
            canonical,
            sentences,
            chunks,
            loaded.images,
            lambda text: counter.count(text) <= input_limit,
        )
        if flags.any
        else ()
    )
    described = figure_chunks(figures, canonical, counter, len(chunks)) if flags.chunks else ()
    return Draft(
        doc_id=source.doc_id,
        name=source.name,
        path=source.path.encode("utf-8", "replace").decode(),
        kind=declared.kind or DocumentKind.DOCUMENT,
        title=declared.title or loaded.title or source.name,
        language=language.code,
        language_declared=language.declared,
        language_stated=language.stated,
        version=declared.version or DEFAULT_VERSION,
        declared_title=declared.title,
        stated_title=loaded.properties.title,
        tags=declared.tags or (),
        source_url=declared.source_url,
        metadata=declared.metadata,
        origin=source.origin,
        chunking=chunking,
        source_hash=source_hash,
        recipe=recipe,
        canonical=canonical,
        sentences=measured(canonical, sentences, tokens),
        chunks=(*chunks, *described),
        properties=loaded.properties,
        figures=figures,
        images=loaded.images if flags.extract_images else (),
        audit=audit,
        notes=tuple(_notes(loaded, flags, figures, len(described))),
    )


def _sanitized(loaded: Loaded, sanitizer: Sanitizer) -> tuple[Loaded, tuple[AuditEntry, ...]]:
    """Return what may be kept of a source, and how much was found in it that may not."""
    if sanitizer.mode is Mode.OFF:
        return loaded, ()
    # Imported here: its rules take time to load, and most libraries have it off.
    from truespan.sanitize.sanitizer import sanitized_loaded

    kept, counts = sanitized_loaded(loaded, sanitizer)
    redacted = sanitizer.mode is Mode.ON
    return kept, tuple(
        AuditEntry(one.label, one.rule, one.count, redacted) for one in counts.entries
    )


def _marker(doc_id: str, flags: FigureFlags) -> Marker | None:
    if not flags.placeholders:
        return None
    return lambda number: marker(figure_id_of(doc_id, number))


def _language(declared: Declared, loaded: Loaded, canonical: CanonicalText) -> _Language:
    """Return the language that the caller declares, or the source states, or that is detected."""
    if declared.language:
        return _Language(declared.language, True, False)
    if stated := _plausible_code(loaded.properties.language):
        return _Language(stated, True, True)
    return _Language(detect_language(canonical.text) or DEFAULT_LANGUAGE, False, False)


def _plausible_code(stated: str | None) -> str | None:
    """Return the language of a code such as 'en-GB'; None for what is no code.

    Sources state a region where nobody asked for one, and a filter for 'en' means that too.
    """
    code = normal_language(stated or "")
    return code if code.isascii() and code.isalpha() and len(code) in (2, 3) else None


def _notes(
    loaded: Loaded, flags: FigureFlags, figures: Sequence[FigureRecord], described: int
) -> Iterator[str]:
    """Give the lines that tell how pictures were dealt with, and what could not be kept."""
    yield from loaded.warnings
    counts = loaded.pictures
    if not flags.any and not counts.blips:
        return
    reason = "none" if flags.any else "flags_disabled"
    written = len(loaded.images) if flags.extract_images else 0
    yield (
        f"DOCX_IMAGES_SUMMARY blips_found={counts.blips} rels_total={counts.rels_total} "
        f"rels_mapped={counts.rels_mapped} zip_member_miss={counts.zip_member_miss} "
        f"images_written={written} image_emit_skip_reason={reason}"
    )
    if flags.any:
        yield summary_of(figures, placeholders=flags.placeholders, chunks=described)
    if flags.debug:
        yield from _image_lines(loaded, figures)


def _image_lines(loaded: Loaded, figures: Sequence[FigureRecord]) -> Iterator[str]:
    placed = [one.figure for block in loaded.blocks for one in block.figures]
    for number, figure in enumerate(placed, 1):
        size = len(loaded.images[figure.image].data) if figure.image is not None else 0
        reference = figures[number - 1].image_ref if figures else None
        yield (
            f"DOCX_IMAGE number={number} origin={figure.origin or '-'} bytes={size} "
            f"image_ref={reference or '-'} alt={'yes' if figure.alt else 'no'}"
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


def text_chunks(
    canonical: CanonicalText,
    sentences: Sequence[Sentence],
    tokens: TokenMap,
    chunking: ChunkingProfile,
    input_limit: int,
) -> tuple[NewChunk, ...]:
    """Cut a text into the chunks that a profile makes of it."""
    spans = cut(canonical, sentences, tokens, chunking, input_limit)
    chunks = chunks_of(canonical, sentences, tokens, spans)
    return first_of_equals(chunks) if chunking.dedupe else chunks


def chunks_of(
    canonical: CanonicalText,
    sentences: Sequence[Sentence],
    tokens: TokenMap,
    spans: Sequence[Span],
) -> tuple[NewChunk, ...]:
    """Turn spans into chunks. Both starts and ends of spans grow, so two cursors walk along."""
    text = canonical.text
    starts = [sentence.start for sentence in sentences]
    ends = [sentence.end for sentence in sentences]
    chunks: list[NewChunk] = []
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
            NewChunk(
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
                page=canonical.page_at(start) if canonical.pages else None,
            )
        )
    return tuple(chunks)

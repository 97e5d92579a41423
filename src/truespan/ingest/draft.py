"""From the bytes of a source to a draft, which has all the parts of one revision.

It is a pure step, which any process can do.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from truespan.errors import InvalidArgument, SourceRefused
from truespan.ingest.canonical import assemble, order_blocks
from truespan.ingest.chunking import MeasuredText, chunk_spans
from truespan.ingest.embed import OnTokenLimit
from truespan.ingest.figures import describe_figures, figure_chunks
from truespan.observer import NULL_OBSERVER, RequestTrace
from truespan.parsing import LOADER_VERSION
from truespan.protocols import SourceParser, TokenCounter
from truespan.tables import FileFormat
from truespan.text.clean import CLEANING_VERSION, clean
from truespan.text.language import SAMPLE, detect_language, detector_name, normal_language
from truespan.text.novel import Likeness, classify
from truespan.text.sentences import segmenter_name
from truespan.types.audience import AudienceRule
from truespan.types.chunk import FigureFlags, FigureRecord, NewChunk, figure_id_of, marker
from truespan.types.document import AuditEntry, CountedWords, Draft, MeasuredSentences
from truespan.types.ids import TextHash, dedupe_hash, hash_text
from truespan.types.profile import SENTENCES, STANDARD_CHUNKING, WINDOW, ChunkingProfile
from truespan.types.request import Defaults
from truespan.types.source import (
    PARSE_DEFAULTS,
    Copies,
    DocumentKind,
    DocumentOptions,
    ParseOptions,
    Source,
)
from truespan.types.telemetry import Stage
from truespan.types.text import (
    Block,
    CanonicalText,
    Loaded,
    PageStart,
    PlacedFigure,
    Sentences,
    Span,
    Validators,
)

if TYPE_CHECKING:
    from truespan.extensions.checks.sanitize.sanitizer import Sanitizer


def deduplicate(chunks: Sequence[NewChunk]) -> tuple[NewChunk, ...]:
    """Keep the first chunk of each dedupe hash, and number the rest without gaps."""
    # A chunk is kept or dropped by the chunks before it alone, so later text does not change the
    # chunks of a reader.
    unique: dict[TextHash, NewChunk] = {}
    for chunk in chunks:
        key = dedupe_hash(chunk.text)
        if key not in unique:
            unique[key] = replace(chunk, index=len(unique), dedupe_hash=key)
    return tuple(unique.values())


class Preparation(Struct, frozen=True):
    """Settings for processing sources, apart from the declared options of documents."""

    figures: FigureFlags = field(default_factory=FigureFlags)
    sanitizer: Sanitizer | None = None
    chunkings: Mapping[str, ChunkingProfile] = field(default_factory=lambda: STANDARD_CHUNKING)
    on_token_limit: OnTokenLimit = OnTokenLimit.MEAN
    hidden_sheets: bool = False
    """Whether hidden sheets, rows and columns of workbooks are read."""
    running_heads: bool = False
    """Whether running heads and page numbers of a PDF stay in its text."""
    copies: Copies = Copies.KEEP
    """Treatment of a new file with the content of another document."""
    ocr: bool = False
    """Whether the text of images and scanned pages is recognised."""
    can_recognise: bool = False
    plain: bool = True
    """Whether long tables stay whole, windows may cut words, and novels are not recognised."""
    audiences: tuple[AudienceRule, ...] = ()
    """Audiences of documents that declare none; the first rule that applies counts."""
    require_audience: bool = False
    """Whether a new document without a declared audience or a rule is refused."""

    def for_world(self, defaults: Defaults) -> Preparation:
        return replace(self, plain=defaults.values.plain)

    @property
    def redacts(self) -> bool:
        """Whether values are removed from texts."""
        return self.sanitizer is not None and self.sanitizer.mode == "on"

    def require_sanitizer(self) -> None:
        """Raise InvalidConfiguration if the sanitizer is configured and not installed."""
        # Every member of a missing one raises.
        _ = self.redacts

    def check(self, declared: DocumentOptions) -> None:
        """Raise InvalidArgument for declared options that are unknown or not installed."""
        self.chunking_for(declared)
        if declared.ocr and not self.can_recognise:
            raise InvalidArgument(
                "Text recognition (ocr) is not installed.",
                advice="Install Truespan with the extra 'ocr'.",
            )

    def parse_options(self, declared: DocumentOptions, format: FileFormat) -> ParseOptions:
        """Return the parse options of a source: declared ones take precedence over settings."""

        def choose(name: str) -> bool:
            stated = getattr(declared, name)
            return getattr(self, name) if stated is None else stated

        return ParseOptions(
            images=self.figures.extract_images,
            hidden_sheets=format.has_hidden_sheets and choose("hidden_sheets"),
            ocr=format.may_need_ocr and choose("ocr"),
            running_heads=format.has_running_heads and choose("running_heads"),
        )

    def chunking_for(self, declared: DocumentOptions) -> ChunkingProfile:
        """Return the declared chunking profile, or the default for the kind of document."""
        if declared.chunking is None:
            standard = SENTENCES if declared.kind is DocumentKind.BOOK else WINDOW
            return self._with_defaults(standard)
        return self.chunking_named(declared.chunking)

    def chunking_named(self, name: str) -> ChunkingProfile:
        try:
            return self._with_defaults(self.chunkings[name])
        except KeyError:
            raise InvalidArgument(
                f"Unknown chunking profile {name!r}.",
                advice=f"Use one of {', '.join(self.chunkings)}.",
            ) from None

    def _with_defaults(self, profile: ChunkingProfile) -> ChunkingProfile:
        return replace(profile, whole_rows=not self.plain, whole_words=not self.plain)

    def recipe(
        self,
        declared: DocumentOptions,
        counter: TokenCounter,
        *,
        pictures: bool = True,
        parse_options: ParseOptions = PARSE_DEFAULTS,
        line: int = 0,
    ) -> str:
        """Return a digest of everything that is done to a source's bytes."""
        # The same bytes under the same recipe give the same revision, so an unchanged recipe saves
        # all work. `pictures` is whether the source can contain pictures. The model's input limit
        # is not part of the recipe: it belongs to a generation, not to a revision.
        flags = self.figures
        steps = {
            "cleaning": CLEANING_VERSION,
            "loader": LOADER_VERSION,
            "segmenter": segmenter_name(),
            "chunking": asdict(self.chunking_for(declared)),
            "counter": counter.name,
            "kind": declared.kind or DocumentKind.DOCUMENT,
            "title": declared.title,
            "figures": [flags.extract_images, flags.placeholders, flags.chunks] if pictures else [],
            # With the mode: when auditing is switched on, every source is examined once.
            "sanitizer": [done.mode, done.digest] if (done := self.sanitizer) else ["off", ""],
            "on_token_limit": self.on_token_limit,
            # The detected language decides where sentences end.
            "language": None if declared.language else detector_name(),
        }
        # Only options that differ from the default, so that a new option causes no parsing.
        if parse_options.hidden_sheets:
            steps["hidden_sheets"] = True
        if parse_options.running_heads:
            steps["running_heads"] = True
        if parse_options.ocr:
            steps["ocr"] = RECOGNITION_VERSION
        if line:
            # A record that has moved in its file is parsed again, and nothing is embedded.
            steps["line"] = line
        return sha256(json.dumps(steps, sort_keys=True).encode()).hexdigest()


RECOGNITION_VERSION = 1
"""Version of text recognition; increased when its output changes."""
DEFAULT_LANGUAGE = "en"
DEFAULT_VERSION = "1.0"


def make_draft(
    source: Source,
    loaded: Loaded,
    *,
    preparation: Preparation,
    source_hash: str,
    recipe: str,
    parser: SourceParser,
    counter: TokenCounter,
    input_limit: int,
    chunking: ChunkingProfile | None = None,
    trace: RequestTrace = NULL_OBSERVER,
) -> Draft:
    """Make the draft of a revision; `chunking` is the profile of the generation, if it has one."""
    declared, flags = source.declared, preparation.figures
    with trace.stage(Stage.TEXT):
        loaded, canonical, audit = make_text(source.doc_id, source.name, loaded, preparation)
    with trace.stage(Stage.SENTENCES):
        stated = _stated_language(loaded)
        language = declared.language or stated or detect_language(_sample_prose(canonical))
        language = language or DEFAULT_LANGUAGE
        sentences = parser.split(source.name, canonical, language)
        if not sentences:
            raise SourceRefused("source_empty", source.name)
        measured = MeasuredText(canonical, sentences, counter.measure(canonical.text))
    own_chunking = preparation.chunking_for(declared)
    with trace.stage(Stage.CHUNKS):
        chunks = text_chunks(measured, chunking or own_chunking, input_limit)
    figures: tuple[FigureRecord, ...] = ()
    if flags.any:
        figures = describe_figures(
            source.doc_id,
            measured,
            chunks,
            loaded.images,
            lambda text: counter.count(text) <= input_limit,
        )
    described = figure_chunks(figures, canonical, counter, len(chunks)) if flags.chunks else ()
    return Draft(
        doc_id=source.doc_id,
        name=source.name,
        path=source.recorded_path,
        kind=declared.kind or DocumentKind.DOCUMENT,
        title=declared.title or loaded.title or source.name,
        language=language,
        language_declared=bool(declared.language or stated),
        language_stated=bool(stated and not declared.language),
        version=declared.version or DEFAULT_VERSION,
        declared_title=declared.title,
        stated_title=loaded.properties.title,
        tags=declared.tags or (),
        audience=declared.audience or (),
        source_url=declared.source_url,
        metadata=declared.metadata,
        origin=source.origin,
        shown_path=source.shown_path,
        chunking=own_chunking,
        source_hash=source_hash,
        recipe=recipe,
        canonical=canonical,
        sentences=measure_sentences(measured),
        chunks=(*chunks, *described),
        properties=loaded.properties,
        figures=figures,
        images=loaded.images if flags.extract_images else (),
        audit=audit,
        notes=tuple(_notes(loaded, flags, figures, len(described))),
        remarks=tuple(_remarks(loaded, redacted=preparation.redacts)),
    )


def make_text(
    doc_id: str, name: str, loaded: Loaded, preparation: Preparation
) -> tuple[Loaded, CanonicalText, tuple[AuditEntry, ...]]:
    """Return a parsed source, sanitized, with its canonical text and the sanitizer's findings."""
    flags = preparation.figures
    loaded = _with_text(loaded, name, flags)
    audit: tuple[AuditEntry, ...] = ()
    if preparation.sanitizer is not None:
        loaded, audit = preparation.sanitizer.filter(loaded)
    canonical = assemble(
        loaded.blocks,
        (lambda number: marker(figure_id_of(doc_id, number))) if flags.placeholders else None,
        divide_tables=not preparation.plain,
    )
    return loaded, canonical, audit


def _with_text(loaded: Loaded, name: str, flags: FigureFlags) -> Loaded:
    """Return the parsed source; without text, with the alternative texts of its pictures."""
    if any(clean(block.text).strip() for block in loaded.blocks):
        return loaded
    loaded = replace(loaded, blocks=tuple(map(_show_alt, loaded.blocks)))
    if not flags.chunks or not any(block.text for block in loaded.blocks):
        raise SourceRefused("source_empty", name)
    return loaded


def _stated_language(loaded: Loaded) -> str:
    """Return the language code that a source states; empty if it states none."""
    # The region of a code such as 'en-GB' is dropped, so that a filter for 'en' matches.
    code = normal_language(loaded.properties.language or "")
    return code if code.isascii() and code.isalpha() and len(code) in (2, 3) else ""


def _show_alt(block: Block) -> Block:
    """Return a block with the alternative texts of its figures as text, each before its figure."""
    text, figures = "", list[PlacedFigure]()
    for _, figure in block.figures:
        alt = " ".join(clean(figure.alt).split())
        text += f"\n{alt}" if text and alt else alt
        figures.append(PlacedFigure(len(text), figure))
    return replace(block, text=text, figures=tuple(figures))


def _sample_prose(canonical: CanonicalText) -> str:
    """Return the first characters of a text without its programs, which are in no language."""
    # What a reader of these characters has not read takes no part, also if they are all programs.
    parts, end = [], 0
    for start, after in canonical.programs:
        parts.append(canonical.text[end : min(start, SAMPLE)])
        end = after
    return "".join((*parts, canonical.text[end:SAMPLE]))


MAX_QUOTED_LINES = 5


def _remarks(loaded: Loaded, *, redacted: bool) -> Iterator[str]:
    if not loaded.removed:
        return
    lines = Counter(loaded.removed)
    quoted = [
        f'"{line}"' + (f" ({count} times)" if count > 1 else "")
        for line, count in lines.most_common(MAX_QUOTED_LINES)
    ]
    more = f" and {len(lines) - len(quoted)} more" if len(lines) > len(quoted) else ""
    # Removed lines are not sanitised, so they are not quoted if text has to be.
    listed = "" if redacted else f": {', '.join(quoted)}{more}"
    count = "1 line was" if len(loaded.removed) == 1 else f"{len(loaded.removed)} lines were"
    yield (
        f"{count} left out as running heads or page numbers{listed}. "
        "Use running_heads (-o running_heads=true) to keep them."
    )


def _notes(
    loaded: Loaded, flags: FigureFlags, figures: Sequence[FigureRecord], described: int
) -> Iterator[str]:
    """Yield log lines about pictures, and about content that the parser could not read."""
    yield from loaded.warnings
    counts = loaded.pictures
    if not flags.any and not counts.blips:
        return
    reason = "none" if flags.placeholders or flags.chunks else "flags_disabled"
    written = len(loaded.images) if flags.extract_images else 0
    yield (
        f"DOCX_IMAGES_SUMMARY blips_found={counts.blips} rels_total={counts.rels_total} "
        f"rels_mapped={counts.rels_mapped} zip_member_miss={counts.zip_member_miss} "
        f"images_written={written} image_emit_skip_reason={reason}"
    )
    if flags.any:
        shown = len(figures) if flags.placeholders else 0
        parents = sum(record.parent is not None for record in figures) if described else 0
        yield (
            f"DOCX_FIGURE_CHUNKING_SUMMARY placeholders={shown} figure_chunks={described} "
            f"parent_links={parents}"
        )
    placed = [spot.figure for block in order_blocks(loaded.blocks) for spot in block.figures]
    for number, figure in enumerate(placed if flags.debug else (), 1):
        picture = figure.bytes_in(loaded.images)
        size = len(picture.data) if picture else 0
        reference = figures[number - 1].image_ref if number <= len(figures) else None
        yield (
            f"DOCX_IMAGE number={number} origin={figure.origin or '-'} bytes={size} "
            f"image_ref={reference or '-'} alt={'yes' if figure.alt else 'no'}"
        )


def measure_sentences(measured: MeasuredText) -> MeasuredSentences:
    """Return each sentence with its digest and token count, which later reads are checked by."""
    # Between white space, counts add up: the count of nearly all sentences is a difference of the
    # map's totals. Sentences that touch a neighbour are counted individually.
    import numpy as np

    bounds, tokens = Sentences.of(measured.sentences), measured.tokens
    starts, ends = np.asarray(bounds.starts), np.asarray(bounds.ends)
    units, totals = np.asarray(tokens.starts), np.asarray(tokens.totals)
    # The same type as the map's: otherwise the whole map would be converted for the comparison.
    first = np.searchsorted(units, starts.astype(units.dtype))
    counts = totals[np.searchsorted(units, ends.astype(units.dtype))] - totals[first]
    touching = np.flatnonzero(starts[1:] == ends[:-1])
    for place in {*touching.tolist(), *(touching + 1).tolist()}:
        counts[place] = tokens.count(int(starts[place]), int(ends[place]))
    text = measured.canonical.text
    spans = zip(bounds.starts, bounds.ends, strict=True)
    if text.isascii():
        # In ASCII, offsets of characters are offsets of bytes.
        data = text.encode()
        digests = [sha256(data[start:end]).digest() for start, end in spans]
    else:
        digests = [sha256(text[start:end].encode()).digest() for start, end in spans]
    # The garbage collector ignores tuples of numbers and of bytes.
    return MeasuredSentences(bounds.starts, bounds.ends, tuple(counts.tolist()), tuple(digests))


def text_chunks(
    measured: MeasuredText, chunking: ChunkingProfile, input_limit: int
) -> tuple[NewChunk, ...]:
    chunks = make_chunks(measured, chunk_spans(measured, chunking, input_limit))
    return deduplicate(chunks) if chunking.dedupe else chunks


def make_chunks(measured: MeasuredText, spans: Sequence[Span]) -> tuple[NewChunk, ...]:
    """Turn spans into chunks. Starts and ends of spans both increase, so two cursors suffice."""
    canonical, text = measured.canonical, measured.canonical.text
    bounds = Sentences.of(measured.sentences)
    starts, ends = list(bounds.starts), list(bounds.ends)
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
        sentence_ends = [stop - start for stop in ends[first:past]]
        if sentence_ends and sentence_ends[-1] > end - start:
            # Only the last sentence can end after the chunk.
            sentence_ends[-1] = end - start
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
                tokens=measured.tokens.count(start, end),
                sentence_ends=sentence_ends,
                chapter=place.chapter,
                section=place.section,
                page=canonical.page_at(start) if canonical.pages else None,
                location=canonical.location(end - len(content.lstrip()), end),
            )
        )
    return tuple(chunks)


LIKENESS_REMARKS = {
    Likeness.NOVEL: "Ingested as a book, because its numbered chapters tell a story. "
    "If it is not a book, ingest it with the kind 'document'.",
    Likeness.CHAPTERS: "It has numbered chapters. If it is read from front to back, ingest it with "
    "the kind 'book'.",
}


CountWords: TypeAlias = Callable[[Sequence[NewChunk], str], CountedWords]
"""Counts the words of chunks in a language."""


class Content(Struct, frozen=True):
    """Bytes of a source, and the name to parse them by."""

    name: str
    data: bytes
    digest: str
    format: FileFormat
    line: int = 0
    """Line of the file in which a record without an id begins, counted from 1; else 0."""


class DraftTask(Struct, frozen=True):
    """A source to parse, and everything else that its draft depends on."""

    source: Source
    content: Content
    options: ParseOptions
    recipe: str
    preparation: Preparation
    input_limit: int
    chunking: ChunkingProfile | None = None
    """Chunking profile of the generation, if it has one."""
    may_be_novel: bool = False
    validators: Validators | None = None
    original: str | None = None
    """Path of another document with the same content; only for a new source."""
    counts_words: bool = False


def prepare(
    preparation: Preparation, declared: DocumentOptions, content: Content, counter: TokenCounter
) -> tuple[ParseOptions, str]:
    options = preparation.parse_options(declared, content.format)
    recipe = preparation.recipe(
        declared,
        counter,
        pictures=content.format.has_pictures,
        parse_options=options,
        line=content.line,
    )
    return options, recipe


def run_task(
    task: DraftTask,
    parser: SourceParser,
    counter: TokenCounter,
    count_words: CountWords | None = None,
    trace: RequestTrace = NULL_OBSERVER,
) -> Draft:
    """Return the draft of a source, with its words if they are counted; raises SourceRefused."""
    source, content, preparation = task.source, task.content, task.preparation
    with trace.stage(Stage.BLOCKS):
        loaded = parser.parse(content.name, content.data, task.options)
    loaded = _with_line(loaded, content.line)
    recipe, likeness = task.recipe, Likeness.OTHER
    if task.may_be_novel:
        likeness = classify(loaded.blocks)
    if likeness is Likeness.NOVEL:
        source = replace(source, declared=replace(source.declared, kind=DocumentKind.BOOK))
        recipe = prepare(preparation, source.declared, content, counter)[1]
    draft = make_draft(
        source,
        loaded,
        preparation=preparation,
        source_hash=content.digest,
        recipe=recipe,
        parser=parser,
        counter=counter,
        input_limit=task.input_limit,
        chunking=task.chunking,
        trace=trace,
    )
    remark = LIKENESS_REMARKS.get(likeness)
    remarks = (remark,) if remark else ()
    words = None
    if task.counts_words and count_words is not None:
        words = count_words(draft.chunks, draft.language)
    return replace(
        draft,
        validators=task.validators,
        notes=(*draft.notes, *remarks),
        remarks=(*draft.remarks, *remarks),
        words=words,
    )


def _with_line(loaded: Loaded, line: int) -> Loaded:
    if not line:
        return loaded
    first, *others = loaded.blocks
    first = replace(first, pages=(PageStart(0, line, "line"),))
    return replace(loaded, blocks=(first, *others))

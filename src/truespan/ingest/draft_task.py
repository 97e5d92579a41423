"""The draft of one source, from its bytes: a pure step, which any process can do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from truespan.ingest.draft import Preparation, make_draft
from truespan.observer import NULL_OBSERVER, RequestTrace
from truespan.parsing import Traits
from truespan.protocols import SourceParser, TokenCounter
from truespan.text.novel import Likeness, classify
from truespan.types.chunk import NewChunk
from truespan.types.document import CountedWords, Draft
from truespan.types.profile import ChunkingProfile
from truespan.types.source import DocumentKind, DocumentOptions, ParseOptions, Source
from truespan.types.telemetry import Stage
from truespan.types.text import Loaded, PageStart, Validators

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
    traits: Traits
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
    counts_words: bool = False


class DraftTools(Struct, frozen=True):
    """Tools that make drafts, the same for all sources."""

    parser: SourceParser
    counter: TokenCounter
    count_words: CountWords | None = None


def prepare(
    preparation: Preparation, declared: DocumentOptions, content: Content, counter: TokenCounter
) -> tuple[ParseOptions, str]:
    options = preparation.parse_options(declared, content.traits)
    recipe = preparation.recipe(
        declared,
        counter,
        pictures=content.traits.pictures,
        parse_options=options,
        line=content.line,
    )
    return options, recipe


def run_task(task: DraftTask, tools: DraftTools, trace: RequestTrace = NULL_OBSERVER) -> Draft:
    """Return the draft of a source, with its words if they are counted; raises SourceRefused."""
    source, content, preparation = task.source, task.content, task.preparation
    with trace.stage(Stage.BLOCKS):
        loaded = tools.parser.parse(content.name, content.data, task.options)
    loaded = _with_line(loaded, content.line)
    recipe, likeness = task.recipe, Likeness.OTHER
    if task.may_be_novel:
        likeness = classify(loaded.blocks)
    if likeness is Likeness.NOVEL:
        source = replace(source, declared=replace(source.declared, kind=DocumentKind.BOOK))
        recipe = prepare(preparation, source.declared, content, tools.counter)[1]
    draft = make_draft(
        source,
        loaded,
        preparation=preparation,
        source_hash=content.digest,
        recipe=recipe,
        parser=tools.parser,
        counter=tools.counter,
        input_limit=task.input_limit,
        chunking=task.chunking,
        trace=trace,
    )
    remark = LIKENESS_REMARKS.get(likeness)
    remarks = (remark,) if remark else ()
    words = None
    if task.counts_words and tools.count_words is not None:
        words = tools.count_words(draft.chunks, draft.language)
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

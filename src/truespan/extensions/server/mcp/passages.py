"""Passages as text for a model: each under a header, between fences that no document can imitate.

Many clients show a model only the text of a result. A header says where a passage is from. Below
it the verified text stands between two lines of tildes, more of them than any passage has in a row,
so that no document can end its own passage or begin another one. The text is
unchanged, except that tables may be in Markdown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from truespan.core.graphemes import shorten
from truespan.core.records import copy_fields
from truespan.retrieval.repeats import EqualTexts
from truespan.text.tables import format_tables
from truespan.types.bundle import ContextBundle, Passage, SearchResult, SourceNote
from truespan.types.text import join_locations, name_best, name_sources

MAX_LABEL_LENGTH = 120
MAX_SENTENCE_LENGTH = 1000
"""Maximum length of labels and sentences in a header; the structured content has all of them."""
SHORTEST_FENCE = 3
_TILDES = re.compile("~+")


class TextPassage(Struct, frozen=True):
    """Verified text and the fields of its header."""

    document: int
    title: str
    source: str
    chapters: tuple[str, ...]
    location: str | None
    first_sid: int
    last_sid: int
    start: int
    end: int
    text: str
    best: str = ""
    """Place of the best sentence, if it is more exact than that of the passage."""
    also_in: tuple[str, ...] = ()
    """The sources of other places that have the same text."""


def passages_of_bundle(bundle: ContextBundle, *, in_reading_order: bool) -> list[TextPassage]:
    """Return the passages of a bundle, the best first or in the order of the book."""
    notes = zip(bundle.retrieved_chunks, bundle.metadata.sources, strict=True)
    passages = [_passage(note, chunk.chapter, chunk.content) for chunk, note in notes]
    if in_reading_order:
        passages.sort(key=lambda passage: (passage.first_sid, passage.start, passage.end))
    return join_overlapping(passages)


def passages_of_search(result: SearchResult) -> list[TextPassage]:
    """Return the passages of a search, the best first."""
    return join_overlapping(_passage(found, found.chapter, found.text) for found in result.passages)


def _passage(found: Passage | SourceNote, chapter: str, text: str) -> TextPassage:
    return copy_fields(
        TextPassage,
        found,
        source=found.path,
        chapters=(chapter,),
        text=text,
        best=name_best(chapter, None, found.location, found.best_sentence),
        also_in=tuple(other.source_url for other in found.other_places),
    )


def join_overlapping(passages: Iterable[TextPassage]) -> list[TextPassage]:
    """Return passages in their order, with overlapping passages merged into the first."""
    ranked = list(enumerate(_merge(passages)))
    # The description of a figure is not the text at its place.
    joined = [entry for entry in ranked if not _is_text(entry[1])]
    texts = [entry for entry in ranked if _is_text(entry[1])]
    texts.sort(key=lambda entry: (entry[1].document, entry[1].start, entry[1].end))
    last: tuple[int, TextPassage] | None = None
    for rank, passage in texts:
        if last is None:
            last = (rank, passage)
        elif last[1].document == passage.document and passage.start <= last[1].end:
            last = (min(last[0], rank), _join(last[1], passage))
        else:
            joined.append(last)
            last = (rank, passage)
    joined += [] if last is None else [last]
    return [passage for _, passage in sorted(joined, key=lambda entry: entry[0])]


def _merge(passages: Iterable[TextPassage]) -> list[TextPassage]:
    """Return passages without repeated texts; the first with a text gets the places of the others.

    In `contract` worlds, each passage is a separate result.
    """
    texts, merged = EqualTexts[int](), list[TextPassage]()
    for passage in passages:
        number = texts.add(passage.text, len(merged))
        if number == len(merged):
            merged.append(passage)
        else:
            known = merged[number]
            merged[number] = replace(
                known, also_in=(*known.also_in, passage.source, *passage.also_in)
            )
    return merged


def _is_text(passage: TextPassage) -> bool:
    return len(passage.text) == passage.end - passage.start


def _join(before: TextPassage, after: TextPassage) -> TextPassage:
    return replace(
        before,
        chapters=(*before.chapters, *after.chapters),
        location=join_locations((before.location, after.location)),
        last_sid=max(before.last_sid, after.last_sid),
        end=max(before.end, after.end),
        text=before.text + after.text[before.end - after.start :],
        best=before.best or after.best,
        also_in=(*before.also_in, *after.also_in),
    )


def render_passages(passages: Sequence[TextPassage], *, tables: bool = False) -> str:
    """Return each passage under its header; empty if there are none.

    With `tables`, tables are in Markdown.
    """
    runs = (len(run) for passage in passages for run in _TILDES.findall(passage.text))
    fence = "~" * max(SHORTEST_FENCE, 1 + max(runs, default=0))
    documents: dict[str, set[int]] = {}
    for passage in passages:
        documents.setdefault(passage.title.casefold(), set()).add(passage.document)
    blocks: list[str] = []
    for number, passage in enumerate(passages, 1):
        shares_title = len(documents[passage.title.casefold()]) > 1
        header = describe_passage(passage, name_source=shares_title)
        text = format_tables(passage.text) if tables else passage.text
        blocks.append(f"[{number}] {header}\n{fence}\n{text}\n{fence}")
    return "\n\n".join(blocks)


def describe_passage(passage: TextPassage, *, name_source: bool) -> str:
    """Return the place of a passage on one line: title, chapter, location, sentences."""
    title = one_line(passage.title)
    if name_source:
        title += f" ({one_line(passage.source)})"
    chapters = [one_line(name) for name in passage.chapters if name and name != passage.title]
    place = f" › {' to '.join(dict.fromkeys((chapters[0], chapters[-1])))}" if chapters else ""
    first, last = passage.first_sid, passage.last_sid
    sentences = f"sentence {first}" if first == last else f"sentences {first}-{last}"
    location = f", {passage.location}" if passage.location else ""
    others = f"; also in {one_line(name_sources(passage.also_in))}" if passage.also_in else ""
    return f"{title}{place}{location}, {sentences}{one_line(passage.best)}{others}"


def one_line(label: str, longest: int = MAX_LABEL_LENGTH) -> str:
    """Return a label without line breaks and control characters, cut to a readable length."""
    printable = "".join(char if char.isprintable() else " " for char in label)
    return shorten(" ".join(printable.split()), longest, "…")

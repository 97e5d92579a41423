"""The output of a loader for a text does not depend on later text.

Two files of a format begin with the same units and end differently. Up to the sentence from which
on their texts differ, they must have the same places, pages, white space and figures, and the same
chunks, in every chunking. That is all that a reader who is at that sentence can be shown.
"""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.laws.examples import in_test_or_prove
from tests.laws.texts import Document
from tests.promises import proves
from tests.support.file_pairs import FORMATS, Pair, draw_pair
from tests.support.read_files import ReadFile, count_common, find_names, read_file
from truespan.errors import SourceRefused
from truespan.ingest.chunking import chunk_spans
from truespan.ingest.draft import make_chunks
from truespan.types.chunk import NewChunk
from truespan.types.profile import SENTENCES, TOKENS, WINDOW

PAIRS = in_test_or_prove(20, 1500)
"""Number of pairs of each format."""
CHUNKINGS = [
    replace(profile, whole_rows=True, whole_words=True)
    for profile in (WINDOW, SENTENCES, TOKENS, replace(WINDOW, size=160, overlap=30))
]


def settled_chunks(doc: Document, count: int) -> list[list[NewChunk]]:
    """Return the chunks of each chunking that depend on the first sentences alone."""
    measured, found = doc.measured, list[list[NewChunk]]()
    for profile in CHUNKINGS:
        chunks = make_chunks(measured, chunk_spans(measured, profile, 500))
        found.append([chunk for chunk in chunks if chunk.reach < count])
    return found


def shown_of(doc: Document, count: int) -> dict[str, object]:
    """Return everything about the first sentences of a document except their text."""
    canonical, items = doc.canonical, doc.sentences[:count]
    end = items[-1].end if items else 0
    return {
        "sentences": items,
        "text": canonical.text[:end],
        "places": [canonical.place_at(item.start) for item in items],
        "pages": [canonical.page_start(item.start) for item in items],
        "starts": [start for start in canonical.starts if start < end],
        "figures": [spot.offset for spot in canonical.figures if spot.offset < end],
        "captions": [start for start in canonical.captions if start < end],
        "chunks": settled_chunks(doc, count),
    }


def lost_names(pair: Pair, first: ReadFile, second: ReadFile, count: int) -> list[str]:
    """Return the names of units of the head that are not among the common sentences.

    The last unit may go on in the tail. Lists of what lies ahead come at the end of a text.
    """
    common = find_names(first.text[: first.sentences[count - 1].end] if count else "")
    shown = (first.names | second.names) - common - (first.listed & second.listed)
    return [name for name in pair.names[:-1] if name in shown]


@proves("reading.non-interference")
@pytest.mark.parametrize("name", FORMATS)
def test_loader_output_does_not_depend_on_later_text(name: str) -> None:
    form, failures, compared = FORMATS[name], [], 0
    for seed in range(PAIRS):
        pair = draw_pair(form, seed)
        try:
            first, second = (
                read_file(name, data, divide_tables=seed % 4 > 0)
                for data in (pair.first, pair.second)
            )
        except SourceRefused as refused:
            refused.raise_unless("source_empty")
            continue
        count = count_common(first, second)
        compared += count
        one, other = shown_of(first, count), shown_of(second, count)
        failures += [
            f"{name}, seed {seed}: {key}\n  {one[key]}\n  {other[key]}"
            for key in one
            if one[key] != other[key]
        ]
        if form.in_order and (lost := lost_names(pair, first, second, count)):
            failures.append(f"{name}, seed {seed}: other sentences before {lost}")

    assert not failures, "\n\n".join(failures[:5])
    assert compared > PAIRS

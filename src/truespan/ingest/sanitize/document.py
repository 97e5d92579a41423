"""Sanitising a loaded document: its blocks, labels, title, properties and the words of figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from truespan.ingest.clean import clean
from truespan.ingest.sanitize.audit import AuditCounts, Mode, joined
from truespan.ingest.sanitize.replace import moved
from truespan.ingest.sanitize.sanitizer import Sanitizer
from truespan.model.text import Block, Loaded, PageStart, PlacedFigure, Properties


def sanitized_loaded(loaded: Loaded, sanitizer: Sanitizer) -> tuple[Loaded, AuditCounts]:
    """Return a document as it is to be kept, and its audit record.

    Each block and each label is looked at by itself: no value is found that begins in one block and
    ends in another. A label that many blocks share is counted once.
    """
    if sanitizer.mode is Mode.OFF:
        return loaded, AuditCounts()
    work = _Work(sanitizer)
    kept = replace(
        loaded,
        blocks=tuple(work.block(block) for block in loaded.blocks),
        title=work.label(loaded.title),
        properties=work.properties(loaded.properties),
    )
    # In shadow mode nothing changes, not even what cleaning would change.
    return (kept if sanitizer.mode is Mode.ON else loaded), joined(work.records)


class _Work:
    """One pass over a document."""

    def __init__(self, sanitizer: Sanitizer) -> None:
        self._sanitizer = sanitizer
        self._labels: dict[str, str] = {}
        self.records: list[AuditCounts] = []

    def block(self, block: Block) -> Block:
        text = clean(block.text)
        done = self._sanitizer.apply(text)
        self.records.append(done.counts)
        places = {offset: offset for offset in _offsets(block)}
        # Without findings a block keeps its bytes; whoever assembles it cleans it anyway.
        if done.edits:
            offsets = _cleaned(block.text, text, list(places))
            places = dict(zip(places, moved(offsets, done.edits), strict=True))
        return replace(
            block,
            text=done.text if done.edits else block.text,
            chapter=self.label(block.chapter),
            section=self.label(block.section),
            figures=tuple(self._figure(placed, places) for placed in block.figures),
            pages=tuple(PageStart(places[page.offset], page.page) for page in block.pages),
        )

    def label(self, label: str | None) -> str | None:
        """Sanitise a short text, and count what is in it the first time it comes."""
        if not label:
            return label
        if label not in self._labels:
            done = self._sanitizer.apply(clean(label))
            self.records.append(done.counts)
            self._labels[label] = done.text if done.edits else label
        return self._labels[label]

    def properties(self, properties: Properties) -> Properties:
        return replace(
            properties,
            title=self.label(properties.title),
            authors=tuple(self.label(author) or "" for author in properties.authors),
            keywords=tuple(self.label(word) or "" for word in properties.keywords),
            description=self.label(properties.description),
            publisher=self.label(properties.publisher),
            # Sources write what they like where a date or a code belongs.
            created=self.label(properties.created),
            modified=self.label(properties.modified),
            language=self.label(properties.language),
        )

    def _figure(self, placed: PlacedFigure, places: dict[int, int]) -> PlacedFigure:
        figure = placed.figure
        alt, origin = self.label(figure.alt) or "", self.label(figure.origin) or ""
        return PlacedFigure(places[placed.offset], replace(figure, alt=alt, origin=origin))


def _offsets(block: Block) -> list[int]:
    figures = {placed.offset for placed in block.figures}
    return sorted(figures.union(page.offset for page in block.pages))


def _cleaned(text: str, clean_text: str, offsets: Sequence[int]) -> Sequence[int]:
    """Return where ascending offsets of a text are in the clean one.

    The pieces between them are cleaned by themselves. That differs from the whole only where an
    offset parts what cleaning looks at together, such as the two characters of a line end.
    """
    if text == clean_text:
        return offsets
    found: list[int] = []
    begin = length = 0
    for offset in offsets:
        length += len(clean(text[begin:offset]))
        found.append(min(length, len(clean_text)))
        begin = offset
    return found

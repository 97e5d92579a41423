"""The answer where no model is configured: the best passages themselves, quoted and cited."""

from __future__ import annotations

from collections.abc import Sequence

from truespan.answer.once import told_once
from truespan.answer.quotes import SidsOf
from truespan.model.answer import Quote
from truespan.model.chunk import ChunkKind
from truespan.model.trail import Visible


def quoted(sources: Sequence[Visible]) -> str:
    """Return each source as block quotes, with its number and its place below; nothing twice."""
    told = enumerate(zip(sources, told_once(sources), strict=True), 1)
    return "\n\n".join(
        "\n\n".join([*(_block(source.text[a:b]) for a, b in spans), f"[{number}] {_place(source)}"])
        for number, (source, spans) in told
    )


def quotes_of(sources: Sequence[Visible], sids_of: SidsOf) -> tuple[Quote, ...]:
    """Return the quotes of such an answer. They are the trusted text, so that all of them hold."""
    return tuple(
        Quote(
            " ".join(source.text[a:b].split()),
            True,
            source.chunk_id,
            source.document,
            *_sids(source, a, b, sids_of),
        )
        for source, spans in zip(sources, told_once(sources), strict=True)
        for a, b in spans
    )


def _sids(source: Visible, start: int, end: int, sids_of: SidsOf) -> tuple[int, int]:
    if source.kind is not ChunkKind.TEXT:
        return source.first_sid, source.last_sid
    return sids_of(source, source.last_sid, source.start + start, source.start + end)


def _block(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _place(source: Visible) -> str:
    labels = dict.fromkeys((source.title, source.chapter, source.section))
    page = f", page {source.page}" if source.page is not None else ""
    return " › ".join(" ".join(label.split()) for label in labels) + page

"""A text too long for the model, cut where sentences end."""

from __future__ import annotations

from truespan.ingest.cut import cut
from truespan.ingest.sentences import split_sentences
from truespan.model.profile import ChunkingProfile, Strategy
from truespan.model.text import CanonicalText
from truespan.ports import TokenCounter

_WHOLE = ChunkingProfile("parts", Strategy.SENTENCES, size=1_000_000, overlap=0)


def parts(text: str, counter: TokenCounter, limit: int) -> list[str]:
    """Return a text in parts of whole sentences, each of at most `limit` tokens."""
    stripped = text.strip()
    if counter.count(stripped) <= limit:
        return [stripped]
    canonical = CanonicalText(stripped)
    spans = cut(canonical, split_sentences(canonical), counter.measure(stripped), _WHOLE, limit)
    return [stripped[span.start : span.end] for span in spans]

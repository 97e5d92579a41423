"""Places of the source sentences that support the claims of an answer."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from truespan.answers.citations import GROUP
from truespan.answers.quotes import Locate
from truespan.retrieval.best_sentence import STEMMED_AS, find_best, known_spans
from truespan.text.sentences import sentence_spans
from truespan.types.answer import SentenceSupport, Support
from truespan.types.chunk import ChunkKind
from truespan.types.text import SentencePlace
from truespan.types.trust import Visible


def place_claims(
    answer: str, support: Support, sources: Sequence[Visible], locate: Locate
) -> Support:
    """Return the check with the place of the best matching source sentence of each supported claim.

    The best match has the most words of the claim, weighted by rarity.
    """
    known: dict[tuple[int, tuple[int, int]], SentencePlace | None] = {}

    def place(claim: SentenceSupport) -> SentenceSupport:
        source = sources[claim.source - 1] if claim.supported and claim.source else None
        if source is None or source.kind is not ChunkKind.TEXT:
            return claim
        spans = known_spans(source) or list(sentence_spans(source.text, STEMMED_AS))
        # Citation numbers are not words of the claim.
        best = find_best(GROUP.sub(" ", answer[claim.start : claim.end]), source.text, spans)
        if best is None:
            return claim
        span = spans[best]
        key = claim.source or 0, span
        if key not in known:
            start, end = source.start + span[0], source.start + span[1]
            known[key] = locate(source, source.last_sid, start, end).place
        return replace(claim, place=known[key])

    return replace(support, sentences=tuple(map(place, support.sentences)))

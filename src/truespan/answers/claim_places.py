"""The places of the sentences that supported claims rest on."""

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
    """Return a check with the place in its passage of each supported sentence of an answer.

    It is that of the sentence of the passage with most of the words, rare ones first.
    """
    known: dict[tuple[int, tuple[int, int]], SentencePlace | None] = {}

    def place(claim: SentenceSupport) -> SentenceSupport:
        source = sources[claim.source - 1] if claim.supported and claim.source else None
        if source is None or source.kind is not ChunkKind.TEXT:
            return claim
        spans = known_spans(source) or list(sentence_spans(source.text, STEMMED_AS))
        # The numbers of sources are no words of the claim.
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

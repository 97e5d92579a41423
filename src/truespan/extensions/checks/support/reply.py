"""The support check as one of the checks of a reply, with the places of supported claims."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from truespan.answers.checks import CheckedReply, CheckResult
from truespan.answers.citations import GROUP
from truespan.answers.quotes import Locate
from truespan.errors import OperatorError, ServiceError
from truespan.extensions.checks.support.check import check_support
from truespan.retrieval.best_sentence import known_spans, spoken_in
from truespan.text.sentences import sentence_spans
from truespan.types.answer import SentenceSupport, Support
from truespan.types.bundle import Notice
from truespan.types.chunk import ChunkKind
from truespan.types.text import SentencePlace
from truespan.types.trust import Visible
from truespan.words.searched import SearchedWords

_BY_WORDS = Notice(
    "support_by_words",
    "The embedding model failed, so sentences were compared with the sources by words only.",
)
_UNCITED = Notice("uncited_answer", "The answer cites none of its sources.")


def check_reply(reply: CheckedReply) -> CheckResult:
    """Compare a reply with its sources, sentence by sentence."""
    text, sources, warnings = reply.text, reply.sources, list[Notice]()
    given = text, sources, reply.quotes
    try:
        support = check_support(*given, reply.comparison, reply.question)
    except (OperatorError, ServiceError):
        # The answer is complete; a failure of the embedding model must not withhold it.
        support = check_support(*given, question=reply.question)
        warnings.append(_BY_WORDS)
    if sources and support.claims and all(part.chunk_id is None for part in reply.citations):
        warnings.append(_UNCITED)
    if sources and support.supported < support.claims:
        warnings.append(_name_unsupported(support))
    return CheckResult(tuple(warnings), place_claims(text, support, sources, reply.locate))


def _name_unsupported(support: Support) -> Notice:
    count, claims = support.claims - support.supported, support.claims
    verb = "is" if count == 1 else "are"
    return Notice(
        "unsupported_sentence",
        f"{count} of {claims} sentences {verb} not supported by the sources.",
    )


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
        language = spoken_in(source)
        spans = known_spans(source) or list(sentence_spans(source.text, language))
        # Citation numbers are not words of the claim.
        words = SearchedWords(GROUP.sub(" ", answer[claim.start : claim.end]))
        best = words.find_best(source.text, language, spans)
        if best is None:
            return claim
        span = spans[best]
        key = claim.source or 0, span
        if key not in known:
            start, end = source.start + span[0], source.start + span[1]
            known[key] = locate(source, source.last_sid, start, end).place
        return replace(claim, place=known[key])

    return replace(support, sentences=tuple(map(place, support.sentences)))

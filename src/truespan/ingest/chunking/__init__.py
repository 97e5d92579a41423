"""Where chunks begin and end: canonical text and its sentences to spans, by the profile's strategy.

A span is decided by nothing that lies beyond its `reach`. Cut the document short after any sentence
that is not before the reach, and the same span comes out at the same index. That is what lets a
reader's results be found among stored chunks without a trace of what was not read yet.
"""

from __future__ import annotations

from collections.abc import Sequence

from truespan.ingest.chunking.sentences import cut_sentences
from truespan.ingest.chunking.tokens import cut_tokens
from truespan.ingest.chunking.window import cut_window
from truespan.types.profile import ChunkingProfile, Strategy
from truespan.types.text import CanonicalText, Sentence, Span, TokenMap

_STRATEGIES = {
    Strategy.WINDOW: cut_window,
    Strategy.SENTENCES: cut_sentences,
    Strategy.TOKENS: cut_tokens,
}


def cut(
    canonical: CanonicalText,
    sentences: Sequence[Sentence],
    tokens: TokenMap,
    profile: ChunkingProfile,
    input_limit: int,
) -> list[Span]:
    """Return the spans of a text in order; starts and ends both grow from one to the next.

    No span holds more than `input_limit` tokens, save a single code point that alone has more. None
    is white space only: a text without sentences has no chunks.
    """
    if not sentences:
        return []
    return _STRATEGIES[profile.strategy](canonical, sentences, tokens, profile, input_limit)

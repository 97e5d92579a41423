"""Cutting text at grapheme boundaries."""

from itertools import accumulate

from tests.laws.texts import document
from tests.promises import proves
from truespan.core.graphemes import MAX_CLUSTER_LENGTH, cut_before, shorten
from truespan.types.answer import preview
from truespan.types.profile import ChunkingProfile, Strategy

CLUSTERS = [
    "a", "e\u0301", "o\u0302\u0323", " ", "\r\n", "漢", "👍🏽", "👩‍👩‍👧‍👦", "❤️", "🇫🇷", "🇩🇪", "🇯🇵",
    "b", "🏴\U000e0067\U000e0062\U000e0065\U000e007f", "1️⃣", "\u1112\u1161\u11ab", "한",
    "क्षि", "நி", "ก็", "🏳️‍🌈", ".",
]  # fmt: skip
"""Each is one character to a reader."""


def splits(text: str, offset: int) -> bool:
    """Return whether an offset lies within a grapheme cluster of a text."""
    bounds = {0, *accumulate(map(len, _clusters(text)))}
    return offset not in bounds


def _clusters(text: str) -> list[str]:
    found: list[str] = []
    while text:
        longest = max((part for part in CLUSTERS if text.startswith(part)), key=len)
        found.append(longest)
        text = text[len(longest) :]
    return found


@proves("interfaces.whole-characters")
def test_no_cut_falls_within_a_character() -> None:
    for clusters in (CLUSTERS, CLUSTERS[::-1], [part for part in CLUSTERS for _ in range(2)]):
        text = "".join(clusters)
        bounds = [0, *accumulate(map(len, clusters))]
        for offset in range(len(text) + 1):
            expected = max(bound for bound in bounds if bound <= offset)
            assert cut_before(text, offset) == expected, (offset, text[:offset])
            assert text.startswith(shorten(text, offset))
        assert shorten(text, len(text), "…") == text
        for most in range(8, len(text)):
            short = shorten(text, most, "…")
            assert len(short) <= most
            assert not splits(text, len(short) - 1)


@proves("interfaces.whole-characters")
def test_endless_character_is_cut_like_any_text() -> None:
    marks = "e" + "\u0301" * 10_000
    assert cut_before(marks, 5000) == 5000
    assert cut_before("👩‍👩‍👧‍👦", 3) == 3
    assert cut_before(f"ab{marks}", 2 + MAX_CLUSTER_LENGTH // 2) == 2


@proves("interfaces.whole-characters")
def test_previews_and_parts_keep_graphemes_whole() -> None:
    family, accent = "👩‍👩‍👧‍👦", "e\u0301"
    for cluster in (family, accent, "🇫🇷"):
        long = cluster * 400
        assert not splits(long, len(preview(long)))
        doc = document(long)
        assert len(doc.sentences) == 1
        packed = ChunkingProfile("packed", Strategy.SENTENCES, 8, 2, pack=101)
        tokens = ChunkingProfile("tokens", Strategy.TOKENS, 101, 30)
        for profile in (packed, tokens):
            spans = doc.chunk_spans(profile)
            assert len(spans) > 1
            assert not any(splits(long, edge) for span in spans for edge in span[:2])

"""Find passages of different documents that contradict each other.

Two sentences disagree if their words are the same, except for one number or date, or a negation.
Sentences that also differ in a name, or in further words on both sides, are about different things:
"the rent of the small hall" is not the rent of the large hall. Only text that the answer got is
compared.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import combinations

from msgspec import Struct

from truespan.answers.quotes import Locate, place_quote
from truespan.answers.support.names import find_lower_words, find_name_words, fold_name
from truespan.answers.support.numbers import Number, find_numbers, numbers_agree
from truespan.answers.support.vocabulary import Negated, Vocabulary, guess_language
from truespan.text.sentences import sentence_spans
from truespan.types.answer import Disagreement, DisagreementKind, Statement
from truespan.types.chunk import ChunkKind
from truespan.types.trust import Visible

MAX_DISAGREEMENTS = 5
MIN_COMMON = 2
"""Minimum number of content words that two statements share."""
MIN_SHARE = 0.6
"""Minimum share of common words among all words of both statements."""
MAX_STATEMENT_LENGTH = 400
"""Maximum number of characters of a statement; longer sentences say too many things."""
MAX_PAIRS = 20_000
_LABEL_WORDS = """
    act annex appendix apartment article bus chapter clause column day edition exhibit figure flight
    floor gate group house level line model no number page paragraph part phase platform question
    release room route row rule season section step table track type unit version volume week
"""
_LABELS = frozenset(_LABEL_WORDS.split())
"""Words before a number that names a thing instead of counting something."""
_WORD_BEFORE = re.compile(r"(?<![^\W\d_])([^\W\d_]{1,30}+)[\s.#:]{0,5}+\Z")


class _Said(Struct, frozen=True):
    """A sentence of a passage with its words, numbers and negation."""

    number: int
    source: Visible
    span: tuple[int, int]
    text: str
    stems: frozenset[str]
    names: frozenset[str]
    values: tuple[Number, ...]
    labels: frozenset[float | str]
    """Numbers that are names, such as the number of a chapter."""
    negated: Negated


def find_disagreements(sources: Sequence[Visible], locate: Locate) -> tuple[Disagreement, ...]:
    """Return the statements of different documents that disagree, at most `MAX_DISAGREEMENTS`."""
    texts = [source.text for source in sources if source.kind is ChunkKind.TEXT]
    if len({source.document for source in sources}) < 2 or not texts:
        return ()
    vocabulary = Vocabulary(guess_language(" ".join(texts)) or "english")
    ordinary = find_lower_words(texts)
    said = [
        sentence
        for number, source in enumerate(sources, 1)
        if source.kind is ChunkKind.TEXT
        for sentence in _read(number, source, vocabulary, ordinary)
    ]
    found: dict[tuple[str, str], Disagreement] = {}
    for one, other in _pairs(said):
        kind, values = _compare(one, other)
        if kind is not None and len(found) < MAX_DISAGREEMENTS:
            statements = _state(one, values[0], locate), _state(other, values[1], locate)
            found.setdefault((one.text, other.text), Disagreement(kind, statements))
    return tuple(found.values())


def _read(
    number: int, source: Visible, vocabulary: Vocabulary, ordinary: frozenset[str]
) -> Iterator[_Said]:
    """Yield the sentences of a passage that have enough words to be compared."""
    for start, end in sentence_spans(source.text, vocabulary.code):
        text = source.text[start:end].strip()
        stems = vocabulary.stems(text)
        if len(stems) < MIN_COMMON or len(text) > MAX_STATEMENT_LENGTH:
            continue
        numbers = [each for each in find_numbers(text, vocabulary.language) if not each.implied]
        labels = [each for each in numbers if _is_label(text, each)]
        names = find_name_words(text, vocabulary.language, ordinary)
        yield _Said(
            number=number,
            source=source,
            span=(source.start + start, source.start + end),
            text=text,
            stems=frozenset(stems),
            names=frozenset(fold_name(text[name.start : name.end]) for name in names),
            values=tuple(each for each in numbers if each not in labels),
            labels=frozenset(value for each in labels for value in each.values),
            negated=vocabulary.negated(text),
        )


def _is_label(text: str, number: Number) -> bool:
    before = _WORD_BEFORE.search(text[max(0, number.start - 40) : number.start])
    return before is not None and before[1].casefold() in _LABELS


def _pairs(said: Sequence[_Said]) -> Iterator[tuple[_Said, _Said]]:
    """Yield pairs of sentences of different documents that share enough words."""
    places: defaultdict[str, list[int]] = defaultdict(list)
    for place, sentence in enumerate(said):
        for stem in sentence.stems:
            places[stem].append(place)
    common: defaultdict[tuple[int, int], int] = defaultdict(int)
    for sharing in places.values():
        for pair in combinations(sharing, 2):
            if len(common) < MAX_PAIRS or pair in common:
                common[pair] += 1
    for (first, second), shared in sorted(common.items()):
        one, other = said[first], said[second]
        every = len(one.stems | other.stems)
        is_alike = shared >= MIN_COMMON and shared / every >= MIN_SHARE
        if is_alike and one.source.document != other.source.document and one.text != other.text:
            yield one, other


def _compare(one: _Said, other: _Said) -> tuple[DisagreementKind | None, tuple[str, str]]:
    """Return how two sentences about the same thing disagree, and the words that differ."""
    if one.names != other.names or one.labels != other.labels:
        return None, ("", "")
    if one.stems - other.stems and other.stems - one.stems:
        return None, ("", "")
    mine = _without(one.values, other.values)
    theirs = _without(other.values, one.values)
    if not mine and not theirs:
        word = _differing_negation(one, other)
        kind = DisagreementKind.NEGATION if word else None
        return kind, (word, word)
    if len(mine) != 1 or len(theirs) != 1 or mine[0].dimension != theirs[0].dimension:
        return None, ("", "")
    is_date = any(isinstance(value, str) for value in mine[0].values | theirs[0].values)
    kind = DisagreementKind.DATE if is_date else DisagreementKind.NUMBER
    return kind, (_spelt(one.text, mine[0]), _spelt(other.text, theirs[0]))


def _without(numbers: Sequence[Number], others: Sequence[Number]) -> list[Number]:
    """Return the numbers that differ from all numbers of the other sentence."""
    return [
        number
        for number in numbers
        if not any(numbers_agree(number, given) or numbers_agree(given, number) for given in others)
    ]


def _spelt(text: str, number: Number) -> str:
    return text[number.start : number.end]


def _differing_negation(one: _Said, other: _Said) -> str:
    """Return a common word that only one of two sentences negates; blank if there is none."""
    for word in sorted(one.stems & other.stems):
        if word in one.negated.core and word not in other.negated.reach:
            return word
        if word in other.negated.core and word not in one.negated.reach:
            return word
    return ""


def _state(said: _Said, value: str, locate: Locate) -> Statement:
    source, text = said.source, " ".join(said.text.split())
    quote = place_quote(text, source, source.last_sid, said.span, locate)
    return Statement(number=said.number, title=source.title, value=value, quote=quote)

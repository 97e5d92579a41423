"""The words of a text that are evidence: neither stop words nor numbers nor frequent words."""

from __future__ import annotations

from collections import Counter

from msgspec import Struct

from truespan.answers.support.negation import Negated, find_negated
from truespan.answers.support.numbers import UNITS
from truespan.words.stop_words import STOP_WORDS
from truespan.words.terms import stem_function, words

_CODES = {
    "danish": "da",
    "dutch": "nl",
    "english": "en",
    "finnish": "fi",
    "french": "fr",
    "german": "de",
    "italian": "it",
    "norwegian": "no",
    "polish": "pl",
    "portuguese": "pt",
    "russian": "ru",
    "spanish": "es",
    "swedish": "sv",
}
"""Code of each language that has stop words."""
_NEUTRAL_WORDS = """
    according answer cites describes document documents excerpt explains mentions mentioned notes
    passage passages says said source sources stated states tells told text texts writes wrote
    two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty sixty
    seventy eighty ninety hundred thousand million billion percent per cent
    across almost along already although always among another anyone around away back became become
    came cannot come comes due either else even ever every find found gave get gets give given gives
    go goes going got happened happen however instead kept keep keeps let like made make makes many
    may might much must nearly need needs never next nobody none nothing now often one ought per put
    rather several shall since still take taken takes though thus together took toward towards
    well went whether will within without yet
"""
_NEUTRAL = frozenset(_NEUTRAL_WORDS.split())
"""Words that are no evidence: references to the sources, numbers, which are compared as such, and
words so frequent that any text may have them."""


def guess_language(text: str) -> str | None:
    """Return the language with most function words in a text; None if there are too few."""
    own = Counter(words(text[:4000]))
    long = {word for word in own if len(word) > 1}
    counts = {name: sum(own[word] for word in long & stops) for name, stops in STOP_WORDS.items()}
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] >= 2 else None


class Vocabulary(Struct, frozen=True):
    """The stems of words in one language."""

    language: str

    @property
    def code(self) -> str:
        """The code of the language, by which sentences are split."""
        return _CODES.get(self.language, "en")

    def labels(self, text: str) -> frozenset[str]:
        """Return the stems and numbers of a text, as they are compared with labels."""
        stem = stem_function(self.language, whole=True)
        stops = STOP_WORDS.get(self.language, frozenset())
        return frozenset(stem(word) for word in words(text) if word not in stops)

    def stems(self, text: str) -> list[str]:
        """Return the stems of the words of a text that are evidence, in order."""
        stem = stem_function(self.language, whole=True)
        stops = STOP_WORDS.get(self.language, frozenset())
        return [
            stem(word)
            for word in words(text)
            if len(word) > 1
            and not word[0].isdigit()
            and word not in stops
            and word not in _NEUTRAL
            and word not in UNITS
        ]

    def negated(self, text: str) -> Negated:
        """Return the stems of the negated words of a text."""
        stem = stem_function(self.language, whole=True)
        stops = STOP_WORDS.get(self.language, frozenset())
        found = find_negated(text, self.language, stops | _NEUTRAL)
        return Negated(frozenset(map(stem, found.core)), frozenset(map(stem, found.reach)))

"""The words of a text that are evidence, and those of them that are negated.

Stop words, numbers and frequent words are no evidence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container

from msgspec import Struct

from truespan.extensions.checks.support.numbers import UNITS, word_list
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


_NEGATIONS: dict[str, frozenset[str]] = {
    "english": frozenset(
        word_list(
            "not no never none nobody nothing nowhere neither nor without cannot hardly scarcely "
            "barely fail failed fails refuse refused refuses lacks lacked lacking unable n"
        )
    ),
    "german": frozenset(
        word_list(
            "nicht kein keine keinen keinem keiner keines nie niemals niemand nichts ohne weder"
        )
    ),
    "french": frozenset(word_list("ne n pas jamais aucun aucune rien personne sans ni")),
    "spanish": frozenset(
        word_list("no nunca jamás ningún ninguna ninguno nada nadie sin ni tampoco")
    ),
    "italian": frozenset(word_list("non mai nessun nessuno nessuna niente nulla senza né")),
    "portuguese": frozenset(word_list("não nunca jamais nenhum nenhuma nada ninguém sem nem")),
    "dutch": frozenset(word_list("niet geen nooit niemand niets zonder noch")),
    "swedish": frozenset(word_list("inte ej icke aldrig ingen inget inga utan")),
    "russian": frozenset(word_list("не нет ни никогда никто ничего без")),
    "polish": frozenset(word_list("nie nigdy nikt nic bez ani żaden żadna")),
}
_CLAUSE_WORD = re.compile(r"[^\W_]+|[.,;:!?()—–\n]")
_CLAUSE_ENDS = frozenset(".,;:!?()—–\n")
_TURNS = frozenset(
    word_list("but however although though yet except aber sondern mais pero ma maar")
)
_CORE, _SCOPE = 1, 5
"""Number of words after a negation that are surely negated, and that may be negated."""
_OBJECTS = frozenset(word_list("nothing nobody none nowhere"))
_NEUTRAL_NEGATIONS = re.compile(
    r"\bnot only\b|\bno (?:less|fewer|later|more|sooner|matter|doubt|wonder|one else|fewer) \w+"
    r"|\bnot (?:until|least|just|merely|simply|unlike)\b|\bnothing but\b|\bwhether or not\b",
    re.IGNORECASE,
)


_YET = re.compile(r"\b(?:not|never) yet\b|\byet to\b", re.IGNORECASE)
""""yet" as part of a negation; elsewhere it begins another clause."""


class Negated(Struct, frozen=True):
    """Negated words of a text, case-folded: those next to a negation, and all in its reach."""

    core: frozenset[str]
    reach: frozenset[str]


def find_negated(text: str, language: str, ignored: Container[str]) -> Negated:
    """Return the negated words of a text; `ignored` words, such as stop words, are skipped.

    In English a negation precedes the negated word, except for "nothing" and similar words, which
    may follow their verb. In other languages the whole clause counts.
    """
    cues = _NEGATIONS.get(language, frozenset[str]())
    text = _NEUTRAL_NEGATIONS.sub(lambda found: " " * len(found[0]), text)
    text = re.sub(r"n[’']t\b", " not ", text)
    text = _YET.sub(" not ", text)
    core: set[str] = set()
    reach: set[str] = set()
    clause: list[str] = []
    left = near = 0
    denied = False
    for token in (*(found[0].casefold() for found in _CLAUSE_WORD.finditer(text)), "."):
        if token in _CLAUSE_ENDS or token in _TURNS:
            if denied and language != "english":
                core |= set(clause)
                reach |= set(clause)
            clause, left, near, denied = [], 0, 0, False
        elif token in cues:
            denied, left, near = True, _SCOPE, _CORE
            if token in _OBJECTS and clause:
                core.add(clause[-1])
                reach.add(clause[-1])
        elif token not in ignored:
            clause.append(token)
            if left:
                reach.add(token)
                left -= 1
            if near and language == "english":
                core.add(token)
                near -= 1
    return Negated(frozenset(core), frozenset(reach))


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

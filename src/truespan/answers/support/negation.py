"""Negated words of a text."""

from __future__ import annotations

import re
from collections.abc import Container

from msgspec import Struct

from truespan.answers.support.numbers import word_list

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
_NEUTRAL = re.compile(
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
    text = _NEUTRAL.sub(lambda found: " " * len(found[0]), text)
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

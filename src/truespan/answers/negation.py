"""Which words of a text stand under a negation."""

from __future__ import annotations

import re


def _listed(words: str) -> list[str]:
    return words.split()


_NEGATIONS: dict[str, frozenset[str]] = {
    "english": frozenset(
        _listed(
            "not no never none nobody nothing nowhere neither nor without cannot hardly scarcely "
            "barely fail failed fails refuse refused refuses lacks lacked lacking unable n"
        )
    ),
    "german": frozenset(
        _listed(
            "nicht kein keine keinen keinem keiner keines nie niemals niemand nichts ohne weder"
        )
    ),
    "french": frozenset(_listed("ne n pas jamais aucun aucune rien personne sans ni")),
    "spanish": frozenset(
        _listed("no nunca jamás ningún ninguna ninguno nada nadie sin ni tampoco")
    ),
    "italian": frozenset(_listed("non mai nessun nessuno nessuna niente nulla senza né")),
    "portuguese": frozenset(_listed("não nunca jamais nenhum nenhuma nada ninguém sem nem")),
    "dutch": frozenset(_listed("niet geen nooit niemand niets zonder noch")),
    "swedish": frozenset(_listed("inte ej icke aldrig ingen inget inga utan")),
    "russian": frozenset(_listed("не нет ни никогда никто ничего без")),
    "polish": frozenset(_listed("nie nigdy nikt nic bez ani żaden żadna")),
}
_CLAUSE_WORD = re.compile(r"[^\W_]+|[.,;:!?()—–\n]")
_CLAUSE_ENDS = frozenset(".,;:!?()—–\n")
_TURNS = frozenset(_listed("but however although though yet except aber sondern mais pero ma maar"))
_SCOPE = 6
"""Words after a negation that it may be about."""
_NEUTRAL = re.compile(
    r"\bnot only\b|\bno (?:less|fewer|later|more|sooner|matter|doubt|wonder|one else|fewer) \w+"
    r"|\bnot (?:until|least|just|merely|simply|unlike)\b|\bnothing but\b|\bwhether or not\b",
    re.IGNORECASE,
)


def negated_words(text: str, language: str) -> set[str]:
    """Return the words, case-folded, that stand under a negation: after it, in the same clause."""
    cues = _NEGATIONS.get(language)
    if cues is None:
        return set()
    text = _NEUTRAL.sub(lambda found: " " * len(found[0]), text)
    text = re.sub(r"n[’']t\b", " not ", text)
    found: set[str] = set()
    left = 0
    for token in _CLAUSE_WORD.finditer(text):
        word = token[0].casefold()
        if word in _CLAUSE_ENDS or word in _TURNS:
            left = 0
        elif word in cues:
            left = _SCOPE
        elif left:
            found.add(word)
            left -= 1
    return found
